"""Indices for the kinds that pick or place elements by position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail import DType

from ..cases import Array

INDEX_DTYPES = ("int64", "int32")


def indices(label: str, shape: Sequence[int], size: int, negative: bool, rng: np.random.Generator) -> Array | None:
    """Make positions along an axis of `size` elements, with both ends of the range; None if the axis has none.

    Args:
        label: Element type.
        shape: Of the result.
        size: Of the axis.
        negative: True for positions that count from the end, too.
        rng: For the rest.
    """
    count = int(np.prod(shape))
    if count and not size:
        return None
    minimum = -size if negative else 0
    values = rng.integers(minimum, max(size, 1), count)
    ends = [size - 1, minimum][:count]
    values[: len(ends)] = ends
    return values.reshape(tuple(shape)).astype(DType.of(label).numpy)


def places(label: str, count: int, sizes: Sequence[int], negative: bool, rng: np.random.Generator) -> Array | None:
    """Make `count` positions over several axes of these sizes, none of them twice; None if there are too few."""
    room = int(np.prod(sizes))
    if room < count:
        return None
    chosen = np.unravel_index(rng.permutation(room)[:count], tuple(sizes)) if count else [np.zeros(0, np.int64) for _ in sizes]
    columns = []
    for column, size in zip(chosen, sizes, strict=True):
        from_the_end = rng.random(count) < (0.5 if negative else 0.0)
        columns.append(np.where(from_the_end, column - size, column))
    return np.stack(columns, -1).astype(DType.of(label).numpy)
