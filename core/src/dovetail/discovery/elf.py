"""Look into an ELF file without loading it.

This tells whether all of it is there, whether it is for this machine, and what a section holds.

A library that was cut short is mapped beyond its end by the dynamic loader, and touching that kills
the process with SIGBUS. Layout: System V ABI, chapters 4 and 5.
"""

from __future__ import annotations

import os
import struct
import sys
from functools import cache

from ..ground.records import NamedTuple
from .reasons import ReasonCode, Refused

_MAGIC = b"\x7fELF"
_SHARED = 3  # ET_DYN
_NOBITS = 8  # SHT_NOBITS: takes no room in the file
_NULL = 0  # PT_NULL and SHT_NULL: to be ignored
_MAX_SECTIONS = 4096
_MACHINES = {3: "x86", 8: "MIPS", 20: "PowerPC", 21: "PowerPC64", 22: "s390x", 40: "ARM", 62: "x86-64", 183: "AArch64"} | {
    164: "Hexagon",
    243: "RISC-V",
    258: "LoongArch",
}
_FOREIGN = (
    (b"MZ", "a Windows library (PE)"),
    (b"\xcf\xfa\xed\xfe", "a macOS library (Mach-O)"),
    (b"\xce\xfa\xed\xfe", "a macOS library (Mach-O)"),
    (b"\xfe\xed\xfa\xcf", "a macOS library (Mach-O)"),
    (b"\xfe\xed\xfa\xce", "a macOS library (Mach-O)"),
    (b"\xca\xfe\xba\xbe", "a macOS library (Mach-O)"),
    (b"!<arch>", "an archive of object files"),
)
# header after e_ident, program header and section header: of 32 and of 64 bits
_HEADER = {1: "HHIIIIIHHHHHH", 2: "HHIQQQIHHHHHH"}
_SEGMENT = {1: "IIIIIIII", 2: "IIQQQQQQ"}
_SECTION = {1: "IIIIIIIIII", 2: "IIQQQQIIQQ"}
_SEGMENT_PLACE = {1: (1, 4, 5), 2: (2, 5, 6)}  # where offset, file size and memory size stand


class Header(NamedTuple):
    """What the header of an ELF file says.

    Attributes:
        elf_class: 1 for 32 bits, 2 for 64.
        order: "<" little-endian, ">" big-endian.
        machine: The processor, as a number of the System V ABI.
        type: 3 for a shared library.
        segments, sections: Where a table begins, the size of an entry, and the number of entries.
        names: Index of the section that holds the names of the sections.
    """

    elf_class: int
    order: str
    machine: int
    type: int
    segments: tuple[int, int, int]
    sections: tuple[int, int, int]
    names: int

    @property
    def target(self) -> tuple[int, str, int]:
        """What must be equal for two files to work together."""
        return self.elf_class, self.order, self.machine

    @property
    def target_text(self) -> str:
        """The processor in words."""
        bits = 32 if self.elf_class == 1 else 64
        order = "" if self.order == "<" else " big-endian"
        return f"{_MACHINES.get(self.machine, f'processor {self.machine}')} ({bits} bit{order})"


