"""TensorFlow Lite's fixed-point arithmetic: on constants, and as layers of plain integers."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dovetail import DType
from dovetail.graph.layer import OutputSlot
from dovetail.layers import BinaryOperation, ElementwiseBinary

from .call import Call

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


def combined(call: Call, operation: BinaryOperation, a: OutputSlot, b: OutputSlot, part: str) -> OutputSlot:
    """Add a layer of two plain integers."""
    return call.add(ElementwiseBinary(operation=operation), a, b, part=part)


def number(call: Call, value: int, dtype: DType, part: str) -> OutputSlot:
    """Add a constant integer."""
    return call.network.constant(np.asarray(value, dtype.numpy), call.label(part))


def raised(call: Call, x: OutputSlot, by: int, part: str) -> OutputSlot:
    """Add a constant to plain integers."""
    return combined(call, BinaryOperation.ADD, x, number(call, by, call.dtype_of(x), f"{part}_offset"), part)
