"""What a file of the vendor's binary format, NBG, says without a driver.

The format is not documented. What stands here was found by compiling small graphs with ovxlib
1.2.30 for two chips and comparing the files; all numbers are little-endian.

    offset  size
    0       4     "VPMN"
    4       4     version of the format; 0x20005 is the one that is known in full
    8       4     target id of the chip
    12      4     CRC-32 of the file, as zlib counts it, with zeros here
    16      8     bytes of the file
    48      12    of the table of sections: offset, bytes of an entry (44), entries

An entry holds the kind of its section (4 bytes), the offset (8), the bytes (8), and at 32 the bytes
of each record in it. Sections 1 and 2 have a record of 112 bytes for each input and output:

    0       4     number of axes
    4       24    sizes, innermost first; 1 where there are fewer axes
    28      4     element type
    36      4     quantization: 0 none, 1 a power of two, 2 scale and zero point
    40      4     scale as a float, or the exponent of 1 / 2
    44      4     zero point
    48      64    a name, which is the same for all

Such files come from users: every number is checked before it is used.
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass

from dovetail.ground.errors import ErrorCode

from ..chips import chip_of
from ..driver import Operand
from ..errors import VsiError

MAGIC = b"VPMN"
KNOWN_VERSION = 0x20005

_HEAD = struct.Struct("<4sIIIQ")
_TABLE_AT = 48
_TABLE = struct.Struct("<III")
_ENTRY = struct.Struct("<IQQ12xI")  # 32 bytes of kind, offset, size, and what is not known; then the record's size
_ENTRY_BYTES = 44
_MOST_SECTIONS = 1024

_INPUTS, _OUTPUTS = 1, 2
_RECORD = struct.Struct("<I6II4xI4sI")
_RECORD_BYTES = 112
_MOST_OPERANDS = 64
_MOST_AXES = 6

_TYPES = {
    0: "float32",
    1: "float16",
    2: "uint8",
    3: "int8",
    5: "int16",
    8: "int32",
    9: "uint32",
    16: "bool",
}
_POWER_OF_TWO, _AFFINE = 1, 2


@dataclass(frozen=True)
class Head:
    """How a binary begins.

    Attributes:
        version: Of the format.
        target: Id of the chip that it was made for.
    """

    version: int
    target: int

    @classmethod
    def of(cls, content: bytes) -> Head:
        """Return the head of a binary; in a version that is known, all of the file is checked.

        Raises:
            VsiError: It is no such file, or it is damaged.
        """
        if len(content) < _HEAD.size:
            raise _malformed(f"is {len(content)} bytes long; its head has {_HEAD.size}")
        magic, version, target, checksum, size = _HEAD.unpack_from(content)
        if magic != MAGIC:
            raise _malformed(f"has {magic!r} at offset 0; {MAGIC!r} was expected")
        if version == KNOWN_VERSION:
            if size != len(content):
                raise _malformed(f"is {len(content)} bytes long; {size} were expected, as its head says at offset 16")
            found = zlib.crc32(content[16:], zlib.crc32(bytes(4), zlib.crc32(content[:12])))
            if found != checksum:
                raise _malformed(f"has the checksum {found:#010x}; {checksum:#010x}, at offset 12, was expected")
        return cls(version, target)

    def must_fit(self, target: int) -> None:
        """Raise an error unless the binary was made for the chip of this id.

        The driver takes others too, and ends the process when they run.

        Raises:
            VsiError: It was made for another one.
        """
        if self.target != target:
            raise VsiError(
                f"the binary was made for chip {_named(self.target)}, and the device is chip {_named(target)}",
                hint="compile the network for this device, or choose the other one",
            )


def operands_of(content: bytes) -> tuple[list[Operand], list[Operand]]:
    """Return the inputs and the outputs of a binary.

    Raises:
        VsiError: It is damaged, or its version is not the known one; a driver may still know it.
    """
    head = Head.of(content)
    if head.version != KNOWN_VERSION:
        raise VsiError(
            f"a binary has version {head.version:#x} of its format at offset 4; {KNOWN_VERSION:#x} is the one that can be read",
            code=ErrorCode.MODEL_UNSUPPORTED,
            hint="compile the model again by a tool of the time of ovxlib 1.2.30, or load the network that it was made of",
        )
    sections = _sections(content)
    return _operands(content, sections, _INPUTS, "inputs"), _operands(content, sections, _OUTPUTS, "outputs")


def _sections(content: bytes) -> dict[int, tuple[int, int, int, int]]:
    """Return of each kind of section where its entry and it are, and its and a record's bytes."""
    _must_have(content, _TABLE_AT, _TABLE.size, "the place of the table of sections")
    at, entry, count = _TABLE.unpack_from(content, _TABLE_AT)
    if entry != _ENTRY_BYTES or count > _MOST_SECTIONS:
        raise _malformed(
            f"has {count} sections with entries of {entry} bytes at offset {_TABLE_AT}; at most {_MOST_SECTIONS} of "
            f"{_ENTRY_BYTES} were expected"
        )
    _must_have(content, at, entry * count, "the table of sections")
    made: dict[int, tuple[int, int, int, int]] = {}
    for place in range(at, at + entry * count, entry):
        kind, offset, size, record = _ENTRY.unpack_from(content, place)
        made.setdefault(kind, (place, offset, size, record))
    return made


