"""GatherNd: slices by positions over several axes."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import GatherNd

from ..cases import Array, Case, Feed, Operator, Parameters
from ..references import samples
from ..references.positions import INDEX_DTYPES, indices
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import carries, layer_case, marked


def gathered_by_position(x: Array, index: Array, batch: int) -> Array:
    """Pick slices, one position after the other."""
    depth = index.shape[-1]
    result = np.empty((*index.shape[:-1], *x.shape[batch + depth :]), x.dtype)
    for place in np.ndindex(index.shape[:-1]):
        result[place] = x[(*place[:batch], *(int(i) for i in index[place]))]
    return result


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, depth, batch, how = shape_of(parameters), parameters["depth"], parameters["batch_dims"], parameters["quantization"]
    if shape is None or not 1 <= depth <= len(shape) - batch or batch >= len(shape) or not carries(how, dtype):
        return None
    lead = (*shape[:batch], *parameters["leading"])
    columns = [
        indices(parameters["index_dtype"], lead, shape[batch + axis], parameters["negative"], rng) for axis in range(depth)
    ]
    given = [column for column in columns if column is not None]
    if len(given) < depth:
        return None
    index = np.stack(given, -1)
    x = samples.anything(dtype, shape, rng)
    feeds = [Feed(x, dtype=dtype, quantization=marked(how)), Feed(index, parameters["constant_indices"])]
    return layer_case(GatherNd(batch_dims=batch), feeds, gathered_by_position(x, index, batch))


OPERATOR = Operator(
    kind="dovetail.GatherNd",
    dtypes=samples.ALL,
    parameters={
        **SIZES,
        "depth": (2, 1, 3, 4),
        "leading": ((3,), (), (1,), (0,), (2, 2)),
        "batch_dims": (0, 1, 2),
        "index_dtype": INDEX_DTYPES,
        "negative": (False, True),
        "constant_indices": (False, True),
        "quantization": (None, "kept"),
    },
    make=_make,
    quantities={
        **quantities_of("input"),
        "indices.-1": "depth",
        "indices.dtype": "index_dtype",
        "indices.constant": "constant_indices",
    },
    together=[
        {"rank": 1, "depth": 1},
        {"rank": 1, "depth": 1, "leading": ()},
        {"rank": 6, "depth": 5},
        {"rank": 2, "leading": (2, 3, 1)},
        {"depth": 1, "batch_dims": 1},
        {"depth": 3, "batch_dims": 1, "leading": ()},
        {"depth": 1, "batch_dims": 3},
        {"depth": 4, "negative": True, "index_dtype": "int32"},
        {"channels": 0, "depth": 3},
    ],
)
