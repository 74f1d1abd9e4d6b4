"""Quantize: round to the integers of a quantization, saturated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dovetail import DType, Quantization
from dovetail.layers import Quantize, TieRounding

from ..cases import EXACT, Array, Bits, Case, Feed, Operator, Parameters, Tolerance
from ..references import samples
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import layer_case

_LABELS = ("int8", *(dtype.label for dtype in DType if dtype.is_integer and dtype is not DType.INT8))
_LARGEST_EXACT = 1 << 20
"""Bound of the quotients: a half is exact in float32 before and after adding the zero point."""
ONE_STEP = Tolerance(
    0.0, 1.0, "x / scale rounds in float32, or is x * (1 / scale): a quotient near a tie may fall to the other side, one step"
)


def per_axis_column(values: Array, rank: int, axis: int | None) -> Array:
    """Shape one value per element of an axis to broadcast; a single value stays a scalar."""
    return values.reshape(()) if axis is None else values.reshape(tuple(-1 if i == axis % rank else 1 for i in range(rank)))


def quantization_of(shape: tuple[int, ...], axis: int | None, zero: int, power: bool) -> Quantization | None:
    """Make a quantization whose scales are powers of two or not.

    The result is None if the axis is none of the shape's, or empty.
    """
    single = 2.0**-3 if power else float(np.float32(0.05))
    if axis is None:
        return Quantization.per_tensor(single, zero)
    if not -len(shape) <= axis < len(shape) or not shape[axis]:
        return None
    numbers = range(shape[axis])
    scales = [2.0 ** (-3 + i % 3) if power else float(np.float32(0.03 + 0.01 * (i % 5))) for i in numbers]
    return Quantization.per_axis(scales, [zero + (i % 4 if zero else 0) for i in numbers], axis=axis)


def zero_of(label: str, dtype: DType) -> int:
    """Return a zero point: none, within the range, or at one of its ends.

    No end lies beyond those of int32, which holds zero points.
    """
    minimum, maximum = samples.limits(dtype)
    if label == "none":
        return 0
    if label == "inside":
        return -3 if minimum else 120
    return max(minimum, -(1 << 15)) if label == "least" else min(maximum, 1 << 15) - 3


def whole(x: Array, ties: TieRounding) -> Array:
    """Round to the nearest whole number; a float64 tells ties of all narrower types."""
    if ties is TieRounding.TO_EVEN:
        return np.asarray(np.rint(x))
    down = np.floor(np.abs(x))
    return np.asarray(np.copysign(down + (np.abs(x) - down >= 0.5), x))


def quantized_reals(x: Array, quantization: Quantization, dtype: DType, ties: TieRounding = TieRounding.TO_EVEN) -> Array:
    """Divide in float64, round, add the zero point, saturate."""
    rank = x.ndim
    scale = per_axis_column(np.asarray(quantization.scale, np.float32).astype(np.float64), rank, quantization.axis)
    zero = per_axis_column(np.asarray(quantization.zero_point, np.float64), rank, quantization.axis)
    rounded = np.where(np.isnan(x), 0.0, whole(np.where(np.isnan(x), 0.0, x) / scale, ties)) + zero
    minimum, maximum = samples.limits(dtype)
    return np.asarray(np.clip(rounded, max(minimum, -_LARGEST_EXACT), min(maximum, _LARGEST_EXACT))).astype(dtype.numpy)


QUANTIZED_TENSOR: Mapping[str, Sequence[Any]] = {
    **SIZES,
    "axis": (None, 0, 1, 3, -1, -4),
    "zero_point": ("inside", "none", "least", "most"),
}
"""Parameters of a tensor and of its quantization."""


def _by_float32(x: Array, quantization: Quantization, dtype: DType, target: DType, ties: TieRounding) -> Array:
    """Divide in float32, as ONNX's QuantizeLinear and LiteRT do. No NaN, no infinity."""
    scale = per_axis_column(np.asarray(quantization.scale, np.float32), x.ndim, quantization.axis)
    zero = per_axis_column(np.asarray(quantization.zero_point, np.float64), x.ndim, quantization.axis)
    quotient = samples.reals(x, dtype).astype(np.float32) / scale
    return np.asarray(np.clip(whole(quotient, ties) + zero, *samples.limits(target))).astype(target.numpy)


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, target, axis = shape_of(parameters), DType.of(parameters["dtype"]), parameters["axis"]
    if shape is None:
        return None
    values, ties = parameters["values"], TieRounding(parameters["rounding"])
    power = values != "any"
    quantization = quantization_of(shape, axis, zero_of(parameters["zero_point"], target), power)
    if quantization is None:
        return None
    scale = per_axis_column(np.asarray(quantization.scale), len(shape), axis)
    minimum, maximum = samples.limits(target)
    zero = quantization.zero_point[0]
    low, high = max(minimum - zero, -200), min(maximum - zero, 200)
    if values == "ties":  # scales of powers of two: every quotient is exact in every type
        x = samples.stored((rng.integers(low, high, shape) + 0.5) * scale, dtype)
    elif values == "plain":
        x = samples.stored(rng.integers(4 * low, 4 * high, shape, endpoint=True) / 4 * scale, dtype)
    elif values == "special":
        if target.bits > 16:  # where wide integers saturate depends on the float they are rounded in
            return None
        beyond = [np.nan, 2.0**15, -(2.0**15), np.inf, -np.inf, 0.0, -0.0]
        x = samples.led_by(samples.stored(beyond, dtype), samples.stored(rng.integers(low, high, shape) * scale, dtype))
    else:
        x = samples.stored(rng.uniform(low, high, shape) * scale, dtype)
    standard = "onnx" if ties is TieRounding.TO_EVEN else "litert"
    # bfloat16 has 8 digits: what was asked for may have been cut off, which the reference sees.
    expected = quantized_reals(samples.reals(x, dtype), quantization, target, ties)
    if values == "special":
        wide = per_axis_column(np.asarray(quantization.zero_point, np.int64), len(shape), axis)
        reals = samples.reals(x, dtype)
        expected = np.where(np.isinf(reals), np.where(reals > 0, maximum, minimum), expected.astype(np.int64)).astype(
            target.numpy
        )
        expected = np.where(np.isnan(reals), np.broadcast_to(wide, shape), expected.astype(np.int64)).astype(target.numpy)
    return layer_case(
        Quantize(dtype=target, quantization=quantization, rounding=ties),
        [Feed(x, dtype=dtype)],
        expected,
        tolerance=EXACT if power else ONE_STEP,
        bits=None if power or dtype is DType.FLOAT64 else {standard: Bits(_by_float32(x, quantization, dtype, target, ties))},
    )


OPERATOR = Operator(
    kind="dovetail.Quantize",
    dtypes=samples.FLOATS,
    parameters={
        "dtype": _LABELS,
        **QUANTIZED_TENSOR,
        "values": ("plain", "ties", "special", "any"),
        "rounding": tuple(TieRounding),
    },
    make=_make,
    quantities={**quantities_of("input", "output"), "output.dtype": "dtype"},
    together=[
        *({"dtype": label, "values": values} for label in ("uint8", "int16") for values in ("ties", "special", "any")),
        *({"dtype": "uint8", "zero_point": zero} for zero in ("none", "least", "most")),
        *({"axis": axis, "values": "any"} for axis in (1, -1)),
        *({"rounding": "away_from_zero", "values": one, "dtype": of} for one in ("ties", "any") for of in ("int8", "int16")),
        {"axis": 0, "rank": 1},
        {"axis": 1, "dtype": "int32", "zero_point": "none"},
        {"axis": -1, "values": "ties", "channels": 17},
    ],
)
