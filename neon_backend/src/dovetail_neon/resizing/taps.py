"""Give the taps and weights of each result of a resized axis.

Source: ONNX Resize-19 and its reference code.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dovetail.ground.limits import budget
from dovetail.ground.records import NamedTuple
from dovetail.layers import Resize, ResizeMethod

Reals = npt.NDArray[np.float64]


class Taps(NamedTuple):
    """What each result along an axis is the weighted sum of, all results one behind the other.

    Attributes:
        first: Where the taps of each result begin, and where those of the last one end.
        position: Inside the axis.
        weight: Of each.
    """

    first: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]
    weight: Reals

    @property
    def most(self) -> int:
        """The most taps that a result has."""
        return int(np.diff(self.first).max(initial=0))


_TAPS_AT_ONCE = 1 << 18
"""Weights that are worked out between two looks at the time, if one result does not have more."""


def taps(descriptor: Resize, size: int, wanted: int, scale: float) -> Taps:
    """Return, for every result along an axis, what it is the weighted sum of."""
    every = np.arange(wanted + 1)
    if size == wanted and scale == 1.0:
        return Taps(every, every[:-1], np.ones(wanted))
    step, parts = max(1, _TAPS_AT_ONCE // max_taps_of(descriptor, scale)), []
    for begin in range(0, wanted, step):
        budget().check_time()
        x = descriptor.positions(size, wanted, scale, range(begin, min(begin + step, wanted)))
        if descriptor.method is ResizeMethod.NEAREST:
            parts.append(Taps(every[: len(x) + 1], descriptor.nearest(x, size), np.ones(len(x))))
        else:
            parts.append(_weighted(descriptor, x, size, scale))
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0] + [len(part.position) for part in parts])
    first = [part.first[:-1] + start for part, start in zip(parts, before, strict=False)]
    return Taps(
        np.concatenate([*first, before[-1:]]),
        np.concatenate([part.position for part in parts]),
        np.concatenate([part.weight for part in parts]),
    )


def reach_of(descriptor: Resize, scale: float) -> float:
    """How far from a position taps lie."""
    reach = 0 if descriptor.method is ResizeMethod.NEAREST else 1 if descriptor.method is ResizeMethod.LINEAR else 2
    # Shrinking with antialias stretches the kernel so that it covers all that a result stands for.
    return reach / min(scale, 1.0) if descriptor.antialias else reach


def max_taps_of(descriptor: Resize, scale: float) -> int:
    """How many elements a result may be the sum of, at most."""
    return 2 * math.ceil(reach_of(descriptor, scale)) + 2


def _weighted(descriptor: Resize, x: Reals, size: int, scale: float) -> Taps:
    reach, stretch = reach_of(descriptor, scale), min(scale, 1.0) if descriptor.antialias else 1.0
    begin, end = np.floor(x - reach).astype(np.int64) + 1, np.ceil(x + reach).astype(np.int64)
    if descriptor.exclude_outside:
        begin, end = np.maximum(begin, 0), np.minimum(end, size)
    counts = np.maximum(end - begin, 0)
    row = np.repeat(np.arange(len(x)), counts)
    position = np.arange(len(row)) + np.repeat(begin - (np.cumsum(counts) - counts), counts)
    weight = _kernel(descriptor, (position - x[row]) * stretch)
    # What lies outside is the pixel at the border.
    position = np.clip(position, 0, size - 1)
    starts = np.flatnonzero(np.diff(position, prepend=-1) | np.diff(row, prepend=-1))
    row, position, weight = row[starts], position[starts], np.add.reduceat(weight, starts) if len(starts) else weight
    if descriptor.antialias or descriptor.exclude_outside:
        totals = np.bincount(row, weight, len(x))
        lost = np.flatnonzero(totals == 0)  # every tap was excluded: the position lies far outside
        kept = totals[row] != 0
        weight = np.concatenate([weight[kept] / totals[row[kept]], np.ones(len(lost))])
        position = np.concatenate([position[kept], np.clip(np.floor(x[lost]), 0, size - 1).astype(np.int64)])
        row = np.concatenate([row[kept], lost])
        order = np.argsort(row, kind="stable")
        row, position, weight = row[order], position[order], weight[order]
    return Taps(np.searchsorted(row, np.arange(len(x) + 1)), position, weight)


def _kernel(descriptor: Resize, distance: Reals) -> Reals:
    """The triangle, or Keys' cubic convolution (1981)."""
    d, a = np.abs(distance), descriptor.cubic_coefficient
    if descriptor.method is ResizeMethod.LINEAR:
        return np.maximum(1.0 - d, 0.0)
    near, beyond = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, beyond, 0.0))
