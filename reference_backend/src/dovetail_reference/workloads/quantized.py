"""What layers of quantized tensors share: which they are, and how an activation becomes a clamp."""

from __future__ import annotations

import math
import struct

from dovetail import DType, Layer, Quantization
from dovetail.layers import ActivationFunction

CLAMPS = (None, ActivationFunction.RELU, ActivationFunction.BOUNDED_RELU)


def is_quantized(layer: Layer) -> bool:
    """True if the layer computes on int8 or uint8, where integers stand for real numbers."""
    info = layer.input_infos[0]
    return info is not None and info.dtype in (DType.INT8, DType.UINT8)


def has_words(layer: Layer) -> bool:
    """True if the layer computes on words of 16 bits that stand for real numbers."""
    info = layer.input_infos[0]
    return info is not None and info.dtype is DType.INT16 and info.quantization is not None


def integer_range(dtype: DType) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    return (-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1) if dtype.is_signed else (0, (1 << dtype.bits) - 1)


def _float32(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def clamp_range(
    activation: ActivationFunction | None, alpha: float, beta: float, dtype: DType, quantization: Quantization
) -> tuple[int, int]:
    """Return (low, high) in the quantized domain.

    Source: TensorFlow Lite, CalculateActivationRangeQuantized.
    """
    low, high = integer_range(dtype)

    def quantized(value: float) -> int:
        ratio = _float32(value / quantization.scale[0])
        if math.isinf(ratio):
            return high if ratio > 0 else low
        # TfLiteRound: halves away from zero.
        return quantization.zero_point[0] + int(math.copysign(math.floor(abs(ratio) + 0.5), ratio))

    if activation == ActivationFunction.RELU:
        low = max(low, quantized(0.0))
    elif activation == ActivationFunction.BOUNDED_RELU:
        low, high = max(low, min(high, quantized(beta))), max(low, min(high, quantized(alpha)))
    return min(low, high), high  # of bounds that cross, the upper one wins
