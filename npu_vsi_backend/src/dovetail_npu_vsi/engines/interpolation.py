"""Which bilinear resamplings have bits that are known, and their weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..program import Resize

_LARGER, _SMALLER = (2, 3, 4, 8), range(2, 9)
"""Factors of both axes by which no weight is rounded to a float of 16 bits. Measured."""


class Blends(NamedTuple):
    """What an axis of a bilinear resampling mixes.

    Attributes:
        first, second: Elements of the input between which each result lies.
        part: Weight of the second one, in parts of `whole`.
        whole: Sum of both weights.
    """

    first: npt.NDArray[np.int64]
    second: npt.NDArray[np.int64]
    part: npt.NDArray[np.int64]
    whole: int


def blends_exactly(operation: Resize, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Say whether a bilinear resampling rounds nothing but its results, ties to even.

    Args:
        operation: Says where pixels lie.
        before: Rows and columns of the input.
        after: Of the output.
    """
    if operation.mode != "bilinear" or operation.align_corners:
        return False
    larger = (after[0] == before[0] * factor and after[1] == before[1] * factor for factor in _LARGER)
    smaller = (before[0] == after[0] * factor and before[1] == after[1] * factor for factor in _SMALLER)
    return any(larger) or any(smaller)


def blends(operation: Resize, size: int, wanted: int) -> Blends:
    """Return what an axis of a resampling mixes that `blends_exactly`.

    Args:
        operation: Says where pixels lie.
        size: Of the axis, before.
        wanted: After.
    """
    at, common = np.arange(wanted, dtype=np.int64), min(size, wanted)
    whole = 2 * wanted // common
    places = ((2 * at + 1) * size - wanted if operation.half_pixel else 2 * at * size) // common
    places = np.clip(places, 0, (size - 1) * whole)
    first = places // whole
    return Blends(first, np.minimum(first + 1, size - 1), places - first * whole, whole)
