"""Gather: slices along an axis, by index."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import Gather

from ..cases import Array, Case, Feed, Operator, Parameters
from ..references import samples
from ..references.positions import INDEX_DTYPES, indices
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import carries, layer_case, marked


def gathered(x: Array, index: Array, axis: int, batch: int) -> Array:
    """Pick slices, one index after the other; `axis` is not negative."""
    result = np.empty((*x.shape[:axis], *index.shape[batch:], *x.shape[axis + 1 :]), x.dtype)
    for lead in np.ndindex(x.shape[:axis]):
        for place in np.ndindex(index.shape[batch:]):
            result[(*lead, *place)] = x[(*lead, int(index[(*lead[:batch], *place)]))]
    return result


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, axis, batch, how = shape_of(parameters), parameters["axis"], parameters["batch_dims"], parameters["quantization"]
    if shape is None or not -len(shape) <= axis < len(shape) or not carries(how, dtype):
        return None
    place = axis % len(shape)
    if not 0 <= batch <= place:
        return None
    index_shape = (*shape[:batch], *parameters["indices"])
    index = indices(parameters["index_dtype"], index_shape, shape[place], parameters["negative"], rng)
    if index is None:
        return None
    x = samples.anything(dtype, shape, rng)
    feeds = [
        Feed(x, parameters["constant_input"], dtype, marked(how)),
        Feed(index, parameters["constant_indices"]),
    ]
    if all(feed.constant for feed in feeds):
        return None
    return layer_case(Gather(axis=axis, batch_dims=batch), feeds, gathered(x, index, place, batch))


OPERATOR = Operator(
    kind="dovetail.Gather",
    dtypes=samples.ALL,
    parameters={
        **SIZES,
        "axis": (0, 1, 2, 3, -1, -2, -4),
        "indices": ((3,), (), (1,), (0,), (2, 3), (1, 2, 1)),
        "batch_dims": (0, 1, 2),
        "index_dtype": INDEX_DTYPES,
        "negative": (False, True),
        "constant_input": (False, True),
        "constant_indices": (False, True),
        "quantization": (None, "kept"),
    },
    make=_make,
    quantities={
        **quantities_of("input"),
        "indices.dtype": "index_dtype",
        "input.constant": "constant_input",
        "indices.constant": "constant_indices",
    },
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
