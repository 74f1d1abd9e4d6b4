"""What `dovetail new-backend` writes and refuses; the workspace's tests build and run it."""

from __future__ import annotations

import re
import subprocess
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path, PurePosixPath

import pytest
from click.testing import Result

from dovetail import BackendError, OptionError
from dovetail_sdk import bundled
from dovetail_sdk.commands.new_backend import missing_compiler
from dovetail_sdk.scaffold import Names, Template, check_names, templates, write_project

Invoke = Callable[..., Result]
ROOT = Path(__file__).resolve().parents[2]


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", sorted(templates()))
def test_nothing_of_the_template_is_left(dovetail: Invoke, tmp_path: Path, name: str) -> None:
    result = dovetail("new-backend", "initech.fast-kernels", str(tmp_path / "new"), "--id", "Zeta9", "--template", name)
    assert result.exit_code == 0, result.output
    made = files_in(tmp_path / "new")
    assert len(made) == len(templates()[name].files)
    assert not [path for path, content in made.items() if b"acme" in content.lower() or "acme" in path.lower()]
    assert b'name = "initech.fast-kernels"' in made["pyproject.toml"]
    assert "src/initech_fast_kernels/dovetail-backend.json" in made
    assert b'"id": "Zeta9"' in made["src/initech_fast_kernels/dovetail-backend.json"]
    for path, content in made.items():
        if path.endswith(".py"):
            compile(content, path, "exec")


def test_a_template_renamed_to_itself_is_unchanged() -> None:
    for template in templates().values():
        assert template.render(template.names) == template.files


def test_a_new_name_may_hold_the_old_one() -> None:
    template = templates()["backend"]
    made = template.render(Names("dovetail-acme-acme", "CpuAcmeAcme"))
    assert b"class AcmeAcmeBackend(" in made[PurePosixPath("src/dovetail_acme_acme/__init__.py")]


def test_an_id_is_made_from_the_name(dovetail: Invoke, tmp_path: Path) -> None:
    result = dovetail("new-backend", "dovetail-big-initech", str(tmp_path / "new"))
    assert "whose backend is CpuBigInitech" in result.output


def test_the_kind_of_backend_is_no_part_of_the_vendors_name() -> None:
    template = Template("npu", Names("dovetail-acme-npu", "AcmeNpu"), {PurePosixPath("a"): b"Acme acme_npu ACME_NPU AcmeNpu"})
    assert template.default_id("dovetail-initech-npu") == "InitechNpu"
    assert template.render(Names("dovetail-initech-npu", "Id")) == {PurePosixPath("a"): b"Initech initech_npu INITECH_NPU Id"}
    assert template.default_id("dovetail-npu") == "NpuNpu"


def test_a_spelling_that_is_not_known_stops() -> None:
    template = Template("odd", Names("dovetail-acme", "CpuAcme"), {PurePosixPath("a"): b"fine\nan aCme here\n"})
    with pytest.raises(RuntimeError, match="'an aCme here'"):
        template.render(Names("dovetail-initech", "CpuInitech"))


def test_bytes_that_are_no_text_are_copied() -> None:
    template = Template("odd", Names("dovetail-acme", "CpuAcme"), {PurePosixPath("a.bin"): b"acme\0\xff"})
    assert template.render(Names("dovetail-initech", "CpuInitech")) == {PurePosixPath("a.bin"): b"acme\0\xff"}


@pytest.mark.parametrize(
    ("distribution", "complaint"),
    [
        ("", "is not the name of a distribution"),
        ("-initech", "is not the name of a distribution"),
        ("initech-", "is not the name of a distribution"),
        ("initech backend", "is not the name of a distribution"),
        ("../initech", "is not the name of a distribution"),
        ("ïnitech", "is not the name of a distribution"),
        ("3com", "cannot be imported as '3com'"),
        ("dovetail-3com", "cannot be imported"),
        ("class", "cannot be imported as 'class'"),
        ("json", "would replace what is installed"),
        ("numpy", "would replace what is installed"),
        ("dovetail", "would replace what is installed"),
        ("dovetail-core", "would replace what is installed"),
        ("Dovetail_SDK", "would replace what is installed"),
        ("dovetail-reference", "would replace what is installed"),
    ],
)
def test_a_name_that_would_not_do_is_refused(distribution: str, complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint) as raised:
        check_names(distribution, "CpuInitech")
    assert "initech" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("name", "proposed"),
    [
        ("Initech Foo", "dovetail-initech-foo"),
        ("Dovetail/Initech", "dovetail-initech"),
        ("-x-", "dovetail-x"),
        ("ÄÖ", "dovetail-ao"),
        ("猫", "dovetail-initech"),
        ("3 com", "dovetail-initech"),
    ],
)
def test_a_name_that_would_do_is_proposed(dovetail: Invoke, name: str, proposed: str) -> None:
    result = dovetail("new-backend", "--", name)
    assert result.exit_code == 1
    assert f"{name!r} is not the name of a distribution" in result.stderr
    assert f"such as '{proposed}'" in result.stderr
    assert check_names(proposed, "CpuInitech").distribution == proposed