@cache
def own_target() -> Header | None:
    """Return the header of the running interpreter; None where programs are no ELF files."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        descriptor = os.open("/proc/self/exe", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return read_header(descriptor, os.fstat(descriptor).st_size, "/proc/self/exe")
    except Refused:
        return None
    finally:
        os.close(descriptor)


def read_header(descriptor: int, size: int, path: str) -> Header:
    """Read the header.

    Raises:
        Refused: `NOT_ELF`, or `TRUNCATED` within the header.
    """
    start = os.pread(descriptor, 64, 0)
    if start[:4] != _MAGIC:
        if start and _MAGIC.startswith(start):
            raise Refused(ReasonCode.TRUNCATED, f"the file ends after {len(start)} bytes, within the ELF header", path=path)
        raise Refused(ReasonCode.NOT_ELF, f"the file is {_looks_like(start)}, not an ELF shared library", path=path)
    if len(start) < 20:
        raise Refused(ReasonCode.TRUNCATED, f"the file ends after {size} bytes, within the ELF header", path=path)
    elf_class, order = start[4], {1: "<", 2: ">"}.get(start[5])
    if elf_class not in _HEADER or order is None:
        raise Refused(ReasonCode.NOT_ELF, f"the ELF header says class {elf_class}, byte order {start[5]}", path=path)
    layout = struct.Struct(order + _HEADER[elf_class])
    if len(start) < 16 + layout.size:
        raise Refused(ReasonCode.TRUNCATED, f"the file ends after {size} bytes, within the ELF header", path=path)
    kind, machine, _, _, phoff, shoff, _, _, phsize, phcount, shsize, shcount, names = layout.unpack_from(start, 16)
    return Header(elf_class, order, machine, kind, (phoff, phsize, phcount), (shoff, shsize, shcount), names)


def check(descriptor: int, path: str) -> Header:
    """Check that an open file is a whole shared library for this machine.

    Raises:
        Refused: `NOT_ELF`, `TRUNCATED` or `WRONG_ARCH`.
    """
    size = os.fstat(descriptor).st_size
    header = read_header(descriptor, size, path)
    own = own_target()
    if own is not None and header.target != own.target:
        raise Refused(ReasonCode.WRONG_ARCH, f"built for {header.target_text}; this Python is {own.target_text}", path=path)
    if header.type != _SHARED:
        raise Refused(ReasonCode.NOT_ELF, f"an ELF file of type {header.type}, which is no shared library", path=path)
    start, each, count = header.segments
    if not count:
        raise Refused(ReasonCode.NOT_ELF, "the library has no segments", path=path)
    entry = struct.Struct(header.order + _SEGMENT[header.elf_class])
    table = _table(descriptor, size, (start, each, count), entry, "program headers", path)
    at, length, memory = _SEGMENT_PLACE[header.elf_class]
    for number, one in enumerate(entry.iter_unpack(table)):
        if one[0] != _NULL and one[at] + one[length] > size:
            text = f"segment {number} ends at byte {one[at] + one[length]}, the file at {size}"
            raise Refused(ReasonCode.TRUNCATED, text, path=path)
        if one[0] == 1 and one[memory] < one[length]:
            raise Refused(ReasonCode.NOT_ELF, f"segment {number} is larger in the file than in memory", path=path)
    start, each, count = header.sections
    if start and start + each * count > size:
        text = f"the section headers end at byte {start + each * count}, the file at {size}"
        raise Refused(ReasonCode.TRUNCATED, text, path=path)
    return header


def section(descriptor: int, header: Header, name: bytes, maximum: int) -> bytes | None:
    """Return the content of a section, at most `maximum` + 1 bytes; None without one."""
    start, each, count = header.sections
    entry = struct.Struct(header.order + _SECTION[header.elf_class])
    if not start or each != entry.size or not header.names < count <= _MAX_SECTIONS:
        return None
    table = os.pread(descriptor, each * count, start)
    if len(table) != each * count:
        return None
    entries = list(entry.iter_unpack(table))
    names = os.pread(descriptor, min(entries[header.names][5], 1 << 20), entries[header.names][4])
    for place, kind, _, _, offset, length, *_ in entries:
        if kind not in (_NULL, _NOBITS) and names[place : place + len(name) + 1] == name + b"\0":
            return os.pread(descriptor, min(length, maximum + 1), offset)
    return None


def _table(descriptor: int, size: int, place: tuple[int, int, int], entry: struct.Struct, what: str, path: str) -> bytes:
    start, each, count = place
    if each != entry.size:
        raise Refused(ReasonCode.NOT_ELF, f"the {what} are {each} bytes each, not {entry.size}", path=path)
    if start + each * count > size:
        raise Refused(ReasonCode.TRUNCATED, f"the {what} end at byte {start + each * count}, the file at {size}", path=path)
    return os.pread(descriptor, each * count, start)


def _looks_like(start: bytes) -> str:
    if not start:
        return "empty"
    for magic, what in _FOREIGN:
        if start.startswith(magic):
            return what
    return "text" if start.isascii() and b"\0" not in start else "of another format"
