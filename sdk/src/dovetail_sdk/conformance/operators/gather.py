"""Gather: slices along an axis, by index."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import Gather

from ..cases import Array, Case, Parameters
from ..references.moving import any_type_operator
from ..references.positions import INDEX_QUANTITIES, INDEXED, indices, picked_case
from ..references.shapes import quantities_of, shape_of


def gathered(x: Array, index: Array, axis: int, batch: int) -> Array:
    """Pick slices, one index after the other; `axis` is not negative."""
    result = np.empty((*x.shape[:axis], *index.shape[batch:], *x.shape[axis + 1 :]), x.dtype)
    for lead in np.ndindex(x.shape[:axis]):
        for place in np.ndindex(index.shape[batch:]):
            result[(*lead, *place)] = x[(*lead, int(index[(*lead[:batch], *place)]))]
    return result


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, axis, batch = shape_of(parameters), parameters["axis"], parameters["batch_dims"]
    if shape is None or not -len(shape) <= axis < len(shape):
        return None
    place = axis % len(shape)
    if not 0 <= batch <= place:
        return None
    index_shape = (*shape[:batch], *parameters["indices"])
    index = indices(parameters["index_dtype"], index_shape, shape[place], parameters["negative"], rng)
    if parameters["constant_input"] and parameters["constant_indices"]:
        return None
    descriptor = Gather(axis=axis, batch_dims=batch)
    return picked_case(descriptor, shape, index, lambda x, index: gathered(x, index, place, batch), parameters, dtype, rng)


OPERATOR = any_type_operator(
    "Gather",
    _make,
    {
        "axis": (0, 1, 2, 3, -1, -2, -4),
        "indices": ((3,), (), (1,), (0,), (2, 3), (1, 2, 1)),
        "batch_dims": (0, 1, 2),
        "constant_input": (False, True),
        **INDEXED,
    },
    quantities={**quantities_of("input"), "input.constant": "constant_input", **INDEX_QUANTITIES},
    reaching={"indices.rank": lambda rank: {"indices": (*(1,) * (rank - 1), 2)[-rank or 1 :], "rank": 1, "axis": 0}},
    together=[
        *({"axis": axis, "batch_dims": batch} for axis in (1, 2, 3) for batch in (1, 2)),
        {"axis": 3, "batch_dims": 3},
        {"axis": 2, "batch_dims": 1, "indices": ()},
        {"axis": -1, "indices": (2, 3), "negative": True, "index_dtype": "int32"},
        {"axis": 1, "indices": ()},
        {"rank": 1, "indices": ()},
        {"rank": 1, "indices": (7,)},
        {"rank": 2, "constant_input": True, "indices": (2, 3)},  # a table of embeddings
        {"rank": 6, "axis": 4},
        {"channels": 0, "indices": (0,), "axis": 3},
    ],
)
