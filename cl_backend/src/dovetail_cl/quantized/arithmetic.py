"""What quantizations of layers come to: zero points, factors from sums to results, clamps, tables.

Sums are integers of 32 bits. They become results in fixed point, bit for bit as TensorFlow Lite's
reference kernels have it (tensorflow/lite/kernels/internal/common.h,
MultiplyByQuantizedMultiplier; quantization_util.cc, QuantizeMultiplier).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import DType, Layer, Quantization
from dovetail.graph.tensor import TensorInfo
from dovetail.layers import ActivationFunction

from ..elementwise import input_info

SOURCE = "quantized/requantization.cl"
"""What turns sums into results."""

_MAX_LEFT = 30


def scheme(info: TensorInfo) -> Quantization:
    """Return the quantization of a tensor that has one."""
    assert info.quantization is not None, "the claims ask for it"
    return info.quantization


def limits(dtype: DType) -> tuple[int, int]:
    """Return the least and the greatest integer of a type of 8 bits."""
    return (-128, 127) if dtype is DType.INT8 else (0, 255)


def clamp_range(layer: Layer) -> tuple[int, int]:
    """Return the least and the greatest integer of a result, by its type and its activation.

    Source: TensorFlow Lite, CalculateActivationRangeQuantized: bounds are rounded, halves away from
    zero, as float32.
    """
    descriptor: Any = layer.descriptor
    info = layer.output.known_info
    alpha, beta = getattr(descriptor, "activation_alpha", 0.0), getattr(descriptor, "activation_beta", 0.0)
    return clamped(getattr(descriptor, "activation", None), alpha, beta, info)


def clamped(activation: ActivationFunction | None, alpha: float, beta: float, info: TensorInfo) -> tuple[int, int]:
    """Return the same of an activation that is named."""
    low, high = limits(info.dtype)
    if activation is None:
        return low, high
    scale, zero = scheme(info).scale[0], scheme(info).zero_point[0]

    def quantized(value: float) -> int:
        with np.errstate(over="ignore"):
            ratio = float(np.float32(value / scale))
        if not math.isfinite(ratio) or abs(ratio) > 1024:
            return high if ratio > 0 else low
        return zero + int(math.copysign(math.floor(abs(ratio) + 0.5), ratio))

    is_bounded = activation == ActivationFunction.BOUNDED_RELU
    least = max(low, min(high, quantized(beta if is_bounded else 0.0)))
    most = max(low, min(high, quantized(alpha))) if is_bounded else high
    return min(least, most), most  # of bounds that cross, the upper one wins


def fixed_point(factors: npt.ArrayLike) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return factors as multiplier * 2^(shift - 31), the multiplier in [2^30, 2^31) or zero."""
    mantissa, shift = np.frexp(np.asarray(factors, np.float64))
    multiplier = np.floor(mantissa * 2.0**31 + 0.5).astype(np.int64)
    is_whole = multiplier == 1 << 31
    multiplier, shift = np.where(is_whole, 1 << 30, multiplier), np.where(is_whole, shift + 1, shift)
    is_nothing = shift < -31  # nothing times it could round to one
    multiplier, shift = np.where(is_nothing, 0, multiplier), np.where(is_nothing, 0, shift)
    return multiplier.astype(np.int32), np.minimum(shift, _MAX_LEFT).astype(np.int32)


def requantized(values: npt.NDArray[Any], factor: float) -> npt.NDArray[np.int64]:
    """Return integers of 32 bits times a factor, as `requantization.cl` has it."""
    multiplier, shift = (int(one) for one in fixed_point(factor))
    shifted = (values.astype(np.int64) << max(shift, 0)).astype(np.int32).astype(np.int64)
    high = (shifted * multiplier + (1 << 30)) >> 31
    right = max(-shift, 0)
    mask = (1 << right) - 1
    return np.asarray((high >> right) + ((high & mask) > (mask >> 1) + (high < 0)))


def factors_of(layer: Layer, filters: int, *, is_single: bool) -> npt.NDArray[np.float64]:
    """Return the factor from sums to results of each filter.

    Args:
        layer: A product: of an input, and of weights.
        filters: How many there are.
        is_single: Scales are multiplied in float32.
    """
    given, weights = scheme(input_info(layer, 0)), scheme(input_info(layer, 1))
    scales = np.broadcast_to(np.asarray(weights.scale, np.float64), (filters,))
    if is_single:
        product = (np.float32(given.scale[0]) * scales.astype(np.float32)).astype(np.float64)
    else:
        product = given.scale[0] * scales
    return product / scheme(layer.output.known_info).scale[0]


def weight_zeros(layer: Layer, filters: int) -> npt.NDArray[np.int32]:
    """Return the zero point of the weights of each filter."""
    return np.broadcast_to(np.asarray(scheme(input_info(layer, 1)).zero_point, np.int32), (filters,))
