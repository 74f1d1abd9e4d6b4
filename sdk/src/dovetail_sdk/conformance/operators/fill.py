"""Fill: a tensor of one value."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import Fill

from ..cases import Array, Case, Operator, Parameters
from ..references import samples
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import layer_case


def _value(name: str, dtype: DType) -> tuple[float | int | bool, Array] | None:
    """Return the attribute and the stored element; None if the type cannot hold it."""
    if dtype is DType.BOOL:
        truths = {"one": True, "zero": False}
        return (truths[name], np.asarray(truths[name])) if name in truths else None
    if dtype.is_float:
        reals = {"one": 1.0, "zero": 0.0, "fraction": -2.5, "least": float("-inf"), "most": 1e4, "none": float("nan")}
        # 1e4 needs more bits than bfloat16 has: it is stored as the nearest, 9984.
        value = reals[name]
        return value, np.asarray(9984.0 if dtype is DType.BFLOAT16 and name == "most" else value)
    minimum, maximum = samples.limits(dtype)
    wholes = {"one": 1, "zero": 0, "least": minimum, "most": maximum}
    return (wholes[name], np.asarray(wholes[name], dtype.numpy)) if name in wholes else None


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, given = shape_of(parameters), _value(parameters["filled"], dtype)
    if shape is None or given is None:
        return None
    value, stored = given
    return layer_case(Fill(value=value, dtype=dtype, shape=shape), [], np.full(shape, stored))


OPERATOR = Operator(
    kind="dovetail.Fill",
    dtypes=samples.ALL,
    parameters={**SIZES, "filled": ("one", "zero", "fraction", "least", "most", "none")},
    make=_make,
    quantities=quantities_of("output"),
)
