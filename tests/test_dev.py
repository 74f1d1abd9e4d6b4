"""dev.py must never let a stale binary be tested, and must explain what a machine lacks."""

import importlib.util
import os
import subprocess
import sys
import sysconfig
import types

import pytest

BACKEND = """
[build-system]
requires = ["setuptools", "Toy_Core==0.1.*"]
[project]
name = "toy-backend"
dependencies = ["numpy"]
"""


@pytest.fixture
def dev(root, tmp_path, monkeypatch):
    """Load dev.py with a workspace of two toy members; the second builds against the first."""
    spec = importlib.util.spec_from_file_location("dev", root / "dev.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "STATE", tmp_path / "state")
    files = {
        "core/pyproject.toml": BACKEND.replace("toy-backend", "toy-core").replace(', "Toy_Core==0.1.*"', ""),
        "core/src/toy/abi.h": "int one;",
        "core/src/toy/private.pyx": "x = 1",
        "core/src/toy/plain.py": "x = 1",
        "backend/pyproject.toml": BACKEND,
        "backend/csrc/kernel.c": "int two;",
        "backend/tests/probe.c": "int three;",
        "state/tools.stamp": "[]",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return module


def digests(dev):
    members = [dev.Member("core"), dev.Member("backend")]
    return [member.digest(members) for member in members]


@pytest.mark.parametrize(
    ("changed", "rebuilt"),
    [
        ("core/src/toy/abi.h", [True, True]),
        ("core/src/toy/private.pyx", [True, False]),
        ("core/src/dovetail_build/flags.py", [False, True]),
        ("core/src/toy/plain.py", [False, False]),
        ("backend/csrc/kernel.c", [False, True]),
        ("backend/pyproject.toml", [False, True]),
        ("backend/tests/probe.c", [False, False]),
        ("backend/build/generated.c", [False, False]),
        ("state/tools.stamp", [True, True]),
    ],
)
def test_a_change_rebuilds_what_depends_on_it(dev, tmp_path, changed, rebuilt):
    before = digests(dev)
    (tmp_path / changed).parent.mkdir(exist_ok=True)
    with (tmp_path / changed).open("a") as file:
        file.write("\n")
    assert [new != old for new, old in zip(digests(dev), before, strict=True)] == rebuilt


def test_a_renamed_source_rebuilds(dev, tmp_path):
    before = digests(dev)
    (tmp_path / "backend/csrc/kernel.c").rename(tmp_path / "backend/csrc/core.c")
    assert digests(dev)[1] != before[1]


def test_a_binary_that_was_touched_or_lost_is_built_again(dev, tmp_path, monkeypatch):
    built = []
    binary = tmp_path / "backend/src/toy_backend/kernel.so"

    def build(*_):
        built.append(binary.exists())
        binary.parent.mkdir(parents=True, exist_ok=True)
        binary.write_text("new")

    monkeypatch.setattr(dev, "pip", build)
    member = dev.Member("backend")
    for spoil in (lambda: None, lambda: None, binary.unlink, lambda: binary.write_text("other")):
        spoil()
        member.install([member])
    assert built == [False, False, False]  # first, after the loss, after the touch; no old binary is there when building


def test_a_build_for_this_machine_serves_the_demo_and_nothing_else(dev, tmp_path, monkeypatch):
    built = []
    binary = tmp_path / "backend/src/toy_backend/kernel.so"

    def build(text, *_):
        built.append((text, os.environ.get(dev.NATIVE_ONLY)))
        binary.parent.mkdir(parents=True, exist_ok=True)
        binary.write_text(str(len(built)))

    monkeypatch.setattr(dev, "pip", build)
    member = dev.Member("backend")
    member.install([member], native_only=True)
    assert built == [("backend: building", None)]  # it has no shorter build
    (tmp_path / "backend/setup.py").write_text(f"import os\nos.environ.get('{dev.NATIVE_ONLY}')\n")
    for native_only in (True, True, False, True, False):
        member.install([member], native_only=native_only)
    assert built[1:] == [("backend: building for this machine", "1"), ("backend: building", None)]
    assert dev.NATIVE_ONLY not in os.environ


@pytest.mark.parametrize(("for_demo", "installed"), [(True, ["core"]), (False, ["core", "backend"])])
def test_the_demo_does_not_wait_for_what_it_does_not_need(dev, tmp_path, monkeypatch, for_demo, installed):
    workspace = '[tool.dovetail.workspace]\nmembers = ["core", "backend"]\nnot_in_the_demo = ["backend"]\n'
    (tmp_path / "pyproject.toml").write_text(workspace + "[dependency-groups]\nbuild = []\n")
    found = []
    monkeypatch.setattr(dev, "make_environment", lambda: None)
    monkeypatch.setattr(dev, "pip", lambda *_: None)
    monkeypatch.setattr(dev.Member, "install", lambda member, *_, **__: found.append(member.folder))
    dev.install([], build=True, for_demo=for_demo)
    assert found == installed


def test_distributions_are_compared_by_their_normalized_names(dev):
    assert dev.distribution("Dovetail_Core[x]>=1; python_version > '3'") == "dovetail-core"


@pytest.mark.parametrize(
    ("environment", "arguments", "sentence"),
    [
        ({"CC": "no-such-compiler"}, ["setup"], "no C compiler ('no-such-compiler') is on PATH; install one"),
        (
            {"CXX": "no-such-compiler"},
            ["setup"],
            "no C++ compiler ('no-such-compiler') works here, which CpuAcc needs; install",
        ),
        (
            {},
            ["tset"],
            "there is no command 'tset'; choose one of demo, test, lint, bench, aarch64, fuzz, sanitize, simulate, "
            "wheels, setup.",
        ),
        ({}, ["bench", "nope"], "there is no benchmark 'nope'; choose one of convolution, deadlines, first_runs, "),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(root, environment, arguments, sentence):
    command = [sys.executable, str(root / "dev.py"), *arguments]
    done = subprocess.run(command, env={**os.environ, **environment}, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"dev.py: {sentence}")
    assert done.stderr.count("\n") == 1


@pytest.fixture
def compilers(dev, tmp_path, monkeypatch):
    """Put programs of these names on PATH, alone; each ends as it is told."""
    monkeypatch.setattr(dev, "sysconfig", types.SimpleNamespace(get_config_var=lambda name: "x86_64-linux-gnu-g++"))
    monkeypatch.setenv("CXX", "")  # as good as none
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def put(**codes):
        (tmp_path / "bin").mkdir()
        for name, code in codes.items():
            script = tmp_path / "bin" / name.replace("x", "+")
            script.write_text(f"#!/bin/sh\nexit {code}\n")
            script.chmod(0o755)

    return put


def test_a_cpp_compiler_that_lacks_its_parts_is_explained(dev, compilers, capsys):
    compilers(gcc=0, gxx=1)  # g++ has no cc1plus
    with pytest.raises(SystemExit):
        dev.require_cpp_compiler()
    assert "no C++ compiler ('x86_64-linux-gnu-g++') works here" in capsys.readouterr().err
    assert not os.environ["CXX"]


def test_another_cpp_compiler_is_taken_only_where_none_was_named(dev, compilers, monkeypatch):
    compilers(gxx=1, clangxx=0)
    dev.require_cpp_compiler()
    assert os.environ["CXX"] == "clang++"
    monkeypatch.setenv("CXX", "g++")
    with pytest.raises(SystemExit):
        dev.require_cpp_compiler()


@pytest.mark.parametrize("program", ["int main() {", "#include <no_such_header>"])
def test_what_a_cpp_compiler_refuses_counts(dev, tmp_path, program):
    """The machine's own compiler works; one that gets a broken file before ours does not."""
    (tmp_path / "first.h").write_text(program)
    assert dev.compiles_cpp("c++")
    assert not dev.compiles_cpp(f"c++ -include {tmp_path / 'first.h'}")


@pytest.mark.parametrize("name", ["CC", "CXX", "CXXFLAGS"])
def test_another_compiler_rebuilds(dev, monkeypatch, name):
    before = digests(dev)
    monkeypatch.setenv(name, "another")
    assert all(new != old for new, old in zip(digests(dev), before, strict=True))


def test_missing_headers_are_explained(dev, tmp_path, monkeypatch, capsys):
    python = types.SimpleNamespace(get_paths=lambda: {"include": str(tmp_path)}, get_config_var=sysconfig.get_config_var)
    monkeypatch.setattr(dev, "sysconfig", python)
    with pytest.raises(SystemExit):
        dev.require_compiler()
    assert f"Python's C headers are missing ({tmp_path / 'Python.h'}); install them" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["venv", "ensurepip"])
def test_a_python_without_environments_is_explained(dev, monkeypatch, capsys, module):
    monkeypatch.setitem(sys.modules, module, None)  # makes its import fail
    with pytest.raises(SystemExit):
        dev.require_venv()
    assert f"this Python has no '{module}' module" in capsys.readouterr().err


def test_an_old_python_without_a_newer_one_is_explained(dev, monkeypatch, capsys):
    monkeypatch.setattr(dev.sys, "version_info", (3, 9, 1))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit):
        dev.require_python()
    assert "this is Python 3.9 and no python3.11 or newer is on PATH" in capsys.readouterr().err


def test_the_cause_of_a_failed_build_is_not_lost_under_tracebacks(dev):
    log = [
        "  Error compiling",
        "  Traceback:",
        '    File "setup.py", line 1, in run',
        "      call()",
        "           ^^^",
        "  CompileError: x",
    ]
    assert dev.without_traceback(log) == ["  Error compiling", "  Traceback:", "  CompileError: x"]


@pytest.fixture(scope="module")
def fresh(root, tmp_path_factory):
    """What help is made of, in a clone that nothing was set up in."""
    folder = tmp_path_factory.mktemp("clone")
    needed = ["dev.py", "examples/digits/run.py", "tools/fuzz/__init__.py"]
    needed += [str(path.relative_to(root)) for name in ("tools", "benchmarks") for path in (root / name).glob("*.py")]
    for name in needed:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((root / name).read_bytes())
    return folder


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["demo", "--help"], "Recognise"),
        (["test", "-q", "--help"], "pytest"),
        (["lint", "-h"], "mypy"),
        (["bench", "--help"], "overhead  "),
        (["bench", "models", "--help"], "dev.py setup && python3 dev.py bench models --help"),
        (["bench", "loads", "--help"], "--unkept"),
        (["aarch64", "--help"], "QEMU"),
        (["fuzz", "--minutes", "10", "--help"], "dev.py setup && python3 dev.py fuzz --help"),
        (["sanitize", "--help"], "--quick"),
        (["simulate", "--help"], "Oclgrind"),
        (["wheels", "--help"], "--pure"),
        (["setup", "--help"], "only set up"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_help_sets_up_and_builds_nothing(fresh, arguments, told):
    environment = {"PATH": "", "CC": "no-compiler"}
    done = subprocess.run(
        [sys.executable, "-S", "dev.py", *arguments], cwd=fresh, env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"python3 dev.py {arguments[0]} " in done.stdout
    assert told in done.stdout
    assert not (fresh / ".venv").exists()


@pytest.mark.parametrize("name", ["aarch64", "sanitize"])
def test_help_behind_a_program_is_that_program_s(dev, monkeypatch, name):
    called = []
    monkeypatch.setattr(dev, "setup", lambda *_, **__: None)
    monkeypatch.setattr(dev, "run", lambda *words: called.append(words) or 0)
    monkeypatch.setattr(sys, "argv", ["dev.py", name, "-m", "pytest", "--help"])
    assert dev.main() == 0
    assert called == [(f"tools/{name}.py", "-m", "pytest", "--help")]
