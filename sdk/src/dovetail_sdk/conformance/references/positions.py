"""Indices for the kinds that pick or place elements by position, and cases of those that pick."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dovetail import Descriptor, DType

from ..cases import Array, Case, Feed, Parameters
from .moving import moved_case

INDEX_DTYPES = ("int64", "int32")

INDEXED: Mapping[str, Sequence[Any]] = {
    "index_dtype": INDEX_DTYPES,
    "negative": (False, True),
    "constant_indices": (False, True),
    "quantization": (None, "kept"),
}
"""Parameters of a layer that picks or places elements by position."""

INDEX_QUANTITIES: Mapping[str, str] = {"indices.dtype": "index_dtype", "indices.constant": "constant_indices"}

LEADING = ((3,), (), (1,), (0,), (2, 2))
"""Shapes of a tensor of positions, less the axis along which the coordinates of one lie."""


def indices(label: str, shape: Sequence[int], size: int, negative: bool, rng: np.random.Generator) -> Array | None:
    """Make positions along an axis of `size` elements, with both ends; None if the axis is empty.

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


def coordinates(
    label: str, shape: Sequence[int], sizes: Sequence[int], negative: bool, rng: np.random.Generator
) -> Array | None:
    """Make positions over several axes of these sizes: [*shape, axes]; None if an axis has none."""
    columns = [indices(label, shape, size, negative, rng) for size in sizes]
    given = [column for column in columns if column is not None]
    return np.stack(given, -1) if len(given) == len(sizes) else None


def places(label: str, count: int, sizes: Sequence[int], negative: bool, rng: np.random.Generator) -> Array | None:
    """Make `count` distinct positions over several axes of these sizes; None if too few."""
    room = int(np.prod(sizes))
    if room < count:
        return None
    chosen = np.unravel_index(rng.permutation(room)[:count], tuple(sizes)) if count else [np.zeros(0, np.int64) for _ in sizes]
    columns = []
    for column, size in zip(chosen, sizes, strict=True):
        from_the_end = rng.random(count) < (0.5 if negative else 0.0)
        columns.append(np.where(from_the_end, column - size, column))
    return np.stack(columns, -1).astype(DType.of(label).numpy)


def picked_case(
    descriptor: Descriptor,
    shape: tuple[int, ...],
    index: Array | None,
    pick: Callable[[Array, Array], Array],
    parameters: Parameters,
    dtype: DType,
    rng: np.random.Generator,
) -> Case | None:
    """Make a case of a layer that picks elements by an index; None if there is none.

    The arguments are those of `moved_case`; `pick` takes the input and the index.
    """
    if index is None:
        return None
    further = [Feed(index, parameters["constant_indices"])]
    return moved_case(descriptor, shape, lambda x: pick(x, index), parameters, dtype, rng, further)
