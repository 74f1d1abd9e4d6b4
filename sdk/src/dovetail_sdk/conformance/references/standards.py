"""The bits that standards define for quantized results, and where they leave them open.

`litert`: TensorFlow Lite's reference kernels rescale in fixed point, with 31 bits and two
roundings: halves away from zero, or up where the factor is at least 1/2
(tensorflow/lite/kernels/internal/common.h, MultiplyByQuantizedMultiplier; quantization_util.cc,
QuantizeMultiplier); fully connected layers in double.

`onnx`: a result is the nearest integer, ties to even, of a real number (QLinearConv, QLinearMatMul,
QuantizeLinear). How exactly that number is formed is not said, and neither is whether a tie is
broken before the zero point is added or after. So a number that is nearer to a tie than float32 can
tell is left open, unless scales are powers of two, which leaves nothing to round; then a tie is
open where the zero point is odd.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dovetail import DType, Quantization
from dovetail.layers import ActivationFunction

from ..cases import Array, Bits
from . import samples
from .fused import PARAMETERS, clamp

_FLOAT32 = 2.0**-20
"""How near to a tie float32 can tell, relative to a number's size: a few roundings."""


def is_power_of_two(*quantizations: Quantization) -> bool:
    """Tell whether all scales are powers of two, so that scaling by them rounds nothing."""
    return all(float(np.frexp(scale)[0]) == 0.5 for one in quantizations for scale in one.scale)


def onnx_bits(
    values: Array,
    result: Quantization,
    dtype: DType,
    activation: ActivationFunction | None = None,
    *,
    is_exact: bool = False,
) -> Bits:
    """Round real numbers to the integers that stand for them.

    Args:
        values: Real numbers, in float64.
        result: Of the integers.
        dtype: Of the integers.
        activation: A clamp.
        is_exact: Float32 forms these numbers without rounding.
    """
    zero = result.zero_point[0]
    low, high = clamp(activation, result)
    wanted = np.clip(values / float(np.float32(result.scale[0])) + zero, low, high)
    from_tie = np.abs(wanted - np.floor(wanted) - 0.5)
    undefined = (from_tie == 0) & bool(zero % 2) if is_exact else from_tie <= _FLOAT32 * (np.abs(wanted) + 256)
    return Bits(np.clip(np.rint(wanted), *samples.limits(dtype)).astype(dtype.numpy), undefined)


def litert_bits(rescaled: Array, result: Quantization, dtype: DType, activation: ActivationFunction | None = None) -> Bits:
    """Add the zero point and clamp, as CalculateActivationRangeQuantized says."""
    zero, (alpha, beta) = result.zero_point[0], PARAMETERS[activation]
    low, high = samples.limits(dtype)
    if activation is ActivationFunction.RELU:
        low = max(low, zero)
    elif activation is ActivationFunction.BOUNDED_RELU:
        bounds = (float(np.float32(bound / result.scale[0])) for bound in (beta, alpha))
        least, most = (zero + int(np.copysign(np.floor(abs(one) + 0.5), one)) for one in bounds)
        low, high = max(low, min(high, least)), max(low, min(high, most))
    return Bits(np.clip(rescaled + zero, low, high).astype(dtype.numpy))


def fixed_point(x: Array, factor: Array | float) -> Array:
    """Multiply integers of 32 bits by real factors as MultiplyByQuantizedMultiplier does."""
    mantissa, exponent = np.frexp(np.asarray(factor, np.float64))
    multiplier = np.floor(mantissa * 2.0**31 + 0.5).astype(np.int64)
    is_whole = multiplier == 1 << 31
    multiplier, exponent = np.where(is_whole, 1 << 30, multiplier), np.where(is_whole, exponent + 1, exponent).astype(np.int64)
    product = (x.astype(np.int64) << np.maximum(exponent, 0)) * multiplier
    nudged = product + np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    high = np.sign(nudged) * (np.abs(nudged) >> 31)
    right = np.maximum(-exponent, 0)
    mask = (np.int64(1) << right) - 1
    threshold = (mask >> 1) + (high < 0)
    return np.asarray((high >> right) + ((high & mask) > threshold))


def wide_fixed_point(x: Array, factor: Array | float) -> Array:
    """Multiply integers of 64 bits by real factors of 15 bits: ties go up."""
    mantissa, exponent = np.frexp(np.asarray(factor, np.float64))
    multiplier = np.floor(mantissa * 2.0**31 + 0.5).astype(np.int64)
    # 2^31 becomes 2^30 with a greater exponent: the same product.
    short = np.where(multiplier == 1 << 31, 1 << 15, np.minimum((multiplier + (1 << 15)) >> 16, 0x7FFF))
    right = 15 - exponent.astype(np.int64)
    return np.asarray((x.astype(np.int64) * short + (np.int64(1) << (right - 1))) >> right)


def in_double(x: Array, factor: Array | float) -> Array:
    """Multiply integers by factors in double, as LiteRT's fully connected layers do."""
    product = x * np.asarray(factor, np.float64)
    return np.asarray(np.copysign(np.floor(np.abs(product) + 0.5), product)).astype(np.int64)


_HEADROOM = 20
"""Bits by which LiteRT's addition shifts its operands left before it rescales them."""


def litert_sum(x: Array, y: Array, scales: tuple[float, float, float], sign: int) -> Array:
    """Add or subtract integers less their zero points, as reference_ops::Add does.

    The scales are those of both operands and of the result.
    """
    a, b, result = (float(np.float32(scale)) for scale in scales)
    widest = 2.0 * max(a, b)
    left, right = (fixed_point(one << _HEADROOM, scale / widest) for one, scale in ((x, a), (y, b)))
    return fixed_point(left + sign * right, widest / ((1 << _HEADROOM) * result))


def litert_product(x: Array, y: Array, scales: tuple[float, float, float]) -> Array:
    """Multiply integers less their zero points, as reference_integer_ops::Mul does.

    The scales are those of both operands and of the result; the factor is formed in float32.
    """
    a, b, result = (np.float32(scale) for scale in scales)
    return fixed_point(x * y, float(a * b / result))


def correctly_rounded(expected: Array) -> Mapping[str, Bits]:
    """Return the bits of one operation of floats, given its result in float64.

    Two roundings are as good as one, since float64 has more than twice their digits (Figueroa
    1995).
    """
    return {"ieee": Bits(expected)}
