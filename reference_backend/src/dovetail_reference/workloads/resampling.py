"""Give the taps and weights of each output position of a resized axis.

Source: ONNX Resize-19 and its reference code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dovetail.ground.limits import budget
from dovetail.ground.pieces import Region, assembled
from dovetail.ground.records import NamedTuple
from dovetail.layers import Resize, ResizeMethod

Positions = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

_TAPS_AT_ONCE = 1 << 18
"""Taps that are worked out between two looks at the time: some ten milliseconds."""


class Taps(NamedTuple):
    """Taps of some neighbouring output positions of an axis, all one behind the other.

    An output position is the weighted sum of its taps.

    Attributes:
        first: Index of the first tap of each of them, and how many there are in all.
        position: Input position of each tap, inside the axis.
        weight: Of each tap.
    """

    first: Positions
    position: Positions
    weight: Reals


def nearest(descriptor: Resize, size: int, wanted: int, scale: float) -> Positions:
    """Return the input position of every output position."""

    def part(region: Region) -> Positions:
        results = range(wanted) if region == (...,) else range(region[0].start, region[0].stop)
        return descriptor.nearest(descriptor.positions(size, wanted, scale, results), size)

    return assembled((wanted,), np.int64, part)


def reach(descriptor: Resize, scale: float) -> float:
    """Return how far from a position its taps lie; LINEAR and CUBIC."""
    # Shrinking with antialias stretches the kernel so that it covers all that an output position
    # stands for.
    stretch = min(scale, 1.0) if descriptor.antialias else 1.0
    return (1 if descriptor.method is ResizeMethod.LINEAR else 2) / stretch


def most_taps(descriptor: Resize, scale: float) -> int:
    """Return how many taps a result may have, at most."""
    return 2 * math.ceil(reach(descriptor, scale)) + 2


def taps(descriptor: Resize, size: int, wanted: int, scale: float) -> Iterator[Taps]:
    """Return the taps of every output position, some at a time; LINEAR and CUBIC."""
    step, load = max(1, _TAPS_AT_ONCE // most_taps(descriptor, scale)), budget()
    for begin in range(0, wanted, step):
        load.check_time()
        x = descriptor.positions(size, wanted, scale, range(begin, min(begin + step, wanted)))
        yield _taps_of(descriptor, size, scale, x)


def _taps_of(descriptor: Resize, size: int, scale: float, x: Reals) -> Taps:
    """Return what the results that lie at these coordinates are the weighted sums of."""
    half, wanted = reach(descriptor, scale), len(x)
    begin, end = np.floor(x - half).astype(np.int64) + 1, np.ceil(x + half).astype(np.int64)
    if descriptor.exclude_outside:
        begin, end = np.maximum(begin, 0), np.minimum(end, size)
    counts = np.maximum(end - begin, 0)
    row = np.repeat(np.arange(wanted), counts)
    position = np.arange(len(row)) + np.repeat(begin - (np.cumsum(counts) - counts), counts)
    weight = kernel(descriptor, (position - x[row]) * (min(scale, 1.0) if descriptor.antialias else 1.0))
    # What lies outside is the position at the border: one tap.
    position = np.clip(position, 0, size - 1)
    starts = np.flatnonzero((np.diff(position, prepend=-1) != 0) | (np.diff(row, prepend=-1) != 0))
    weight = np.add.reduceat(weight, starts) if len(starts) else weight
    row, position = row[starts], position[starts]
    if descriptor.antialias or descriptor.exclude_outside:
        totals = np.bincount(row, weight, wanted)
        weight = np.divide(weight, totals[row], where=totals[row] != 0, out=np.zeros_like(weight))
        lost = np.flatnonzero(totals == 0)  # every tap was excluded: the position lies far outside
        kept = totals[row] != 0
        row = np.concatenate([row[kept], lost])
        order = np.argsort(row, kind="stable")
        row = row[order]
        position = np.concatenate([position[kept], np.clip(np.floor(x[lost]), 0, size - 1).astype(np.int64)])[order]
        weight = np.concatenate([weight[kept], np.ones(len(lost))])[order]
    return Taps(np.searchsorted(row, np.arange(wanted + 1)), position, weight)


def kernel(descriptor: Resize, distance: Reals) -> Reals:
    """Return the weights at distances: the triangle, or Keys' cubic convolution (1981)."""
    d, a = np.abs(distance), descriptor.cubic_coefficient
    if descriptor.method is ResizeMethod.LINEAR:
        return np.maximum(1.0 - d, 0.0)
    near, beyond = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, beyond, 0.0))
