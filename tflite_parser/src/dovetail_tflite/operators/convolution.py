"""Convolutions over images [N, H, W, C]."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail import DType, Quantization
from dovetail.graph.layer import OutputSlot
from dovetail.graph.tensor import DataLayout
from dovetail.layers import Convolution2d, Dequantize, DepthwiseConvolution2d, FusedActivation, TransposeConvolution2d

from ..call import Call
from ..registry import operator
from ..unsupported import Unsupported

_BYTES = (DType.INT8, DType.UINT8)


@operator("CONV_2D", newest=8)
def convolution(call: Call) -> OutputSlot:
    """Translate a convolution; filters that see fewer channels than there are make groups."""
    x, weights = call.input(0), call.input(1)
    channels, per_group = call.size_of(x, 3), call.size_of(weights, 3)
    if channels is None or not per_group or channels % per_group:
        raise Unsupported(f"filters see {per_group} of {channels} channels")
    descriptor = Convolution2d(
        stride=call.pair("stride_h", "stride_w"),
        dilation=call.pair("dilation_h_factor", "dilation_w_factor"),
        auto_padding=call.auto_padding(),
        groups=channels // per_group,
        layout=DataLayout.NHWC,
        **call.fused(),
    )
    return add_product(call, descriptor, x, weights, call.optional(2), 0)


@operator("DEPTHWISE_CONV_2D", newest=7)
def depthwise_convolution(call: Call) -> OutputSlot:
    """Translate a depthwise convolution; the multiplier follows from the sizes."""
    descriptor = DepthwiseConvolution2d(
        stride=call.pair("stride_h", "stride_w"),
        dilation=call.pair("dilation_h_factor", "dilation_w_factor"),
        auto_padding=call.auto_padding(),
        layout=DataLayout.NHWC,
        **call.fused(),
    )
    return add_product(call, descriptor, call.input(0), call.input(1), call.optional(2), 3)


@operator("TRANSPOSE_CONV", newest=5)
def transpose_convolution(call: Call) -> OutputSlot:
    """Translate a transposed convolution, whose first input is the shape of the result."""
    shape = call.known_integers(0, "the shape of the result")
    if len(shape) != 4:
        raise call.malformed(f"has a result of shape {list(shape)}, expected four sizes")
    fused = call.fused()
    descriptor = TransposeConvolution2d(
        stride=call.pair("stride_h", "stride_w"),
        auto_padding=call.auto_padding(),
        output_size=(shape[1], shape[2]),
        layout=DataLayout.NHWC,
        **fused,
    )
    return add_product(call, descriptor, call.input(2), call.input(1), call.optional(3), 0)


def add_product(
    call: Call, descriptor: FusedActivation, x: OutputSlot, weights: OutputSlot, bias: OutputSlot | None, axis: int
) -> OutputSlot:
    """Add a layer that multiplies by weights.

    Bytes are multiplied as integers. Other quantized tensors stand for the real numbers that are
    multiplied: words of 16 bits, and quantized weights of floats (which TensorFlow Lite calls
    hybrid).

    Args:
        call: The operator.
        descriptor: The layer.
        x: Its input.
        weights: Its weights.
        bias: Its bias; integers are multiples of the scale of the input times that of the weights.
        axis: Along which the weights may have a scale each.
    """
    ours, theirs = call.quantization_of(x), call.quantization_of(weights)
    if ours is not None and theirs is not None and call.dtype_of(x) in _BYTES and call.dtype_of(weights) in _BYTES:
        if theirs.axis in (None, axis):
            return call.add(descriptor, x, weights, bias)
    real_bias = bias
    if bias is not None and call.dtype_of(bias).is_integer:
        if ours is None or theirs is None:
            raise call.malformed("has an integer bias, but its input or its weights are not quantized")
        scale = _products(ours.scale, theirs.scale)
        quantization = Quantization(scale, (0,) * len(scale), 0 if len(scale) > 1 else None)
        layer = call.network.add(Dequantize(quantization=quantization), bias, name=call.label("bias"))
        real_bias = layer.output
    return call.add_real(descriptor, x, weights, real_bias)


def _products(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, ...]:
    return tuple(ours[0] * one for one in theirs)
