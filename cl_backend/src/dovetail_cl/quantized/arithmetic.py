"""What quantizations of layers come to: zero points, factors from sums to results, clamps, tables.

Sums are exact, in 32 bits. Results are rounded once, to the nearest integer, ties to even, as ONNX
has it (QLinearConv, QuantizeLinear): what a network says that spells quantization out. The fixed
point of TensorFlow Lite's reference kernels rounds twice, and differs by one in some 3 of 1000.
Tables of bytes (`tables.py`) have its bits.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dovetail import DType, Layer, Quantization
from dovetail.graph.tensor import TensorInfo
from dovetail.layers import ActivationFunction

from ..convolution.images import root_of
from ..elementwise import input_info

SOURCE = "quantized/requantization.cl"
"""What turns sums into results."""


def scheme(info: TensorInfo) -> Quantization:
    """Return the quantization of a tensor that has one."""
    assert info.quantization is not None, "the claims ask for it"
    return info.quantization


def limits(dtype: DType) -> tuple[int, int]:
    """Return the least and the greatest integer of a type of 8 bits."""
    return (-128, 127) if dtype is DType.INT8 else (0, 255)


def clamp_range(layer: Layer) -> tuple[int, int]:
    """Return the least and the greatest integer of a result, by its type and its activation."""
    descriptor, info = root_of(layer), layer.output.known_info
    activation = getattr(descriptor, "activation", None)
    if activation is None:
        return limits(info.dtype)
    return bounds_of(activation, descriptor.activation_alpha, descriptor.activation_beta, info)


def bounds_of(activation: ActivationFunction, alpha: float, beta: float, info: TensorInfo) -> tuple[int, int]:
    """Return the least and the greatest integer that a ReLU or a clamp gives.

    Source: TensorFlow Lite, CalculateActivationRangeQuantized: bounds are rounded, halves away from
    zero, as float32.
    """
    low, high = limits(info.dtype)
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


def single(factors: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return factors in float32, finite, so that none makes a NaN of zero."""
    return np.minimum(np.asarray(factors, np.float64), np.finfo(np.float32).max).astype(np.float32)


def factors_of(layer: Layer, filters: int) -> npt.NDArray[np.float32]:
    """Return the factor from sums to results of each filter.

    Args:
        layer: A product: of an input, and of weights.
        filters: How many there are.
    """
    given, weights = scheme(input_info(layer, 0)), scheme(input_info(layer, 1))
    scales = np.broadcast_to(np.asarray(weights.scale, np.float64), (filters,))
    return single(given.scale[0] * scales / scheme(layer.output.known_info).scale[0])


def weight_zeros(layer: Layer, filters: int) -> npt.NDArray[np.int32]:
    """Return the zero point of the weights of each filter."""
    return np.broadcast_to(np.asarray(scheme(input_info(layer, 1)).zero_point, np.int32), (filters,))