def _operands(content: bytes, sections: dict[int, tuple[int, int, int, int]], kind: int, what: str) -> list[Operand]:
    if kind not in sections:
        raise _malformed(f"has no section of kind {kind}, which lists the {what}")
    place, offset, size, record = sections[kind]
    count, rest = divmod(size, _RECORD_BYTES)
    if record != _RECORD_BYTES or rest or not 0 < count <= _MOST_OPERANDS:
        raise _malformed(
            f"has {size} bytes of {what} in records of {record} at offset {place}; 1 to {_MOST_OPERANDS} records of "
            f"{_RECORD_BYTES} bytes were expected"
        )
    _must_have(content, offset, size, f"the {what}")
    return [_operand(content, offset + index * _RECORD_BYTES, f"{what}[{index}]") for index in range(count)]


def _operand(content: bytes, at: int, what: str) -> Operand:
    rank, *rest = _RECORD.unpack_from(content, at)
    sizes, (dtype, quantization, scale_bits, zero_point_bits) = rest[:_MOST_AXES], rest[_MOST_AXES:]
    if not 0 < rank <= _MOST_AXES:
        raise _malformed(f"has {rank} axes of {what} at offset {at}; 1 to {_MOST_AXES} were expected")
    if not all(sizes[:rank]) or math.prod(sizes[:rank]) >> 31:
        raise _malformed(f"has the sizes {sizes[:rank]} of {what} at offset {at + 4}; positive ones below 2 GiB were expected")
    if dtype not in _TYPES:
        raise _malformed(
            f"has the element type {dtype} of {what} at offset {at + 28}; one of {', '.join(map(str, _TYPES))} was expected"
        )
    shape = tuple(reversed(sizes[:rank]))
    if quantization == _AFFINE:
        scale = struct.unpack("<f", scale_bits)[0]
        if not 0 < scale < math.inf:
            raise _malformed(f"has the scale {scale} of {what} at offset {at + 40}; a positive number was expected")
        zero_point = struct.unpack("<i", struct.pack("<I", zero_point_bits))[0]
        return Operand(shape, _TYPES[dtype], scale, zero_point)
    if quantization == _POWER_OF_TWO:
        return Operand(shape, _TYPES[dtype], 2.0 ** -struct.unpack("<b", scale_bits[:1])[0])
    if quantization:
        raise _malformed(f"has the quantization {quantization} of {what} at offset {at + 36}; 0, 1 or 2 was expected")
    return Operand(shape, _TYPES[dtype])


def _named(target: int) -> str:
    chip = chip_of(target)
    return f"{target:#x} ({chip.name})" if chip else f"{target:#x}"


def _must_have(content: bytes, offset: int, size: int, what: str) -> None:
    if offset + size > len(content):
        raise _malformed(f"is {len(content)} bytes long; {what} were expected in {size} bytes at offset {offset}")


def _malformed(text: str) -> VsiError:
    return VsiError(f"a binary of the NPU is malformed: it {text}", code=ErrorCode.MODEL_MALFORMED)
