"""GatherNd: slices by positions over several axes."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import GatherNd

from ..cases import Array, Case, Parameters
from ..references.moving import any_type_operator
from ..references.positions import INDEX_QUANTITIES, INDEXED, LEADING, coordinates, picked_case
from ..references.shapes import quantities_of, shape_of


def gathered_by_position(x: Array, index: Array, batch: int) -> Array:
    """Pick slices, one position after the other."""
    depth = index.shape[-1]
    result = np.empty((*index.shape[:-1], *x.shape[batch + depth :]), x.dtype)
    for place in np.ndindex(index.shape[:-1]):
        result[place] = x[(*place[:batch], *(int(i) for i in index[place]))]
    return result


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, depth, batch = shape_of(parameters), parameters["depth"], parameters["batch_dims"]
    if shape is None or not 1 <= depth <= len(shape) - batch or batch >= len(shape):
        return None
    lead = (*shape[:batch], *parameters["leading"])
    index = coordinates(parameters["index_dtype"], lead, shape[batch : batch + depth], parameters["negative"], rng)
    descriptor = GatherNd(batch_dims=batch)
    return picked_case(descriptor, shape, index, lambda x, index: gathered_by_position(x, index, batch), parameters, dtype, rng)


OPERATOR = any_type_operator(
    "GatherNd",
    _make,
    {
        "depth": (2, 1, 3, 4),
        "leading": LEADING,
        "batch_dims": (0, 1, 2),
        **INDEXED,
    },
    quantities={**quantities_of("input"), "indices.-1": "depth", **INDEX_QUANTITIES},
    together=[
        {"rank": 1, "depth": 1},
        {"rank": 1, "depth": 1, "leading": ()},
        {"rank": 6, "depth": 5},
        {"depth": 4, "leading": (1, 2, 1, 1, 1, 1, 1)},
        {"depth": 4, "leading": (1, 2, 1, 1, 1, 1, 1, 1)},
        {"rank": 2, "leading": (2, 3, 1)},
        {"depth": 1, "batch_dims": 1},
        {"depth": 3, "batch_dims": 1, "leading": ()},
        {"depth": 1, "batch_dims": 3},
        {"depth": 4, "negative": True, "index_dtype": "int32"},
        {"channels": 0, "depth": 3},
    ],
)
