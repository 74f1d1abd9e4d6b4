"""What layers of quantized tensors share: which are refused, and how an activation becomes a clamp."""

from __future__ import annotations

import math
import struct

from dovetail import DType, Layer, Quantization, Support, TensorInfo
from dovetail.layers import ActivationFunction

CLAMPS = (None, ActivationFunction.RELU, ActivationFunction.BOUNDED_RELU)


def is_quantized(layer: Layer) -> bool:
    """True if the layer computes on int8 or uint8, where integers stand for real numbers."""
    info = layer.input_infos[0]
    return info is not None and info.dtype in (DType.INT8, DType.UINT8)


def quantization_refusal(layer: Layer, slots: dict[str, TensorInfo | None]) -> Support | None:
    """Refuse a quantized layer of which a slot does not say what its integers mean.

    Args:
        layer: The layer.
        slots: The infos that need a quantization, by the name of their slot.
    """
    for name, info in slots.items():
        if info is not None and info.quantization is None:
            reason = f"{name} of {layer.kind} is {info.dtype} without a quantization; its integers mean nothing"
            return Support.no("quantization", reason, name)
    return None


def activation_refusal(activation: ActivationFunction | None) -> Support | None:
    """Refuse an activation that is not a clamp: TensorFlow Lite fuses no other into a quantized layer."""
    if activation in CLAMPS:
        return None
    reason = f"a quantized layer can apply relu and bounded_relu only, not {activation}"
    return Support.no("attribute", reason, "activation")


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
    """Return (low, high) in the quantized domain. Source: TensorFlow Lite, CalculateActivationRangeQuantized."""
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


def product_refusal(layer: Layer, axis: int, filters: int) -> Support | None:
    """Check input, weights and bias of a convolution or fully connected layer.

    Args:
        layer: The layer; inputs are (input, weights, bias).
        axis: The only axis along which the weights may be quantized: the one that counts the filters.
        filters: Count; in groups, the weights of a transposed convolution have fewer along that axis, and too few scales.
    """
    x, weights, *rest = layer.input_infos
    bias = rest[0] if rest else None
    assert x is not None
    assert weights is not None
    if not is_quantized(layer):
        for name, info in (("weights", weights), ("bias", bias)):
            if info is not None and info.dtype is not x.dtype:
                return Support.no("dtype", f"{name} is {info.dtype}, the input {x.dtype}; they must agree", name)
        return None
    if weights.dtype not in (DType.INT8, DType.UINT8):
        return Support.no("dtype", f"weights of a quantized layer must be int8 or uint8, not {weights.dtype}", "weights")
    if bias is not None and bias.dtype is not DType.INT32:
        return Support.no("dtype", f"the bias of a quantized layer must be int32, not {bias.dtype}", "bias")
    refusal = quantization_refusal(layer, {"input": x, "weights": weights, "output": layer.output_infos[0]})
    if refusal is not None:
        return refusal
    assert x.quantization is not None
    assert weights.quantization is not None
    along = weights.quantization.axis
    if x.quantization.is_per_axis:
        return Support.no("quantization", "the input of a quantized layer must be quantized per tensor", "input")
    if along is not None and along % weights.rank != axis:
        reason = f"weights are quantized along axis {along}; only axis {axis}, which counts the filters, can be scaled"
        return Support.no("quantization", reason, "weights")
    if along is not None and len(weights.quantization.scale) != filters:
        reason = f"weights have {len(weights.quantization.scale)} scales for {filters} filters"
        return Support.no("quantization", reason, "weights")
    return None


def output_refusal(layer: Layer) -> Support | None:
    """Check output and fused activation of a quantized layer."""
    info = layer.output_infos[0]
    if not is_quantized(layer):
        return None
    if info.quantization is not None and info.quantization.is_per_axis:
        return Support.no("quantization", "the output of a quantized layer must be quantized per tensor", "output")
    return activation_refusal(getattr(layer.descriptor, "activation", None))
