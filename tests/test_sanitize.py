"""Check what `dev.py sanitize` reads from sanitizers' reports, copies, and compiles again."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess

import pytest

ASAN = """=================================================================
==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602000000014 at pc 0x4011 bp 0x7ffd sp 0x7ffd
READ of size 4 at 0x602000000014 thread T0
    #0 0x4011 in kernel csrc/kernel.c:12
"""
UBSAN = """csrc/kernel.c:9:13: runtime error: signed integer overflow: 2147483647 + 1 cannot be represented in type 'int'
    #0 0x4011 in kernel csrc/kernel.c:9
csrc/kernel.c:9:13: runtime error: signed integer overflow: 2147483646 + 9 cannot be represented in type 'int'
    #0 0x4011 in kernel csrc/kernel.c:9
"""


@pytest.fixture
def sanitize(root, tmp_path, monkeypatch):
    """Load the tool with folders of its own."""
    spec = importlib.util.spec_from_file_location("sanitize", root / "tools" / "sanitize.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setattr("sys.path", [str(root), *__import__("sys").path])
    spec.loader.exec_module(module)
    for name, path in (("ROOT", tmp_path), ("HOME", tmp_path / "home"), ("REPORTS", tmp_path / "reports")):
        monkeypatch.setattr(module, name, path)
    (tmp_path / "reports").mkdir()
    return module


def test_each_place_is_told_once_and_anything_found_counts(sanitize, capsys):
    assert sanitize.reports() == 0
    (sanitize.REPORTS / "asan.1").write_text(ASAN)
    (sanitize.REPORTS / "ubsan.2").write_text(UBSAN)
    (sanitize.REPORTS / "ubsan.3").write_text(UBSAN)
    assert sanitize.reports() == 2
    told = capsys.readouterr().out
    assert told.count("signed integer overflow") == 1
    assert "heap-buffer-overflow" in told
    assert "kernel.c:12" in told


def test_arguments_of_python_are_taken_as_they_are(sanitize):
    for arguments in ([], ["-m", "pytest", "-q", "--quick"], ["script.py", "-h"]):
        given = sanitize.parsed(arguments)
        assert (given.quick, given.arguments) == (False, arguments)
    given = sanitize.parsed(["--quick"])
    assert (given.quick, given.arguments) == (True, [])
    with pytest.raises(SystemExit):
        sanitize.parsed(["--help"])


def test_what_did_not_change_keeps_its_time_and_what_is_gone_goes(sanitize, tmp_path):
    for name in ("kept.c", "changed.c", "gone.c", "built.so"):
        (tmp_path / "member").mkdir(exist_ok=True)
        (tmp_path / "member" / name).write_text("int one;")
    target = sanitize.copy_sources("member", tmp_path / "sources")
    assert sorted(path.name for path in target.iterdir()) == ["changed.c", "gone.c", "kept.c"]
    before = (target / "kept.c").stat().st_mtime_ns
    (tmp_path / "member" / "changed.c").write_text("int two;")
    (tmp_path / "member" / "gone.c").unlink()
    sanitize.copy_sources("member", tmp_path / "sources")
    assert (target / "kept.c").stat().st_mtime_ns == before
    assert (target / "changed.c").read_text() == "int two;"
    assert not (target / "gone.c").exists()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="the scripts call gcc")
def test_the_flags_find_what_they_are_for(sanitize, tmp_path):
    scripts = sanitize.compilers()
    faults = {
        "heap-buffer-overflow": "char *p = malloc(4); return p[argc + 3];",
        "runtime error: signed integer overflow": "return 2147483647 + argc;",
        "runtime error: 1e+10 is outside the range": "volatile double d = 1e10 * argc; return (int)d;",
        "runtime error: load of misaligned address": "char *p = malloc(9); return *(int *)(p + argc);",
        "runtime error: shift exponent 33": "return 1 << (32 + argc);",
    }
    for number, (told, body) in enumerate(faults.items()):
        source = tmp_path / f"fault{number}.c"
        source.write_text(f"#include <stdlib.h>\nint main(int argc, char **argv) {{ (void)argv; {body} }}\n")
        program = tmp_path / f"fault{number}"
        subprocess.run([scripts["CC"], str(source), "-o", str(program)], check=True, capture_output=True)
        done = subprocess.run([str(program)], check=False, capture_output=True, text=True)
        assert told in done.stderr, (told, done.stderr)
