"""Strided views of plain tensors, and how a copy between two of them is walked."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dovetail.ground.records import NamedTuple

RUN, STRIDED, TRANSPOSED = "run", "strided", "transposed"
"""How the innermost part of a copy is walked; `copies.pyx` knows the codes of parameters.h."""

_MIN_SIDE = 4
_SHORT = 8


class Move(NamedTuple):
    """A copy between strided views; steps and offsets are bytes.

    Attributes:
        sizes: Of both views.
        source_steps, target_steps: Per axis.
        input: Index of the tensor that is read; negative for the fill.
        output: Index of the tensor that is written.
        source_offset, target_offset: Where the first element lies.
    """

    sizes: tuple[int, ...]
    source_steps: tuple[int, ...]
    target_steps: tuple[int, ...]
    input: int = 0
    output: int = 0
    source_offset: int = 0
    target_offset: int = 0

    def is_view(self, itemsize: int) -> bool:
        """True if both views are the same bytes in one piece."""
        axes = _merged(self)
        return not axes or axes == [(math.prod(self.sizes), itemsize, itemsize)]


class Walk(NamedTuple):
    """A copy as a kernel walks it: outer axes, and what is innermost; see `neon_move`."""

    outer: list[tuple[int, int, int]]
    method: str
    element: int
    length: int
    source_step: int = 0
    target_step: int = 0
    columns: int = 1
    column_step: int = 0


def contiguous(sizes: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the steps of a plain tensor."""
    return tuple(math.prod(sizes[axis + 1 :]) * itemsize for axis in range(len(sizes)))


def plan(move: Move, itemsize: int) -> Walk:
    """Choose how to walk a copy that is not empty."""
    axes, element = _merged(move), itemsize
    # A few neighbours that stay together are one element.
    while axes and axes[-1][1] == axes[-1][2] == element and axes[-1][0] * element in (2, 4, 8):
        element *= axes.pop()[0]
    if not axes:
        return Walk([], RUN, element, element)
    size, source, target = axes[-1]
    if source == target == element:
        return Walk(axes[:-1], RUN, element, size * element)
    rows = [axis for axis in axes[:-1] if axis[1] == element]
    if rows and target == element and source and min(rows[0][0], size) >= _MIN_SIDE:
        axes.remove(rows[0])
        return Walk(axes[:-1], TRANSPOSED, element, rows[0][0], element, rows[0][2], size, source)
    inner = axes[-1] if size >= _SHORT else max(reversed(axes), key=lambda axis: axis[0])
    axes.remove(inner)
    return Walk(axes, STRIDED, element, *inner)


def reshaped(sizes: Sequence[int], steps: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...] | None:
    """Return the steps of a strided view under another shape of its size; None if that copies."""
    if 0 in sizes:
        return None
    axes = [(size, step) for size, step in zip(sizes, steps, strict=True) if size != 1]
    found: list[int] = []
    left, step = 1, 0  # elements of the axis at hand that are not divided up yet, and how far apart its last ones lie
    for size in reversed(wanted):
        if size == 1:
            found.append(step)
            continue
        while left % size and axes and (left == 1 or axes[-1][1] == left * step):
            count, own = axes.pop()
            left, step = (count, own) if left == 1 else (left * count, step)
        if left % size:
            return None
        found.append(step)
        left, step = left // size, step * size
    return tuple(reversed(found)) if left == 1 and not axes else None


def sliced(sizes: Sequence[int], ranges: Sequence[tuple[int, int, int]], itemsize: int) -> tuple[tuple[int, ...], int]:
    """Return the steps and the offset of ranges cut out of a plain tensor.

    A range is (begin, stride, count); the offset is where the first element lies.
    """
    own = contiguous(sizes, itemsize)
    first = sum(step * begin for step, (begin, _, _) in zip(own, ranges, strict=True))
    return tuple(step * stride for step, (_, stride, _) in zip(own, ranges, strict=True)), first


def pieces(
    sizes: Sequence[int], axis: int, counts: Sequence[int], itemsize: int
) -> list[tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...], int]]:
    """List the parts of a plain tensor along an axis.

    A part is its index, sizes, own steps, steps in the whole, and offset in the whole.
    """
    whole, start, result = contiguous(sizes, itemsize), 0, []
    for index, count in enumerate(counts):
        part = (*sizes[:axis], count, *sizes[axis + 1 :])
        result.append((index, part, contiguous(part, itemsize), whole, start * whole[axis]))
        start += count
    return result


def padded(
    sizes: Sequence[int], wanted: Sequence[int], before: Sequence[int], after: Sequence[int], itemsize: int
) -> list[Move]:
    """List the copies that put a tensor into a frame: what surrounds it on each axis, and itself.

    The border of an axis reaches over all of the axes after it, and over the inside of those before
    it.
    """
    own, target = contiguous(sizes, itemsize), contiguous(wanted, itemsize)
    starts = [min(max(count, 0), size) for count, size in zip(before, wanted, strict=True)]
    stops = [max(size - max(count, 0), start) for count, size, start in zip(after, wanted, starts, strict=True)]
    inside = tuple(stop - start for start, stop in zip(starts, stops, strict=True))
    corner = [start * step for start, step in zip(starts, target, strict=True)]
    moves = []
    for axis, size in enumerate(wanted):
        for start, stop in ((0, starts[axis]), (stops[axis], size)):
            border = (*inside[:axis], stop - start, *wanted[axis + 1 :])
            offset = sum(corner[:axis]) + start * target[axis]
            moves.append(Move(border, (0,) * len(border), target, input=-1, target_offset=offset))
    skipped = sum(max(-count, 0) * step for count, step in zip(before, own, strict=True))
    return [*moves, Move(inside, own, target, source_offset=skipped, target_offset=sum(corner))]


def _merged(move: Move) -> list[tuple[int, int, int]]:
    """Return (size, source step, target step) of the fewest axes.

    They visit the same elements in the same order.
    """
    axes: list[tuple[int, int, int]] = []
    for size, source, target in zip(move.sizes, move.source_steps, move.target_steps, strict=True):
        if size == 1:
            continue
        if axes and axes[-1][1:] == (size * source, size * target):
            axes[-1] = (axes[-1][0] * size, source, target)
        else:
            axes.append((size, source, target))
    return axes
