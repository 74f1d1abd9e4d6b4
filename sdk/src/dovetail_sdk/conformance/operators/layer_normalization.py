"""LayerNormalization: over the last axes, with the mean or (RMS) without."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import LayerNormalization

from ..cases import Case, Operator, Parameters
from ..references import samples
from ..references.moments import SCALED, SCALED_QUANTITIES, normalized_case
from ..references.shapes import SIZES, quantities_of, shape_of


def _operand_shape(tail: tuple[int, ...], how: str) -> tuple[int, ...] | None:
    ways = {"full": tail, "last": tail[-1:], "one": (1,), "ones": (1,) * len(tail), "column": (*tail[:-1], 1)}
    return ways[how]


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, axis, center = shape_of(parameters), parameters["axis"], parameters["center"]
    if shape is None or not -len(shape) <= axis < len(shape):
        return None
    tail = shape[axis % len(shape) :]
    own = _operand_shape(tail, parameters["operand"])
    if own is None:
        return None
    x = samples.uniform(dtype, shape, rng)
    values = samples.reals(x, dtype)
    rows = values.reshape(*shape[: len(shape) - len(tail)], int(np.prod(tail)))
    descriptor = LayerNormalization(axis=axis, epsilon=parameters["epsilon"], center=center)
    return normalized_case(
        descriptor, x, rows, lambda result: result.reshape(shape), (own, own), parameters, dtype, rng, center=center
    )


OPERATOR = Operator(
    kind="dovetail.LayerNormalization",
    dtypes=samples.FLOATS,
    parameters={
        **SIZES,
        "axis": (-1, 0, 1, 2, 3, -2, -3),
        "center": (True, False),
        "operand": ("full", "last", "one", "ones", "column"),
        **SCALED,
    },
    make=_make,
    quantities={**quantities_of("input", "output"), **SCALED_QUANTITIES},
    together=[
        *({"axis": axis, "center": False} for axis in (0, 1, -2)),
        *({"axis": -2, "operand": operand} for operand in ("last", "one", "ones", "column")),
        {"scale dtype": None, "offset dtype": None},
        {"scale dtype": "float32", "offset dtype": "float32"},
        {"center": False, "offset dtype": None},
        {"rank": 2, "channels": 17, "center": False},
    ],
)
