"""Softmax: exponentials over their sum along an axis, and the logarithm of that."""

from __future__ import annotations

import math

import numpy as np

from dovetail import DType, Quantization
from dovetail.layers import Softmax

from ..cases import Array, Bits, Case, Feed, Operator, Parameters, Tolerance
from ..references import samples
from ..references.precision import SMALLEST_NORMAL, UNIT
from ..references.quantized_elementwise import ONE_QUANTUM, quantized, real
from ..references.quantized_softmax import litert_softmax
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import layer_case

_TWO_QUANTA = Tolerance(0.0, 2.0, "fixed-point exponentials and a fixed-point reciprocal err by a quantum each: two quanta")


def softmax(x: Array, axis: int, beta: float, log: bool) -> Array:
    """Compute by the definition, from the greatest element on, so that no exponential overflows."""
    if not x.size:
        return x
    scaled = beta * x
    shifted = scaled - scaled.max(axis=axis, keepdims=True)
    total = np.exp(shifted).sum(axis=axis, keepdims=True)
    return np.asarray(shifted - np.log(total) if log else np.exp(shifted) / total)


def error(dtype: DType, count: int, beta: float, log: bool, widest: float) -> Tolerance:
    """Bound the error of a kernel that computes in float32 (float64 of float64).

    Args:
        dtype: Of the result.
        count: Elements along the axis.
        beta: Factor of the exponents.
        log: True for the logarithm.
        widest: Greatest |beta * (x - greatest)|.
    """
    rounding = 2.0**-52 if dtype is DType.FLOAT64 else 2.0**-23
    summing = min(count, 6 * math.sqrt(count))
    # The exponent is rounded at most twice, in units of its size and of that of its operands; so it
    # is for both signs of beta.
    exponent = 3 * (widest + 1)
    if log:
        absolute = (exponent + summing + 8) * rounding
        reason = f"an exponent up to {widest:.3g} rounded thrice, a sum of {count} and a logarithm near 0"
        relative = 2 * UNIT[dtype]
    else:
        absolute = 0.0
        reason = f"an exponent up to {widest:.3g} rounded thrice, exponentials within 4 units, a sum of {count}, a division"
        relative = (exponent + summing + 8) * rounding + UNIT[dtype]
    return Tolerance(relative, absolute + SMALLEST_NORMAL[dtype], f"{reason}; then one rounding to {dtype}")


def _make_quantized(parameters: Parameters, dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Case | None:
    axis, beta, as_specified = parameters["axis"], float(parameters["beta"]), parameters["values"] == "plain"
    if dtype not in (DType.INT8, DType.UINT8) or parameters["log"]:
        return None
    zero, least = (-5, -128) if dtype is DType.INT8 else (118, 0)
    given = Quantization.per_tensor(float(np.float32(0.05)), zero)
    # TensorFlow Lite's 8-bit quantization specification fixes both; other results are real numbers.
    result = Quantization.per_tensor(*((1 / 256, least) if as_specified else (1 / 200, least + 20)))
    x = samples.anything(dtype, shape, rng)
    expected = quantized(softmax(real(x, given), axis, beta, False), result, dtype)
    parts = litert_softmax(np.sign(beta) * x.astype(np.float64), given.scale[0] * abs(beta), axis)
    in_fixed_point = np.clip(parts + least, least, least + 255).astype(dtype.numpy)
    # TensorFlow Lite has no other scale of the result: it defines nothing there.
    bits = {"litert": Bits(in_fixed_point, None if as_specified else np.ones(shape, np.bool_))}
    return layer_case(
        Softmax(axis=axis, beta=beta),
        [Feed(x, dtype=dtype, quantization=given)],
        expected,
        tolerance=_TWO_QUANTA if as_specified else ONE_QUANTUM,
        quantization=result,
        bits=bits,
    )


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, axis, beta, log = shape_of(parameters), parameters["axis"], float(parameters["beta"]), parameters["log"]
    if not shape or not -len(shape) <= axis < len(shape):
        return None
    if not dtype.is_float:
        return _make_quantized(parameters, dtype, shape, rng) if parameters["values"] in ("plain", "scaled") else None
    if parameters["values"] == "scaled":  # a result of any scale
        return None
    if parameters["values"] == "plain":
        x = samples.uniform(dtype, shape, rng, -3.0, 3.0)
    elif parameters["values"] == "alike":
        x = samples.stored(np.full(shape, 2.5), dtype)
    else:  # whose exponentials overflow, if they are not taken from the greatest on
        great = samples.stored([1000.0, -1000.0, 1000.0, 996.0], dtype)
        x = samples.led_by(great, samples.uniform(dtype, shape, rng, -50.0, 50.0))
    wide = samples.reals(x, dtype)
    expected = softmax(wide, axis, beta, log)
    span = np.ptp(wide, axis=axis).max(initial=0.0) if wide.size else 0.0
    size = shape[axis]
    tolerance = error(dtype, size, beta, log, abs(beta) * (float(np.abs(wide).max(initial=0.0)) + float(span)))
    return layer_case(Softmax(axis=axis, beta=beta, log=log), [Feed(x, dtype=dtype)], expected, tolerance=tolerance)


OPERATOR = Operator(
    kind="dovetail.Softmax",
    dtypes=(*samples.FLOATS, DType.INT8, DType.UINT8),
    parameters={
        **SIZES,
        "axis": (-1, 0, 1, 2, 3, -2, -3),
        "beta": (1.0, 0.5, 2.0, -0.5),
        "log": (False, True),
        "values": ("plain", "great", "alike", "scaled"),
        "quantization": ("per_tensor",),
    },
    make=_make,
    quantities={
        **quantities_of("input", "output"),
        "input.quantization": "quantization",
        "output.quantization": "quantization",
    },
    together=[
        {"rank": 2, "batch": 1, "channels": 10},
        {"rank": 2, "channels": 33},
        {"rank": 1, "channels": 129},
        {"rank": 3, "axis": 1},
        {"rank": 6, "axis": 2},
        {"rank": 2, "axis": 0},
        {"axis": 1, "channels": 17},
        {"log": True, "axis": 1},
        {"log": True, "rank": 2, "channels": 33},
        {"log": True, "values": "great"},
        {"log": True, "values": "alike"},
        {"log": True, "channels": 1},
        {"log": True, "beta": 2.0},
        {"beta": -0.5, "axis": 0},
        {"beta": 2.0, "values": "great"},
        {"channels": 0, "log": True},
        *({"values": "scaled", **sizes} for sizes in ({"rank": 2, "channels": 10}, {"axis": 1}, {"rank": 1, "channels": 513})),
        {"beta": 2.0, "rank": 2, "channels": 513},
    ],
)
