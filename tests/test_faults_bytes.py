"""Test faults 21, 22 and 24 of docs/faults.md: damaged libraries, and those of other systems."""

import os

import pytest
from faults.building import header

from dovetail.discovery import elf, scanning
from dovetail.discovery.registry import BackendState


def test_good_library_in_a_searched_folder_works(scene, built):
    path = scene.put(built("faulty"))
    assert scene.row().state is BackendState.AVAILABLE
    row = scene.works()
    assert (row.state, row.path, row.step) == (BackendState.LOADED, str(path), "load")


@pytest.mark.fault(21)
def test_empty_library(scene):
    path = scene.put(b"")
    row = scene.row_of(path)
    assert (row.code, row.step, row.state) == ("NOT_ELF", "bytes", BackendState.BROKEN)
    assert "empty" in row.reason


@pytest.mark.fault(21)
def test_empty_library_in_a_package(scene):
    path = scene.put_in_package(b"")
    scene.refused("NOT_ELF", where=path)


def lengths_of(library):
    """Return twenty lengths to cut a library to: header, tables, segments, the last byte."""
    whole = library.read_bytes()
    with library.open("rb") as file:
        head = elf.check(file.fileno(), str(library))
    start, each, count = head.segments
    fixed = [5, 20, 63, start + 1, start + each, start + each * count - 1]
    begin, each, count = head.sections
    fixed += [begin - 1, begin, begin + 1, begin + each * count - 1]
    steps = [len(whole) * part // 11 for part in range(1, 11)]
    return sorted({length for length in (*fixed, *steps) if 4 <= length < len(whole)})[:20]


@pytest.mark.fault(22)
def test_library_cut_short_at_twenty_lengths(scene, built):
    library = built("faulty")
    lengths = lengths_of(library)
    assert len(lengths) == 20
    for number, length in enumerate(lengths):
        (scene.folder / f"cut{number:02}.so").write_bytes(library.read_bytes()[:length])
    scene.scan()
    rows = [row for row in scene.registry.rows() if row.origin.startswith(str(scene.folder))]
    assert [row.code for row in rows] == ["TRUNCATED"] * 20


@pytest.mark.fault(22)
def test_library_of_a_package_cut_short(scene, built, monkeypatch):
    """The check runs before anything is imported, in this process too: it would die of SIGBUS."""
    monkeypatch.setenv("DOVETAIL_PROBE", "off")
    library = built("core", content=None)
    path = scene.put_in_package(library.read_bytes()[: library.stat().st_size // 3])
    error = scene.refused("TRUNCATED", where=path)
    assert "bytes" in error.message or "byte" in error.message


FOREIGN = {
    "32 bits": (header(1, "<", 3), "WRONG_ARCH", "x86 (32 bit)"),
    "AArch64": (header(2, "<", 183), "WRONG_ARCH", "AArch64"),
    "big-endian": (header(2, ">", 21), "WRONG_ARCH", "PowerPC64 (64 bit big-endian)"),
    "program": (header(kind=2), "NOT_ELF", "type 2"),
    "object file": (header(kind=1), "NOT_ELF", "type 1"),
    "PE": (b"MZ\x90\x00" + bytes(200), "NOT_ELF", "Windows"),
    "Mach-O": (b"\xcf\xfa\xed\xfe\x07\x00\x00\x01" + bytes(200), "NOT_ELF", "macOS"),
    "fat Mach-O": (b"\xca\xfe\xba\xbe" + bytes(200), "NOT_ELF", "macOS"),
    "archive": (b"!<arch>\n" + bytes(60), "NOT_ELF", "archive"),
    "text": (b"GROUP ( /lib/libacme.so )\n", "NOT_ELF", "text"),
    "no class": (b"\x7fELF\x07" + bytes(100), "NOT_ELF", "class 7"),
}


@pytest.mark.fault(24)
@pytest.mark.parametrize("kind", FOREIGN)
def test_library_for_another_system(scene, kind):
    content, code, text = FOREIGN[kind]
    if os.uname().machine != "x86_64" and code == "WRONG_ARCH":
        pytest.skip("the headers are those of other processors than x86-64")
    path = scene.put(content)
    row = scene.row_of(path)
    assert (row.code, row.step) == (code, "bytes")
    assert text in row.reason
    scene.put_in_package(content)
    scene.restart()
    error = scene.refused(code)
    assert text in error.message


def test_preflight_reads_but_headers(built, monkeypatch):
    read = []
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, count, at: (read.append(count), real(fd, count, at))[1])
    with built("faulty").open("rb") as file:
        head = elf.check(file.fileno(), "x")
        assert sum(read) < 2048
        assert b'"Faulty"' in elf.section(file.fileno(), head, scanning.SECTION, 65536)
    assert sum(read) < 16384
