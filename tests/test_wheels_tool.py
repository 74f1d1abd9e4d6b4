"""Check what `dev.py wheels` builds in which order, what it replaces, and what it refuses."""

import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

PROJECT = """
[build-system]
requires = ["setuptools>=77"{requires}]
build-backend = "setuptools.build_meta"
[project]
name = "{name}"
version = "{version}"
[tool.setuptools]
py-modules = ["{module}"]
"""
SETUP = (
    "import toy_core, setuptools\nassert toy_core.__file__.startswith({interface!r}), toy_core.__file__\nsetuptools.setup()\n"
)


@pytest.fixture
def toys(wheels_tool, tmp_path, monkeypatch):
    """Let the tool see two members, of which the second is built with the first."""
    root = tmp_path / "root"
    projects = {
        "backend": PROJECT.format(name="toy-backend", version="1.2", module="toy_backend", requires=', "toy-core"'),
        "core": PROJECT.format(name="toy-core", version="1.2", module="toy_core", requires=""),
        ".": PROJECT.format(name="toy", version="1.2", module="toy", requires="").partition("[tool.setuptools]")[0]
        + '[tool.setuptools]\npy-modules = []\n[tool.dovetail.workspace]\nmembers = ["core", "backend"]\n',
    }
    for folder, text in projects.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / "pyproject.toml").write_text(text)
    for name in ("README.md", "LICENSE"):
        (root / name).write_text(name)
    for above in wheels_tool.TAKEN_ALONG:
        (root / above).mkdir()
    (root / "core" / "toy_core.py").write_text("answer = 42\n")
    (root / "backend" / "toy_backend.py").write_text("")
    (root / "backend" / "setup.py").write_text(SETUP.format(interface=str(tmp_path / "work" / "interface")))
    monkeypatch.setattr(wheels_tool, "ROOT", root)
    monkeypatch.setattr(wheels_tool.dev, "ROOT", root)
    return root


def test_a_member_is_built_with_the_wheel_of_another(wheels_tool, toys, tmp_path):
    """The backend's setup.py fails if it finds another core, or none."""
    told = []
    build = wheels_tool.Build(tmp_path / "work")
    made = build.everything(wheels_tool.workspace(), repair=False, tell=told.append)
    assert [path.name for path in made] == [
        *("toy_core-1.2-py3-none-any.whl", "toy_core-1.2.tar.gz"),
        *("toy_backend-1.2-py3-none-any.whl", "toy_backend-1.2.tar.gz"),
        *("toy-1.2-py3-none-any.whl", "toy-1.2.tar.gz"),
    ]
    assert all(path.is_file() for path in made)
    names = [line.partition(":")[0] for line in told]
    assert names.index("toy-core") < names.index("toy-backend")
    assert wheels_tool.check_versions(made) == "1.2"


def test_a_failure_names_the_step_and_its_log(wheels_tool, toys, tmp_path):
    (toys / "core" / "setup.py").write_text("raise SystemExit('no such compiler')\n")
    with pytest.raises(wheels_tool.Failure, match="toy-core-sdist") as caught:
        wheels_tool.Build(tmp_path / "work").everything(wheels_tool.workspace(), repair=False)
    assert "no such compiler" in caught.value.log.read_text()
    assert not list((tmp_path / "work" / "wheels").glob("toy_backend*"))


def test_an_sdist_that_lacks_a_file_makes_no_wheel(wheels_tool, toys, tmp_path):
    (toys / "core" / "setup.py").write_text("import setuptools\nopen('read_by_the_build')\nsetuptools.setup()\n")
    (toys / "core" / "read_by_the_build").write_text("")
    with pytest.raises(wheels_tool.Failure, match="toy-core-wheel"):
        wheels_tool.Build(tmp_path / "work").everything(wheels_tool.workspace(), repair=False)


def test_older_files_of_ours_go_and_others_stay(wheels_tool, toys, tmp_path):
    dist = tmp_path / "dist"
    dist.mkdir()
    older = ("toy-0.9-py3-none-any.whl", "toy_core-0.9-cp311-cp311-linux_x86_64.whl", "toy_backend-0.9.tar.gz")
    others = ("toyota-0.9-py3-none-any.whl", "numpy-2.0-cp311-cp311-linux_x86_64.whl", "toy_core.txt")
    for name in (*older, *others):
        (dist / name).write_text("old")
    new = tmp_path / "toy_core-1.2-py3-none-any.whl"
    new.write_text("new")
    wheels_tool.publish([new], wheels_tool.workspace(), dist)
    assert {path.name: path.read_text() for path in dist.iterdir()} == {**dict.fromkeys(others, "old"), new.name: "new"}


def test_several_versions_are_refused(wheels_tool, capsys):
    paths = [Path("a-1.0-py3-none-any.whl"), Path("a-1.0.tar.gz"), Path("b-1.1-py3-none-any.whl")]
    with pytest.raises(SystemExit):
        wheels_tool.check_versions(paths)
    assert "different versions (1.0: a; 1.1: b); write one number into every pyproject.toml" in capsys.readouterr().err


def test_the_report_has_a_row_for_each_file(wheels_tool, tmp_path):
    for name, size in (("toy-1.2.tar.gz", 1000), ("toy_core-1.2-cp311-cp311-manylinux_2_34_x86_64.whl", 2_500_000)):
        (tmp_path / name).write_bytes(b"0" * size)
    rows = wheels_tool.report(list(tmp_path.iterdir()), 12.3).splitlines()
    assert [row.split() for row in rows] == [
        ["toy", "sdist", "1", "kB"],
        ["toy_core", "cp311-cp311-manylinux_2_34_x86_64", "2,500", "kB"],
        ["2", "files,", "2.5", "MB,", "in", "12", "s"],
    ]


def test_only_members_with_compiled_sources_are_for_one_platform(wheels_tool, members):
    compiled = {member.folder for member in wheels_tool.workspace() if wheels_tool.is_compiled(member)}
    assert compiled == {member.name for member in members if any((member / "src").rglob("*.pyx"))}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_cibuildwheel_takes_our_configuration(release, root, members, wheels_tool, tmp_path):
    """One that it does not understand ends it; each compiled member has the same builds."""
    venv.create(tmp_path, with_pip=True, symlinks=True)
    python = tmp_path / "bin" / "python"
    release.from_index("cibuildwheel", python, "-m", "pip", "install", "-q", "--only-binary", ":all:", "cibuildwheel>=3")
    expected = [f"cp3{minor}-manylinux_{machine}" for machine in ("x86_64", "aarch64") for minor in (11, 12, 13)]
    for member in filter(wheels_tool.is_compiled, wheels_tool.workspace()):
        command = (python, "-m", "cibuildwheel", "--print-build-identifiers", "--platform", "linux")
        said = release.check(*command, "--config-file", root / "pyproject.toml", member.path, cwd=root)
        assert said.split() == expected, member.folder


@pytest.mark.parametrize(
    ("folder", "refused"), [("core", ""), ("neon_backend", ""), ("sdk", "no compiled module is installed")]
)
def test_what_cibuildwheel_tries_of_a_wheel_tells_good_from_bad(root, folder, refused):
    command = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["cibuildwheel"]["test-command"]
    words = command.replace("{project}", str(root)).replace("{package}", str(root / folder)).split()[1:]
    words.remove("-I")  # here the checkout is what is tried
    done = subprocess.run([sys.executable, *words], check=False, capture_output=True, text=True)
    assert (done.returncode != 0) == bool(refused), done.stderr
    assert refused in done.stderr
