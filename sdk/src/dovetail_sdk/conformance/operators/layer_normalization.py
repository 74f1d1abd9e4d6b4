"""LayerNormalization: over the last axes, with the mean or (RMS) without."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import LayerNormalization

from ..cases import Case, Feed, Operator, Parameters
from ..references import samples
from ..references.moments import largest, normalized, own_or, parameter, tolerance
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import layer_case


def _operand_shape(tail: tuple[int, ...], how: str) -> tuple[int, ...] | None:
    ways = {"full": tail, "last": tail[-1:], "one": (1,), "ones": (1,) * len(tail), "column": (*tail[:-1], 1)}
    return ways[how]


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, axis, epsilon, center = shape_of(parameters), parameters["axis"], parameters["epsilon"], parameters["center"]
    if shape is None or not -len(shape) <= axis < len(shape):
        return None
    tail = shape[axis % len(shape) :]
    own = _operand_shape(tail, parameters["operand"])
    if own is None:
        return None
    x = samples.uniform(dtype, shape, rng)
    values = samples.reals(x, dtype)
    rows = values.reshape(*shape[: len(shape) - len(tail)], int(np.prod(tail)))
    scale_feed, scale = parameter(own_or(parameters["scale dtype"], dtype), own, 0.5, 2.0, parameters["constant"], rng)
    offset_feed, offset = parameter(own_or(parameters["offset dtype"], dtype), own, -2.0, 2.0, parameters["constant"], rng)
    expected = normalized(rows, epsilon, center).reshape(shape)
    expected = expected * (1.0 if scale is None else scale) + (0.0 if offset is None else offset)
    if rows.shape[-1] == 1 and center:
        expected = np.zeros(shape) + (0.0 if offset is None else offset)
    bound = tolerance(rows, epsilon, largest(scale, 1.0), largest(offset, 0.0), dtype, center)
    descriptor = LayerNormalization(axis=axis, epsilon=epsilon, center=center)
    return layer_case(descriptor, [Feed(x, dtype=dtype), scale_feed, offset_feed], expected, tolerance=bound)


OPERATOR = Operator(
    kind="dovetail.LayerNormalization",
    dtypes=samples.FLOATS,
    parameters={
        **SIZES,
        "axis": (-1, 0, 1, 2, 3, -2, -3),
        "epsilon": (1e-5, 1e-3, 0.5),
        "center": (True, False),
        "scale dtype": ("same", None, "float32", "float64", "float16", "bfloat16"),
        "offset dtype": ("same", None, "float32", "float64", "float16", "bfloat16"),
        "operand": ("full", "last", "one", "ones", "column"),
        "constant": (True, False),
    },
    make=_make,
    quantities={
        **quantities_of("input", "output"),
        "scale.dtype": "scale dtype",
        "offset.dtype": "offset dtype",
        "scale.constant": "constant",
        "offset.constant": "constant",
    },
    together=[
        *({"axis": axis, "center": False} for axis in (0, 1, -2)),
        *({"axis": -2, "operand": operand} for operand in ("last", "one", "ones", "column")),
        {"scale dtype": None, "offset dtype": None},
        {"scale dtype": "float32", "offset dtype": "float32"},
        {"center": False, "offset dtype": None},
        {"rank": 2, "channels": 17, "center": False},
    ],
)
