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
_MIN_SIDE = 8
"""Elements of a side that are worth a transposition."""
_TURNS = 4
"""Rows that take turns at most."""
_Axis = tuple[int, tuple[int, ...]]


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
    name, axes = _way(axes, is_cpu=kernels.is_cpu)
    count = elements
    items, group = kernels.each(elements)
    if name == "transpose":
        count = math.prod(-(-size // _TILE) for size, _ in axes[:2]) * math.prod(size for size, _ in axes[2:])
        items, group = kernels.each(count, least=8) if kernels.is_cpu else ((count * _GPU_GROUP,), (_GPU_GROUP,))
    elif name == "take_turns":
        count = elements // axes[0][0]
    given = _places(axes, (source.start, target.start) if elements else (0, 0))
    kernel: Any = kernels.get("walking/moving.cl walking/copy.cl", name, T=RAW[itemsize], TILE=_TILE)
    return Launch(kernel, (source.argument, target.argument, given, np.uint32(count)), items, group, unless)


def _way(axes: list[_Axis], *, is_cpu: bool) -> tuple[str, list[_Axis]]:
    """Return the kernel for axes, the innermost one first, and their order for it."""
    if not axes or axes[0][1][1] != 1 or axes[0][1][0] == 1:
        return "copy", axes
    size, (step, _) = axes[0]
    if is_cpu and 2 <= size <= _TURNS and len(axes) > 1 and axes[1][1] == (1, size):
        return "take_turns", axes
    side = next((number for number, (_, strides) in enumerate(axes) if strides[0] == 1), 0)
    if is_cpu and side and 2 <= axes[side][0] <= _TURNS and step == axes[side][0]:
        return "take_turns", [axes[side], *axes[:side], *axes[side + 1 :]]
    if side and min(size, axes[side][0]) >= _MIN_SIDE:
        return "transpose", [axes[0], axes[side], *axes[1:side], *axes[side + 1 :]]
    return "copy", axes


def _places(axes: Sequence[_Axis], starts: tuple[int, int]) -> npt.NDArray[Any]:
    """Return the struct of the kernel; the innermost axis comes first."""
    given = np.zeros((), _PLACES)
    given["size"] = 1
    for number, (size, strides) in enumerate(axes):
        given["size"][number] = size
        given["from"][number], given["to"][number] = strides
    given["starts"] = starts
    given["axes"] = max(len(axes), 1)
    return given
