"""Prelu: a broadcast slope for what is negative; of floats, plain integers, quantized tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dovetail import DType, Quantization
from dovetail.layers import Prelu

from ..cases import EXACT, Array, Case, Feed, Operator, Parameters
from ..references import samples
from ..references.precision import units
from ..references.quantized import QUANTIZATIONS, of_type
from ..references.quantized_elementwise import ONE_QUANTUM, combined
from ..references.shapes import BROADCASTS, SIZES, narrowed, quantities_of, shape_of
from ..references.single_layer import layer_case


def prelu(x: Array, slope: Array) -> Array:
    """Choose x, or its product with the slope, in the type of the operands."""
    return np.where(x >= 0, x, x * slope)


def _make_quantized(
    parameters: Parameters, dtype: DType, shapes: tuple[tuple[int, ...], tuple[int, ...]], rng: np.random.Generator
) -> Case:
    zeros = (3, -7, 5) if dtype is DType.INT8 else (120, 131, 128)
    x_scale, slope_scale, scale = (float(np.float32(value)) for value in (0.05, 0.01, 0.06))
    given, sloped, result = (Quantization.per_tensor(*pair) for pair in zip((x_scale, slope_scale, scale), zeros, strict=True))
    x, slope = (samples.anything(dtype, shape, rng) for shape in shapes)
    expected = combined(prelu, (x, slope), (given, sloped, result), dtype)
    feeds = [Feed(x, quantization=given), Feed(slope, parameters["slope.constant"], quantization=sloped)]
    return layer_case(Prelu(), feeds, expected, tolerance=ONE_QUANTUM, quantization=result)


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape = shape_of(parameters)
    slopes = None if shape is None else narrowed(shape, parameters["broadcast"])
    if shape is None or slopes is None:
        return None
    how = of_type(parameters["quantization"], dtype)
    if how == "per_tensor":
        return _make_quantized(parameters, dtype, (shape, slopes), rng)
    if how != "none":
        return None
    if dtype.is_float:
        x = samples.led_by(samples.stored([0.0, -0.0, -1.0], dtype), samples.uniform(dtype, shape, rng))
        slope = samples.stored(rng.uniform(0.25, 2.0, slopes) * rng.choice([-1.0, 1.0], slopes), dtype)
        expected = prelu(samples.reals(x, dtype), samples.reals(slope, dtype))
        tolerance = units(dtype, 1, "one rounding, which need not be to nearest: 1 unit")
    else:
        root = math.isqrt(samples.limits(dtype)[1])
        x, slope = (samples.whole(dtype, one, rng, -root, root) for one in (shape, slopes))
        expected, tolerance = prelu(x, slope), EXACT
    feeds = [Feed(x, dtype=dtype), Feed(slope, parameters["slope.constant"], dtype)]
    return layer_case(Prelu(), feeds, expected, tolerance=tolerance)


_SHAPES: list[dict[str, Any]] = [
    *({"broadcast": how} for how in BROADCASTS[1:]),
    *({"rank": rank} for rank in (0, 1, 2, 3, 6)),
    {"rank": 2, "broadcast": "row"},
    {"rank": 3, "broadcast": "channel"},
    {"rank": 6, "broadcast": "outer"},
    {"channels": 17, "broadcast": "row"},
    {"channels": 0, "broadcast": "scalar"},
    {"slope.constant": False, "broadcast": "row"},
]

OPERATOR = Operator(
    kind="dovetail.Prelu",
    dtypes=samples.NUMBERS,
    parameters={
        **SIZES,
        "broadcast": BROADCASTS,
        "slope.constant": (True, False),
        "quantization": QUANTIZATIONS,
    },
    make=_make,
    quantities={
        **quantities_of("input", "output"),
        **{f"{slot}.quantization": "quantization" for slot in ("input", "slope", "output")},
    },
    together=[*_SHAPES, *({"quantization": "none", **shape} for shape in _SHAPES)],
)
