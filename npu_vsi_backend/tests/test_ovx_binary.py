"""What is read from files of the vendor's binary format; none of the vendor's is needed."""

import random
import struct
import zlib

import pytest

from dovetail_npu_vsi.driver import Operand
from dovetail_npu_vsi.errors import VsiError
from dovetail_npu_vsi.ovx.binary import KNOWN_VERSION, Head, operands_of

FIRST = 60  # where the table of sections begins
X = (4, (16, 12, 8, 1, 1, 1), 2, 2, struct.pack("<f", 0.25), 7)
Y = (2, (40, 3, 1, 1, 1, 1), 3, 2, struct.pack("<f", 0.5), -5)
WANTED = ([Operand((1, 8, 12, 16), "uint8", 0.25, 7)], [Operand((3, 40), "int8", 0.5, -5)])


def record(rank, sizes, dtype, quantization, scale, zero_point):
    return struct.pack("<I6II4xI4si64s", rank, *sizes, dtype, quantization, scale, zero_point, b"input/output[0]")


def made(inputs=(X,), outputs=(Y,), version=KNOWN_VERSION, target=0x9F):
    """A file with the tables of inputs and outputs, and something behind them."""
    tables = [b"".join(record(*one) for one in group) for group in (inputs, outputs)]
    at = FIRST + 2 * 44
    content = struct.pack("<4sII", b"VPMN", version, target) + bytes(36) + struct.pack("<III", FIRST, 44, 2)
    for kind, table in enumerate(tables, start=1):
        content += struct.pack("<IQQ12xI8x", kind, at, len(table), 112)
        at += len(table)
    return sealed(content + b"".join(tables) + b"\x11" * 9)


def sealed(content):
    """The file with its size and checksum in its head."""
    content = bytearray(content)
    struct.pack_into("<IQ", content, 12, 0, len(content))
    struct.pack_into("<I", content, 12, zlib.crc32(content))
    return bytes(content)


def changed(at, form, value):
    """A file with a number written over another."""
    content = bytearray(made())
    struct.pack_into(form, content, at, value)
    return sealed(content)


def test_inputs_and_outputs_are_read():
    assert operands_of(made()) == WANTED
    assert Head.of(made(target=0x88)) == Head(KNOWN_VERSION, 0x88)


@pytest.mark.parametrize(
    ("number", "dtype"),
    [(0, "float32"), (1, "float16"), (2, "uint8"), (3, "int8"), (5, "int16"), (8, "int32"), (9, "uint32"), (16, "bool")],
)
def test_element_types_are_known(number, dtype):
    inputs, _ = operands_of(made(inputs=[(1, (5,) * 6, number, 0, b"\0\0\x80\x3f", 0)] * 3))
    assert inputs == [Operand((5,), dtype)] * 3


@pytest.mark.parametrize(("exponent", "scale"), [(7, 2.0**-7), (0, 1.0), (-3, 8.0)])
def test_powers_of_two_are_scales(exponent, scale):
    inputs, _ = operands_of(made(inputs=[(1, (5,) * 6, 5, 1, struct.pack("<bxxx", exponent), 0)]))
    assert inputs == [Operand((5,), "int16", scale)]


INPUT = FIRST + 2 * 44
NAN, INFINITY = struct.unpack("<2I", struct.pack("<2f", float("nan"), float("inf")))
MALFORMED = {
    "empty": (b"", "0 bytes"),
    "short": (made()[:20], "20 bytes"),
    "magic": (b"ELF!" + made()[4:], "offset 0"),
    "cut": (made()[:-1], "offset 16"),
    "longer": (made() + b"\0", "offset 16"),
    "damaged": (made()[:-1] + b"\x12", "offset 12"),
    "head alone": (sealed(made()[:24]), "table of sections"),
    "table elsewhere": (changed(48, "<I", 1 << 31), f"at offset {1 << 31}"),
    "entries of 48": (changed(52, "<I", 48), "entries of 48"),
    "many sections": (changed(56, "<I", 1 << 31), f"{1 << 31} sections"),
    "no sections": (changed(56, "<I", 0), "kind 1"),
    "no outputs": (changed(FIRST + 44, "<I", 3), "kind 2"),
    "inputs elsewhere": (changed(FIRST + 4, "<Q", (1 << 64) - 1), f"at offset {(1 << 64) - 1}"),
    "no input": (changed(FIRST + 12, "<Q", 0), "0 bytes of inputs"),
    "half an input": (changed(FIRST + 12, "<Q", 56), "56 bytes of inputs"),
    "endless inputs": (changed(FIRST + 12, "<Q", 112 << 40), "bytes of inputs"),
    "records of 8": (changed(FIRST + 32, "<I", 8), "records of 8"),
    "no axes": (changed(INPUT, "<I", 0), "0 axes of inputs[0]"),
    "many axes": (changed(INPUT, "<I", 7), "7 axes of inputs[0]"),
    "no elements": (changed(INPUT + 8, "<I", 0), "sizes"),
    "endless elements": (changed(INPUT + 4, "<I", 1 << 31), "sizes"),
    "element type": (changed(INPUT + 28, "<I", 77), "element type 77"),
    "quantization": (changed(INPUT + 36, "<I", 9), "quantization 9"),
    "scale of zero": (changed(INPUT + 40, "<I", 0), "scale 0.0"),
    "scale that is none": (changed(INPUT + 40, "<I", NAN), "scale nan"),
    "endless scale": (changed(INPUT + 40, "<I", INFINITY), "scale inf"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_files_are_refused_by_name_and_place(name):
    content, words = MALFORMED[name]
    with pytest.raises(VsiError) as caught:
        operands_of(content)
    assert words in str(caught.value)
    assert caught.value.code == "MODEL_MALFORMED"


def test_another_version_is_left_to_the_driver():
    content = made(version=0x1001B)[:-5]
    assert Head.of(content).target == 0x9F
    with pytest.raises(VsiError, match="0x1001b") as caught:
        operands_of(content)
    assert caught.value.hint


def test_another_chip_is_refused_by_both_names():
    Head.of(made()).must_fit(0x9F)
    with pytest.raises(VsiError, match=r"0x9f \(i.MX 8M Plus\).*0x88 \(A311D\)"):
        Head.of(made()).must_fit(0x88)
    with pytest.raises(VsiError, match=r"chip 0x1234, and the device is chip 0x5678"):
        Head.of(made(target=0x1234)).must_fit(0x5678)


def test_no_mutant_does_more_than_raise():
    """Mutants whose checksum is right, so that what is behind it is read."""
    source = random.Random(7)
    refused = 0
    for _ in range(20000):
        content = bytearray(made())
        for _ in range(source.randrange(1, 5)):
            at, value = source.randrange(4, len(content)), source.choice([0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)])
            content[at] = value
        content = sealed(content[: source.choice([len(content), source.randrange(24, len(content))])])
        try:
            inputs, outputs = operands_of(content)
            assert 0 < len(inputs) <= 64
            assert 0 < len(outputs) <= 64
        except VsiError:
            refused += 1
    assert 1000 < refused < 20000
