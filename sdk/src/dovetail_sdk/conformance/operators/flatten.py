"""Flatten: the axes before one are merged, and the others."""

from __future__ import annotations

import math

import numpy as np

from dovetail import DType
from dovetail.layers import Flatten

from ..cases import Case, Parameters
from ..references.moving import KEPT, any_type_operator, moved_case
from ..references.shapes import shape_of


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, axis = shape_of(parameters), parameters["axis"]
    if shape is None or not -len(shape) <= axis <= len(shape):
        return None
    first = axis + len(shape) if axis < 0 else axis
    rows, columns = math.prod(shape[:first]), math.prod(shape[first:])
    return moved_case(Flatten(axis=axis), shape, lambda x: x.reshape(rows, columns), parameters, dtype, rng)


OPERATOR = any_type_operator(
    "Flatten",
    _make,
    {"axis": (1, 0, 2, 3, 4, -1, -2, -4), **KEPT},
    impossible={"*: output*.rank *": "results of the kind have rank 2"},
    together=[{"rank": 0, "axis": 0}, {"rank": 1, "axis": 0}, {"rank": 6, "axis": 5}, {"channels": 0, "axis": 4}],
)