@pytest.mark.parametrize("backend_id", ["CpuRef", "cpuref"])
def test_an_id_that_is_installed_is_refused(backend_id: str) -> None:
    with pytest.raises(OptionError, match=rf"'{backend_id}' is taken: CpuRef is installed \(dovetail-reference"):
        check_names("dovetail-initech", backend_id)


@pytest.mark.parametrize("backend_id", ["", "1Cpu", "Cpu Initech", "Cpu-Initech", "Cpu:1", "C" * 65, "host", "Core"])
def test_an_id_that_would_not_do_is_refused(backend_id: str) -> None:
    with pytest.raises(BackendError, match="is not a backend id"):
        check_names("dovetail-initech", backend_id)


def test_nothing_is_overwritten(dovetail: Invoke, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "README.md").write_text("mine")
    result = dovetail("new-backend", "dovetail-initech", str(tmp_path / "new"))
    assert result.exit_code == 1
    assert "is there already" in result.output
    assert files_in(tmp_path / "new") == {"README.md": b"mine"}
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OptionError, match="is there already"):
        write_project({PurePosixPath("a"): b""}, tmp_path / "file")


def test_an_empty_folder_will_do(dovetail: Invoke, tmp_path: Path) -> None:
    assert dovetail("new-backend", "dovetail-initech", str(tmp_path)).exit_code == 0
    assert (tmp_path / "pyproject.toml").is_file()


def test_an_unknown_template_is_named(dovetail: Invoke, tmp_path: Path) -> None:
    result = dovetail("new-backend", "dovetail-initech", str(tmp_path / "new"), "--template", "backend_gpu")
    assert result.exit_code == 2
    assert "there is no template 'backend_gpu'; there are backend" in result.output
    assert not (tmp_path / "new").exists()


# --- what travels with the sdk --------------------------------------------------------------------


def test_what_a_build_leaves_is_not_taken_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template = tmp_path / "templates" / "backend"
    kept = ["pyproject.toml", "src/acme/kernel.pyx", "csrc/kernel.c"]
    left = ["build/lib/a.py", "src/acme/k.cpython-311-x86_64-linux-gnu.so", "src/acme.egg-info/PKG-INFO", "dist/a.whl"]
    left += ["src/acme/__pycache__/a.pyc", ".pytest_cache/README.md", "kernel.o"]
    for name in kept + left:
        (template / name).parent.mkdir(parents=True, exist_ok=True)
        (template / name).write_text(name)
    monkeypatch.setattr(bundled, "_CHECKOUT", tmp_path)
    assert {str(path) for path in bundled.read_templates()} == {f"backend/{name}" for name in kept}


def test_the_archive_has_what_the_checkout_has() -> None:
    files = bundled.read_templates()
    archive = bundled.archived(files)
    with zipfile.ZipFile(BytesIO(archive)) as opened:
        assert {PurePosixPath(name): opened.read(name) for name in opened.namelist()} == files
    assert bundled.archived(files) == archive


def test_templates_are_the_files_that_git_has() -> None:
    """Nothing more would be in a checkout of somebody else's, nothing less would be a project."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "templates"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    tracked = {name.removeprefix("templates/") for name in listed.split("\0") if name and (ROOT / name).is_file()}
    assert {str(path) for path in bundled.read_templates()} == tracked


def test_digits_is_the_demo_unless_a_file_is_called_so(
    dovetail: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "stem.conv" in dovetail("show", "digits").output
    (tmp_path / "digits").write_text("no model")
    assert dovetail("show", "digits").exit_code == 1


@pytest.mark.parametrize(
    ("template", "variable", "language"), [("backend", "CC", "C"), ("backend_npu", "CXX", r"C\+\+")], ids=["C", "C++"]
)
def test_a_missing_compiler_is_named_before_anything_is_built(
    dovetail: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, template: str, variable: str, language: str
) -> None:
    monkeypatch.setenv(variable, "no-such-compiler -O2")
    folder = tmp_path / "new"
    result = dovetail("new-backend", "dovetail-initech", str(folder), "--template", template, "--install")
    assert result.exit_code == 1
    sentence = (
        rf"new cannot be built: no {language} compiler \('no-such-compiler'\) is on PATH; install one .* in {variable}; then: "
    )
    assert re.search(
        sentence + rf"python -m pip install -q .* && python -m pip install -q .*-e {folder}$", result.output.strip()
    )
    assert (folder / "pyproject.toml").is_file()


def test_a_backend_without_code_to_compile_needs_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert missing_compiler(templates()["backend_runtime"].files) is None


def test_what_pip_cannot_find_has_a_next_step(dovetail: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where dovetail was installed from a folder that pip was told once."""
    monkeypatch.setattr("dovetail_sdk.scaffold.build_requirements", lambda files: ["dovetail-of-no-index"])
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    folder = tmp_path / "new"
    result = dovetail("new-backend", "dovetail-initech", str(folder), "--install")
    assert result.exit_code == 1
    rest = f"python -m pip install -q dovetail-of-no-index && python -m pip install -q --no-build-isolation -e {folder}"
    assert f"export PIP_FIND_LINKS=FOLDER; then: {rest}" in result.output
