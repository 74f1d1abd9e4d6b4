"""OneHot: an axis that is on at an index and off elsewhere."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import OneHot

from ..cases import Array, Case, Feed, Operator, Parameters
from ..references import samples
from ..references.positions import INDEX_DTYPES, indices
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import layer_case


def hot(index: Array, depth: int, off_on: Array, axis: int) -> Array:
    """Switch on what each index names; `axis` is one of the result's, not negative."""
    result = np.full((*index.shape[:axis], depth, *index.shape[axis:]), off_on[0], off_on.dtype)
    for at in np.ndindex(index.shape):
        place = int(index[at])
        if -depth <= place < depth:
            result[(*at[:axis], place, *at[axis:])] = off_on[1]
    return result


def _indices(parameters: Parameters, shape: tuple[int, ...], rng: np.random.Generator) -> Array | None:
    depth = parameters["depth"]
    if parameters["outside"]:  # every other one names nothing
        index = rng.integers(-2 * depth - 2, 2 * depth + 2, shape, np.int64)
        flat = index.reshape(-1)
        flat[: min(2, flat.size)] = [depth, -depth - 1][: min(2, flat.size)]
        return index.astype(DType.of(parameters["index_dtype"]).numpy)
    return indices(parameters["index_dtype"], shape, depth, parameters["negative"], rng)


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, depth, axis = shape_of(parameters), parameters["depth"], parameters["axis"]
    if shape is None or depth < 0 or not -len(shape) - 1 <= axis <= len(shape):
        return None
    index = _indices(parameters, shape, rng)
    if index is None:
        return None
    first = [False, True] if dtype is DType.BOOL else [-2.5, 1.5] if dtype.is_float else [3, samples.limits(dtype)[1]]
    values = np.asarray(first, dtype.numpy) if dtype.is_integer else samples.stored(first, dtype)
    if parameters["swapped"]:
        values = np.ascontiguousarray(values[::-1])
    feeds = [Feed(index), Feed(values, parameters["constant_values"], dtype)]
    return layer_case(OneHot(depth=depth, axis=axis), feeds, hot(index, depth, values, axis % (len(shape) + 1)))


OPERATOR = Operator(
    kind="dovetail.OneHot",
    dtypes=samples.ALL,
    parameters={
        **SIZES,
        "rank": (2, 0, 1, 3, 5),
        "depth": (4, 1, 0, 7, 16),
        "axis": (-1, 0, 1, 2, -2, -3),
        "index_dtype": INDEX_DTYPES,
        "negative": (False, True),
        "outside": (False, True),
        "swapped": (False, True),
        "constant_values": (True, False),
    },
    make=_make,
    quantities={**quantities_of("indices"), "indices.dtype": "index_dtype", "values.constant": "constant_values"},
    together=[
        {"rank": 0, "axis": 0},
        {"rank": 1, "axis": 0, "channels": 17},
        {"rank": 1, "axis": 1, "outside": True, "index_dtype": "int32"},
        {"depth": 0, "outside": True},
        {"depth": 1, "outside": True, "axis": 0},
    ],
)
