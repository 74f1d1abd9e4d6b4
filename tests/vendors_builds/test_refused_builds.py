"""Check that a build which cannot succeed says why: mistakes, symbols, compilers, headers."""

import re
import shutil
import subprocess
import sys

import pytest

from vendors_builds.toy import built, pip

MANIFEST = "src/dovetail_toy/dovetail-backend.json"


@pytest.mark.parametrize(
    ("file", "old", "new", "complaint"),
    [
        ("pyproject.toml", "dynamic = [", "dependencies = [", 'must say dynamic = ["dependencies"]'),
        ("pyproject.toml", '*.c"', '*.cc"', "no file matches 'csrc/*.cc'"),
        ("pyproject.toml", '"dovetail_toy"', '"dovetail_joy"', "there is no src/dovetail_joy/dovetail-backend.json"),
        ("pyproject.toml", "library-sources", "library_sources", "[tool.dovetail.backend] has no 'library_sources'"),
        ("pyproject.toml", "package =", "class =", 'must have class = "package:Class", or package = "package"'),
        (MANIFEST, '"rank": 10', '"rank": "high"', "'rank'"),
        (MANIFEST, '"rank": 10', '"rank": 10, "claims": {"Softmax": []}', "'Softmax' in 'claims' is no kind"),
        (MANIFEST, ', "library": "libtoy.so"', "", "name its library"),
        (MANIFEST, "}", "", "is no JSON"),
    ],
)
def test_a_mistake_is_named(project, file, old, new, complaint):
    text = (project / file).read_text("utf-8")
    assert old in text
    (project / file).write_text(text.replace(old, new), "utf-8")
    command = [sys.executable, "-c", "import setuptools; setuptools.setup()", "--version"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode
    assert complaint in done.stderr.splitlines()[-1]


def test_a_symbol_that_is_nowhere_defined_fails_the_build(project, tmp_path):
    (project / "csrc" / "in_c.c").write_text("extern int forgotten(void); int from_c(void) { return forgotten(); }\n")
    done = pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, project, cwd=tmp_path)
    assert done.returncode
    assert "forgotten" in done.stdout + done.stderr


def lacking(folder, monkeypatch, cwd, **compilers):
    """Build a wheel with these compilers, which fails; return the sentence that says why."""
    for name, command in compilers.items():
        monkeypatch.setenv(name, str(command))
    done = pip("wheel", "--no-index", "--no-deps", "--no-build-isolation", folder, cwd=cwd)
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    (lines,) = re.findall(r"\[(\d+) lines? of output\]", said)
    assert int(lines) <= 3
    (sentence,) = {line.strip() for line in said.splitlines() if "cannot be built from source here: " in line}
    assert sentence.endswith(", or install a wheel of it")
    return sentence


@pytest.fixture
def core_sources(root, tmp_path):
    """The core as its sdist has it."""
    hidden = shutil.ignore_patterns("*.so", "*.egg-info", "build", "__pycache__")
    return shutil.copytree(root / "core", tmp_path / "core", ignore=hidden)


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_missing_compiler_is_told_in_a_sentence(core_sources, project, tmp_path, monkeypatch):
    """The core's build says the same as that of backends, with nothing to import yet."""
    for name, folder in (("dovetail-core", core_sources), ("dovetail-toy", project)):
        said = lacking(folder, monkeypatch, tmp_path, CC="no-such-compiler", CXX="no-such-one-either")
        assert said.startswith(
            f"{name} cannot be built from source here: there is no C compiler ('no-such-compiler' is not on PATH); install one "
        )
        assert "apt install g++" in said
        assert "name yours in CC" in said


def test_a_missing_cpp_compiler_is_told_where_one_is_needed(project, tmp_path, monkeypatch):
    said = lacking(project, monkeypatch, tmp_path, CXX="no-such-compiler")
    assert "there is no C++ compiler ('no-such-compiler' is not on PATH)" in said
    assert "name yours in CXX" in said
    broken = script(tmp_path / "broken", "exit 1")
    assert f"the C++ compiler '{broken}' does not work (it refuses '#include <cstddef>')" in lacking(
        project, monkeypatch, tmp_path, CXX=broken
    )
    (project / "csrc" / "table.cpp").unlink()
    (project / "csrc" / "in_c.c").write_text(
        '__attribute__((visibility("default"))) int dovetail_open_backend_v0(void *a, void *b, void *c) { return 0; }\n'
    )
    path = project / "pyproject.toml"
    path.write_text(path.read_text("utf-8").replace('"csrc/*.cpp", ', ""))
    assert built(project, tmp_path)


def test_missing_headers_of_python_are_told(core_sources, project, tmp_path, monkeypatch):
    """A library without Python needs none."""
    compiler = shutil.which("gcc") or "cc"
    without = script(
        tmp_path / "without", f'case "$*" in *-fsyntax-only*) grep -q Python.h && exit 1; exit 0;; esac\nexec {compiler} "$@"'
    )
    said = lacking(core_sources, monkeypatch, tmp_path, CC=without)
    assert "Python's C headers are missing (Python.h); install them (Debian, Ubuntu: apt install python3-dev)" in said
    assert built(project, tmp_path)
