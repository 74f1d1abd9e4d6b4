"""Dequantize: the real numbers that integers stand for."""

from __future__ import annotations

import numpy as np

from dovetail import DType, Quantization
from dovetail.layers import Dequantize

from ..cases import EXACT, Array, Bits, Case, Feed, Operator, Parameters
from ..references import samples
from ..references.precision import units
from ..references.shapes import quantities_of, shape_of
from ..references.single_layer import layer_case
from .quantize import QUANTIZED_TENSOR, per_axis_column, quantization_of, zero_of

_LABELS = ("float32", "float64", "float16", "bfloat16")
_REASON = (
    "the product rounds once: half a unit; in float32 the scale, the difference or the result of a narrower type may round "
    "first: two units"
)


def reals_of(q: Array, quantization: Quantization) -> Array:
    """Subtract the zero point exactly and scale in float64."""
    scale = per_axis_column(np.asarray(quantization.scale, np.float32).astype(np.float64), q.ndim, quantization.axis)
    zero = per_axis_column(np.asarray(quantization.zero_point, np.int64), q.ndim, quantization.axis)
    return np.asarray((q.astype(np.int64) - zero) * scale)


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, target, axis = shape_of(parameters), DType.of(parameters["dtype"]), parameters["axis"]
    if shape is None:
        return None
    power = parameters["scale"] == "power of two"
    quantization = quantization_of(shape, axis, zero_of(parameters["zero_point"], dtype), power)
    if quantization is None:
        return None
    minimum, maximum = samples.limits(dtype)
    # Differences of 20 bits are exact in float32; float16 holds them times the scale up to 65504.
    reach = 1 << (15 if target is DType.FLOAT16 else 20)
    q = samples.whole(dtype, shape, rng, max(minimum, -reach), min(maximum, reach))
    exact = power and (target in (DType.FLOAT32, DType.FLOAT64) or (dtype.bits == 8 and target is DType.FLOAT16))
    expected = reals_of(q, quantization)
    return layer_case(
        Dequantize(quantization=quantization, dtype=target),
        [Feed(q, dtype=dtype, quantization=quantization if parameters["quantization"] else None)],
        expected,
        tolerance=EXACT if exact else units(DType.FLOAT32 if target is DType.FLOAT64 else target, 2, _REASON),
        # The difference is exact in float32, so that the product alone rounds.
        bits={"onnx": Bits(expected)} if target is DType.FLOAT32 else None,
    )


OPERATOR = Operator(
    kind="dovetail.Dequantize",
    dtypes=samples.INTEGERS,
    parameters={
        "dtype": _LABELS,
        **QUANTIZED_TENSOR,
        "scale": ("power of two", "any"),
        "quantization": (None, "given"),
    },
    make=_make,
    quantities={**quantities_of("input", "output"), "output.dtype": "dtype", "input.quantization": "quantization"},
    together=[
        *({"dtype": label, "scale": "any"} for label in ("float64", "float16", "bfloat16")),
        *({"axis": axis, "scale": "any"} for axis in (1, -1)),
        {"axis": 0, "rank": 1},
        {"axis": -1, "zero_point": "least", "channels": 17},
    ],
)
