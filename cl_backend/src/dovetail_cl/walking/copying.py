"""Strided copies: elements of any type, moved by their size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail.ground.records import NamedTuple

from ..driver.arguments import Alias, Argument, Launch
from ..kernels import RAW, Kernels
from . import merged

MAX_AXES = 16
"""Axes over which a copy goes at most, once those that can be are merged."""

_TILE = 32
"""Elements of the side of a tile that is transposed at a time."""
_GPU_GROUP = 256
_PLACES = np.dtype(
    [
        ("size", np.uint32, MAX_AXES),
        ("from", np.int32, MAX_AXES),
        ("to", np.int32, MAX_AXES),
        ("starts", np.int32, 2),
        ("axes", np.uint32),
    ]
)


class Side(NamedTuple):
    """A tensor that a copy reads or writes.

    Attributes:
        argument: The tensor.
        strides: Elements between neighbours, for each axis that is walked over.
        start: Elements before the first one.
    """

    argument: Argument
    strides: tuple[int, ...]
    start: int = 0


def copy(
    kernels: Kernels, itemsize: int, sizes: Sequence[int], source: Side, target: Side, *, unless: Alias | None = None
) -> Launch:
    """Return the launch that copies elements.

    Args:
        kernels: Of the device.
        itemsize: Bytes of an element.
        sizes: Of the axes that are walked over.
        source: What is read.
        target: What is written; the two do not overlap.
        unless: The alias with which there is nothing to do.
    """
    elements = math.prod(sizes)
    axes = list(reversed(merged(sizes, [source.strides, target.strides]))) if elements else []
    is_transposing = False
    if axes and axes[0][1][0] != 1 and axes[0][1][1] == 1:
        side = next((number for number, (_, strides) in enumerate(axes) if strides[0] == 1), 0)
        if side and min(axes[0][0], axes[side][0]) >= (8 if kernels.is_cpu else 4):
            axes.insert(1, axes.pop(side))
            is_transposing = True
    given = _places(axes, (source.start, target.start) if elements else (0, 0))
    name, count = "copy", elements
    items, group = kernels.each(elements)
    if is_transposing:
        name = "transpose"
        count = math.prod(-(-size // _TILE) for size, _ in axes[:2]) * math.prod(size for size, _ in axes[2:])
        items, group = kernels.each(count, least=8) if kernels.is_cpu else ((count * _GPU_GROUP,), (_GPU_GROUP,))
    kernel: Any = kernels.get("walking/moving.cl walking/copy.cl", name, T=RAW[itemsize], TILE=_TILE)
    return Launch(kernel, (source.argument, target.argument, given, np.uint32(count)), items, group, unless)


def _places(axes: Sequence[tuple[int, tuple[int, ...]]], starts: tuple[int, int]) -> npt.NDArray[Any]:
    """Return the struct of the kernel; the innermost axis comes first."""
    given = np.zeros((), _PLACES)
    given["size"] = 1
    for number, (size, strides) in enumerate(axes):
        given["size"][number] = size
        given["from"][number], given["to"][number] = strides
    given["starts"] = starts
    given["axes"] = max(len(axes), 1)
    return given
