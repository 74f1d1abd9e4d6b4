"""TopK: the best elements along an axis and where they stand."""

from __future__ import annotations

import math

import numpy as np

from dovetail import DType
from dovetail.layers import TopK

from ..cases import Array, Case, Feed, Operator, Parameters
from ..references import samples
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import carries, layer_case, marked


def best_positions(x: Array, k: int, axis: int, largest: bool) -> Array:
    """Sort each line's positions, ties by position, NaN as the largest; keep k of them."""
    lines = np.moveaxis(x, axis, -1)
    result = np.zeros((*lines.shape[:-1], k), np.int64)
    for place in np.ndindex(lines.shape[:-1]):
        line = lines[place].tolist()
        keys = [(math.isnan(value), 0 if math.isnan(value) else value) for value in line]
        order = sorted(range(len(line)), key=lambda at: keys[at])
        if largest:  # reverse=True of sorted keeps the order of equal elements
            order = sorted(range(len(line)), key=lambda at: keys[at], reverse=True)
        result[place] = order[:k]
    return np.moveaxis(result, -1, axis)


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, axis, k, how = shape_of(parameters), parameters["axis"], parameters["k"], parameters["quantization"]
    if shape is None or not -len(shape) <= axis < len(shape) or not 0 <= k <= shape[axis] or not carries(how, dtype):
        return None
    x = samples.ranked(dtype, shape, parameters["values"], rng)
    if x is None:
        return None
    positions = best_positions(samples.reals(x, dtype) if dtype.is_float else x, k, axis, parameters["largest"])
    descriptor = TopK(k=k, axis=axis, largest=parameters["largest"])
    return layer_case(
        descriptor, [Feed(x, dtype=dtype, quantization=marked(how))], np.take_along_axis(x, positions, axis), positions
    )


OPERATOR = Operator(
    kind="dovetail.TopK",
    dtypes=samples.ALL,
    parameters={
        **SIZES,
        "k": (2, 1, 0, 3, 5),
        "axis": (-1, 0, 1, 2, 3, -4),
        "largest": (True, False),
        "values": samples.RANKED,
        "quantization": (None, "kept"),
    },
    make=_make,
    quantities=quantities_of("input"),
    together=[
        *({"values": values, "largest": False} for values in ("plain", "equal", "special")),
        *({"values": values, "k": 5} for values in ("plain", "equal", "special")),
        {"values": "special", "k": 5, "largest": False},
        {"channels": 1, "k": 1},
        {"channels": 0, "k": 0},
        {"rank": 1, "channels": 33, "k": 33},
        {"rank": 1, "channels": 65, "k": 1, "largest": False},
        {"axis": 1, "k": 3, "largest": False},
        {"axis": 0, "k": 2, "values": "equal"},
    ],
)
