"""GatherElements: single elements along an axis, by index."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import GatherElements

from ..cases import Array, Case, Parameters
from ..references.moving import any_type_operator
from ..references.positions import INDEX_QUANTITIES, INDEXED, indices, picked_case
from ..references.shapes import quantities_of, shape_of


def gathered_elements(x: Array, index: Array, axis: int) -> Array:
    """Pick every element by its own position."""
    result = np.empty(index.shape, x.dtype)
    for place in np.ndindex(index.shape):
        result[place] = x[(*place[:axis], int(index[place]), *place[axis + 1 :])]
    return result


def index_shape(shape: tuple[int, ...], axis: int, count: int, shorter: bool) -> tuple[int, ...]:
    """Return the shape of the indices: `count` along the axis, one less beside it if `shorter`."""
    return tuple(count if at == axis else max(size - shorter, 0) for at, size in enumerate(shape))


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, axis = shape_of(parameters), parameters["axis"]
    if shape is None or not -len(shape) <= axis < len(shape):
        return None
    place = axis % len(shape)
    own = index_shape(shape, place, parameters["count"], parameters["shorter"])
    index = indices(parameters["index_dtype"], own, shape[place], parameters["negative"], rng)
    descriptor = GatherElements(axis=axis)
    return picked_case(descriptor, shape, index, lambda x, index: gathered_elements(x, index, place), parameters, dtype, rng)


OPERATOR = any_type_operator(
    "GatherElements",
    _make,
    {
        "axis": (1, 0, 2, 3, -1, -3),
        "count": (2, 1, 0, 7),
        "shorter": (False, True),
        **INDEXED,
    },
    quantities={**quantities_of("input"), **INDEX_QUANTITIES},
    together=[
        {"rank": 1, "axis": 0},
        {"rank": 2, "axis": 1, "count": 7},
        {"rank": 6, "axis": 4, "shorter": True},
        {"axis": 3, "shorter": True, "negative": True, "index_dtype": "int32"},
        {"channels": 0, "axis": 3, "count": 0},
    ],
)
