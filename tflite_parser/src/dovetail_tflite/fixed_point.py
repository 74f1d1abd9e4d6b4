"""TensorFlow Lite's fixed-point arithmetic: on constants, and as layers of plain integers."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dovetail import DType
from dovetail.graph.layer import OutputSlot
from dovetail.layers import BinaryOperation, Cast

from .call import Call
from .elementwise_parts import combined

Whole = npt.NDArray[np.int64]


def multiplier_of(factor: float) -> tuple[int, int]:
    """Return (multiplier, shift) so that the factor is multiplier * 2^(shift - 31).

    Source: QuantizeMultiplier, lite/kernels/internal/quantization_util.cc.
    """
    fraction, shift = math.frexp(factor)
    multiplier = math.floor(fraction * (1 << 31) + 0.5)
    if multiplier == 1 << 31:
        multiplier, shift = multiplier >> 1, shift + 1
    if shift < -31:
        return 0, 0
    return (multiplier, shift) if shift <= 30 else ((1 << 31) - 1, 30)


def multiplied(x: Whole, factor: float) -> Whole:
    """Multiply integers by a real factor (MultiplyByQuantizedMultiplier), saturating at 32 bits."""
    multiplier, shift = multiplier_of(factor)
    shifted = np.clip(x << max(shift, 0), -(1 << 31), (1 << 31) - 1)
    product = (shifted * multiplier + (1 << 30)) >> 31
    right = max(-shift, 0)
    half = (1 << right) >> 1
    found: Whole = np.where(product >= 0, (product + half) >> right, -((-product + half) >> right))
    return found


def scaled(call: Call, x: OutputSlot, multiplier: int, shift: int, part: str) -> OutputSlot:
    """Add layers that multiply plain integers of 64 bits as `multiplied` does.

    TensorFlow Lite rounds twice, when it shifts by 31 and by the rest. Here both are one shift:
    what is added before the second one is added before the first, that many places to the left.
    That is half a step, less one where the number is negative: halves go away from zero.

    Args:
        call: The operator.
        x: Integers that fit 32 bits.
        multiplier: Below 2^31, and not negative.
        shift: The factor is multiplier * 2^(shift - 31).
        part: What the layers are called.
    """
    wide, left, right = DType.INT64, max(shift, 0), max(-shift, 0)
    factor = number(call, multiplier << left, wide, f"{part}_factor")
    found = combined(call, BinaryOperation.MUL, x, factor, f"{part}_product")
    if right:
        # -2^31 of a negative number, else 0. Whether the product then rounds to 0 does not matter:
        # (half - 1) >> right is 0, as half >> right is.
        mask = number(call, -1 << 31, wide, f"{part}_top")
        sign = combined(call, BinaryOperation.BITWISE_AND, x, mask, f"{part}_sign")
        found = combined(call, BinaryOperation.ADD, found, sign, f"{part}_signed")
    half = (1 << right) >> 1
    found = raised(call, found, (1 << 30) + (half << 31), f"{part}_rounded")
    return combined(call, BinaryOperation.SHIFT_RIGHT, found, number(call, 31 + right, wide, f"{part}_places"), part)


def limited(call: Call, x: OutputSlot, dtype: DType) -> OutputSlot:
    """Add layers that cut plain integers off to the range of a type, which the result has."""
    for operation, limit in zip((BinaryOperation.MAXIMUM, BinaryOperation.MINIMUM), dtype.limits, strict=True):
        name = str(operation)
        x = combined(call, operation, x, number(call, int(limit), call.dtype_of(x), f"{name}_limit"), name)
    return call.add(Cast(dtype=dtype), x)


def number(call: Call, value: int, dtype: DType, part: str) -> OutputSlot:
    """Add a constant integer."""
    return call.network.constant(np.asarray(value, dtype.numpy), call.label(part))


def raised(call: Call, x: OutputSlot, by: int, part: str) -> OutputSlot:
    """Add a constant to plain integers."""
    return combined(call, BinaryOperation.ADD, x, number(call, by, call.dtype_of(x), f"{part}_offset"), part)
