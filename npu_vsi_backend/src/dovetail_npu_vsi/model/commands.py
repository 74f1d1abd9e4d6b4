"""Commands as records of an array, laid out as `commands.h` has them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

AXES = 4

_BLOCK = np.dtype(
    [("memory", "i4"), ("operand", "i4"), ("offset", "i8"), ("size", "i8", AXES), ("stride", "i8", AXES)], align=True
)
COMMAND = np.dtype(
    [
        ("opcode", "i4"),
        ("operation", "i4"),
        ("input", _BLOCK),
        ("second", _BLOCK),
        ("output", _BLOCK),
        ("zero", "i4", 3),
        ("low", "i4"),
        ("high", "i4"),
        ("value", "i4"),
        ("kernel", "i4", 2),
        ("stride", "i4", 2),
        ("dilation", "i4", 2),
        ("padding", "i4", 2),
        ("count_padding", "i4"),
        ("group_inputs", "i4"),
        ("group_outputs", "i4"),
        ("first_filter", "i4"),
        ("weights", "i8"),
        ("filters", "i8"),
        ("table", "i8"),
        ("reals", "i8"),
        ("chunk", "i4"),
        ("by_rows", "i4"),
        ("lift", "i4"),
        ("across", "i4"),
    ],
    align=True,
)
"""struct vsi_command."""
FILTER = np.dtype([("bias", "i8"), ("mantissa", "i4"), ("shift", "i4"), ("zero", "i4"), ("factor", "f4")], align=True)
"""struct vsi_filter."""

DDR, SRAM, CONSTANTS, INPUT, OUTPUT = range(5)
"""enum vsi_memory."""
MEMORIES = ("DDR", "SRAM", "constants", "input", "output")
COPY, FILL, CONVOLVE, MAX_POOL, AVERAGE_POOL, ADD, MULTIPLY, SOFTMAX, SUM, PICK, BLEND = range(11)
"""enum vsi_opcode."""
OPCODES = 11

Commands = npt.NDArray[Any]


class Place(NamedTuple):
    """Where a dense tensor lies.

    Attributes:
        memory: Of enum vsi_memory.
        operand: Number of the input or output.
        offset: Bytes.
    """

    memory: int
    operand: int = 0
    offset: int = 0


class Block(NamedTuple):
    """A part of a tensor of bytes, of four axes.

    Attributes:
        place: Where its first byte lies.
        size: Outermost first.
        stride: Bytes from one index of an axis to the next.
    """

    place: Place
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def part(self, axis: int, begin: int, count: int) -> Block:
        """Return some indices of an axis."""
        offset = self.place.offset + begin * self.stride[axis]
        size = (*self.size[:axis], count, *self.size[axis + 1 :])
        return Block(self.place._replace(offset=offset), size, self.stride)

    def permuted(self, order: tuple[int, ...]) -> Block:
        """Return it with axis i its axis order[i]."""
        return Block(self.place, tuple(self.size[axis] for axis in order), tuple(self.stride[axis] for axis in order))

    def repeated(self, size: tuple[int, ...]) -> Block:
        """Return it with axes of size one repeated up to a size."""
        stride = tuple(0 if mine == 1 else step for mine, step in zip(self.size, self.stride, strict=True))
        return Block(self.place, size, stride)

    @property
    def record(self) -> tuple[Any, ...]:
        """The fields of struct vsi_block."""
        return (self.place.memory, self.place.operand, self.place.offset, self.size, self.stride)


def dense(place: Place, shape: tuple[int, ...]) -> Block:
    """Return a whole tensor as a block: axes of size one in front, or leading axes merged."""
    size = list(shape)
    while len(size) > AXES:
        size[:2] = [size[0] * size[1]]
    size = [1] * (AXES - len(size)) + size
    stride = [1] * AXES
    for axis in range(AXES - 2, -1, -1):
        stride[axis] = stride[axis + 1] * size[axis + 1]
    return Block(place, tuple(size), tuple(stride))


def extent(size: npt.NDArray[Any], stride: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return how many bytes blocks reach over, for arrays of sizes and strides [count, AXES]."""
    return np.asarray(((size - 1) * stride).sum(axis=1) + 1)
