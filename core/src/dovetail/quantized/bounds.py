"""Between which integers the results of a quantized layer lie."""

from __future__ import annotations

import math

import numpy as np

from ..graph.tensor import TensorInfo
from ..layers import ActivationFunction

_FAR = 1 << 20
"""From zero: beyond all integers of 8 and 16 bits."""


def bounds_of(activation: ActivationFunction | None, alpha: float, beta: float, info: TensorInfo) -> tuple[int, int]:
    """Return the least and the greatest integer that a ReLU, a clamp or no function gives.

    Args:
        activation: RELU, BOUNDED_RELU or None.
        alpha: The upper bound of a clamp.
        beta: Its lower bound.
        info: The result: int8, uint8 or int16, quantized per tensor.

    Source: TensorFlow Lite, CalculateActivationRangeQuantized: bounds are rounded, halves away from
    zero, as float32.
    """
    low, high = info.dtype.limits
    if activation is None or info.quantization is None:
        return low, high
    scale, zero = info.quantization.scale[0], info.quantization.zero_point[0]

    def quantized(value: float) -> int:
        with np.errstate(over="ignore"):
            ratio = float(np.float32(value / scale))
        if not math.isfinite(ratio) or abs(ratio) > _FAR:
            return high if ratio > 0 else low
        return zero + int(math.copysign(math.floor(abs(ratio) + 0.5), ratio))

    bounded = activation == ActivationFunction.BOUNDED_RELU
    least = max(low, min(high, quantized(beta if bounded else 0.0)))
    most = max(low, min(high, quantized(alpha))) if bounded else high
    return min(least, most), most  # of bounds that cross, the upper one wins
