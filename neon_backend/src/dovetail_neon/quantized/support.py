"""Which layers of quantized tensors CpuAcc takes, and what their quantizations come to."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dovetail import DataLayout, DType, Layer, Quantization, Support, TensorInfo
from dovetail.layers import (
    ActivationFunction,
    BinaryOperation,
    Convolution2d,
    DepthwiseConvolution2d,
    Dequantize,
    ElementwiseBinary,
    FullyConnected,
    GlobalPooling,
    Pooling2d,
    PoolingFunction,
    Quantize,
)

from ..convolution.support import long_sums

BYTES = (DType.INT8, DType.UINT8)
MAX_POOLED = 1 << 22
"""Elements of a window: twice as many bytes sum up to what 31 bits hold."""
_MAX_COLUMNS = 64
"""That a row of results reads, by those that it and the image have: more are nearly all padding."""
_CLAMPS = (None, ActivationFunction.RELU, ActivationFunction.BOUNDED_RELU)

Rule = Callable[[Layer], Support | None]


def is_quantized(layer: Layer) -> bool:
    """True for a layer that computes on quantized bytes."""
    info = layer.input_infos[0] if layer.inputs else None
    return info is not None and info.dtype in BYTES and layer.kind in SUPPORT_OF_BYTES


def clamp_range(layer: Layer) -> tuple[int, int]:
    """Least and greatest integer of the result, by its type and the activation.

    Source: TensorFlow Lite, CalculateActivationRangeQuantized: bounds are rounded, halves away from zero, as float32.
    """
    descriptor: Any = layer.descriptor
    info = layer.output.known_info
    low, high = (-128, 127) if info.dtype.is_signed else (0, 255)
    activation = getattr(descriptor, "activation", None)
    if activation is None or info.quantization is None:
        return low, high
    scale, zero = info.quantization.scale[0], info.quantization.zero_point[0]

    def quantized(value: float) -> int:
        with np.errstate(over="ignore"):
            ratio = float(np.float32(value / scale))
        if not math.isfinite(ratio) or abs(ratio) > 1024:
            return high if ratio > 0 else low
        return zero + int(math.copysign(math.floor(abs(ratio) + 0.5), ratio))

    bounded = activation == ActivationFunction.BOUNDED_RELU
    least = max(low, min(high, quantized(descriptor.activation_beta if bounded else 0.0)))
    most = max(low, min(high, quantized(descriptor.activation_alpha))) if bounded else high
    return min(least, most), most  # of bounds that cross, the upper one wins


def filter_axis(layer: Layer) -> int:
    """Axis of the weights that counts the filters."""
    descriptor = layer.descriptor
    return 3 if isinstance(descriptor, DepthwiseConvolution2d) and descriptor.layout is DataLayout.NHWC else 0


def _one_scale(name: str, info: TensorInfo | None, dtype: DType) -> Support | None:
    if info is None or info.dtype is not dtype:
        found = "missing" if info is None else info.dtype
        return Support.no("dtype", f"{name} is {found}; CpuAcc computes on quantized tensors of one type, here {dtype}", name)
    if info.quantization is None:
        return Support.no("quantization", f"{name} is {dtype} without a quantization; its integers mean nothing", name)
    if info.quantization.is_per_axis:
        return Support.no("quantization", f"{name} is quantized per axis; one scale and zero point are implemented", name)
    return None


def _first(*refusals: Support | None) -> Support | None:
    return next((refusal for refusal in refusals if refusal is not None), None)


def _clamp(layer: Layer) -> Support | None:
    descriptor: Any = layer.descriptor
    if descriptor.activation in _CLAMPS:
        return None
    reason = f"a quantized layer can apply relu and bounded_relu only, not {descriptor.activation}"
    return Support.no("attribute", reason, "activation")


def _weights(layer: Layer) -> Support | None:
    for index, name in enumerate(layer.descriptor.input_names[1:], 1):
        if index < len(layer.inputs) and layer.inputs[index].source is not None and layer.constant(index) is None:
            return Support.no("attribute", f"input {name!r} is computed; CpuAcc packs {name} when a network is loaded", name)
    infos = layer.input_infos
    weights, bias = infos[1], infos[2] if len(infos) > 2 else None
    if weights is None or weights.dtype not in BYTES:
        found = "missing" if weights is None else weights.dtype
        return Support.no("dtype", f"weights are {found}; int8 or uint8 are multiplied", "weights")
    quantization = weights.quantization
    if quantization is None:
        return Support.no("quantization", "weights have no quantization; their integers mean nothing", "weights")
    axis = filter_axis(layer)
    if quantization.is_per_axis and (quantization.axis or 0) % weights.rank != axis:
        reason = (
            f"weights are quantized along axis {quantization.axis}; only axis {axis}, which counts the filters, is implemented"
        )
        return Support.no("quantization", reason, "weights")
    if 0 in weights.sizes:
        return Support.no("shape", "weights have no elements", "weights")
    if bias is not None and bias.dtype is not DType.INT32:
        return Support.no("dtype", f"the bias of a quantized layer must be int32, not {bias.dtype}", "bias")
    return None


def _product(layer: Layer) -> Support | None:
    info = layer.input_infos[0]
    if info is None:
        return Support.no("dtype", "input is missing", "input")
    return _first(
        _one_scale("input", info, info.dtype),
        _one_scale("output", layer.output.known_info, info.dtype),
        _weights(layer),
        _clamp(layer),
    )


def _packed(layer: Layer) -> Support | None:
    refusal = _product(layer)
    return long_sums(layer) if refusal is None else refusal


def _depthwise(layer: Layer) -> Support | None:
    descriptor: Any = layer.descriptor
    info, result = layer.input_infos[0], layer.output.known_info
    if info is None or info.rank != 4:
        return _product(layer)
    axis, step = descriptor.layout.spatial_axes()[1], descriptor.stride[1]
    size, results = info.sizes[axis], result.sizes[axis]
    if (results - 1) * step > _MAX_COLUMNS * (size + results):
        reason = f"steps of {step} columns over an image of {size}: all that a row of results reads is held at once"
        return Support.no("attribute", reason, "stride")
    return _product(layer)


def _addition(layer: Layer) -> Support | None:
    descriptor: Any = layer.descriptor
    if descriptor.operation != BinaryOperation.ADD:
        reason = f"operation {descriptor.operation} of quantized tensors is not implemented; add is"
        return Support.no("attribute", reason, "operation")
    a, b = layer.input_infos
    result = layer.output.known_info
    if a is None or b is None or a.sizes != b.sizes:
        return Support.no("shape", "quantized tensors of different shapes are not added", "b")
    return _first(
        _one_scale("a", a, a.dtype), _one_scale("b", b, a.dtype), _one_scale("output", result, a.dtype), _clamp(layer)
    )


def _pooling(layer: Layer) -> Support | None:
    descriptor: Any = layer.descriptor
    info, result = layer.input_infos[0], layer.output.known_info
    if info is None or info.rank != 4:
        return Support.no("shape", "input is not of rank 4", "input")
    if descriptor.function == PoolingFunction.LP:
        return Support.no("attribute", "function lp is not implemented; max and average are", "function")
    window = info.sizes if isinstance(descriptor, GlobalPooling) else descriptor.size
    if math.prod(window) >= MAX_POOLED:
        return Support.no("shape", f"windows of more than {MAX_POOLED - 1} elements are not summed up in 32 bits", "input")
    if info.quantization is not None and info.quantization != result.quantization:
        return Support.no("quantization", "input and output differ in quantization; elements are pooled as they are", "output")
    if info.quantization is result.quantization is None and descriptor.function == PoolingFunction.MAX:
        return None  # integers that mean themselves are compared just so
    return _one_scale("input", info, info.dtype)


def _conversion(layer: Layer) -> Support | None:
    descriptor: Any = layer.descriptor
    source, result = layer.input_infos[0], layer.output.known_info
    real, whole = (source, result) if isinstance(descriptor, Quantize) else (result, source)
    if real is None or real.dtype is not DType.FLOAT32:
        return Support.no(
            "dtype", f"the real numbers are {None if real is None else real.dtype}; float32 is implemented", "input"
        )
    if whole is None or whole.dtype not in BYTES:
        return Support.no(
            "dtype", f"the integers are {None if whole is None else whole.dtype}; int8 and uint8 are implemented", "input"
        )
    quantization: Quantization = descriptor.quantization
    if quantization.is_per_axis:
        return Support.no(
            "quantization", "one scale and zero point are implemented, not one per index of an axis", "quantization"
        )
    return None


SUPPORT_OF_BYTES: dict[str, Rule] = {
    Convolution2d.kind: _packed,
    DepthwiseConvolution2d.kind: _depthwise,
    FullyConnected.kind: _packed,
    ElementwiseBinary.kind: _addition,
    Pooling2d.kind: _pooling,
    GlobalPooling.kind: _pooling,
}
"""For layers whose first input is int8 or uint8."""

SUPPORT: dict[str, Rule] = {Quantize.kind: _conversion, Dequantize.kind: _conversion}
