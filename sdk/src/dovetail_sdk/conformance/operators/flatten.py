"""Flatten: the axes before one are merged, and the others."""

from __future__ import annotations

import math

import numpy as np

from dovetail import DType
from dovetail.layers import Flatten

from ..cases import Case, Feed, Operator, Parameters
from ..references import samples
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import carries, layer_case, marked


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, axis = shape_of(parameters), parameters["axis"]
    if shape is None or not -len(shape) <= axis <= len(shape):
        return None
    if not carries(parameters["quantization"], dtype):
        return None
    quantization = marked(parameters["quantization"])
    x = samples.anything(dtype, shape, rng)
    first = axis + len(shape) if axis < 0 else axis
    result = x.reshape(math.prod(shape[:first]), math.prod(shape[first:]))
    return layer_case(Flatten(axis=axis), [Feed(x, dtype=dtype, quantization=quantization)], result)


OPERATOR = Operator(
    kind="dovetail.Flatten",
    dtypes=samples.ALL,
    parameters={**SIZES, "axis": (1, 0, 2, 3, 4, -1, -2, -4), "quantization": (None, "kept")},
    make=_make,
    quantities=quantities_of("input"),
    impossible={"*: output*.rank *": "results of the kind have rank 2"},
    together=[{"rank": 0, "axis": 0}, {"rank": 1, "axis": 0}, {"rank": 6, "axis": 5}, {"channels": 0, "axis": 4}],
)
