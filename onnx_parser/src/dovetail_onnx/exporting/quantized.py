"""Quantized tensors: integers outside, real numbers between nodes that dequantize and quantize."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dovetail.graph.element_types import DType
from dovetail.graph.layer import Layer
from dovetail.graph.tensor import Quantization, TensorInfo
from dovetail.layers import (
    ArgMinMax,
    Convolution2d,
    DepthwiseConvolution2d,
    Dequantize,
    FullyConnected,
    Quantize,
    TransposeConvolution2d,
)

from .model import Model
from .unexportable import Unexportable

_WITH_BIAS = (Convolution2d, DepthwiseConvolution2d, TransposeConvolution2d, FullyConnected)
_BIAS = 2
_OF_INTEGERS = (Quantize, Dequantize, ArgMinMax)
"""Kinds that say themselves what their integers stand for, or to which only their order matters."""


def reads_real_numbers(layer: Layer) -> bool:
    """Tell whether a layer computes with what its integers stand for, not just moves them."""
    infos = [info for info in (*layer.input_infos, *layer.output_infos) if info is not None]
    found = [info.quantization for info in infos if info.quantization is not None]
    if not found or isinstance(layer.descriptor, _OF_INTEGERS):
        return False
    if not layer.descriptor.selects_elements():
        return True
    return any(_without_axis(one) != _without_axis(found[0]) for one in found[1:])


def _without_axis(quantization: Quantization) -> tuple[object, ...]:
    """Drop the axis of a quantization, which a movement may move or, with one scale, merge.

    The numbers stay.
    """
    return quantization.scale, quantization.zero_point


def dequantized(model: Model, value: str, layer: Layer, index: int, order: Sequence[int] | None = None) -> str:
    """Return the real numbers of an input; what is no quantized tensor passes.

    Args:
        model: Takes the nodes.
        value: The integers.
        layer: Whose input it is.
        index: Of the input.
        order: Of the input's axes in `value`, where they are reordered.
    """
    info = layer.inputs[index].info
    assert info is not None
    if info.quantization is not None:
        quantization = info.quantization
        if order is not None and quantization.axis is not None:
            quantization = quantization.replaced(axis=list(order).index(quantization.axis))
        return _dequantize(model, value, quantization, layer.name)
    if index == _BIAS and isinstance(layer.descriptor, _WITH_BIAS) and info.dtype.is_integer:
        return _dequantize(model, value, _quantization_of_bias(layer, info), layer.name)
    first = layer.inputs[0].info
    if info.dtype.is_integer and first is not None and info.dtype is first.dtype:
        raise Unexportable(f"input {layer.inputs[index].name!r} holds plain integers beside quantized ones")
    return value


def _quantization_of_bias(layer: Layer, bias: TensorInfo) -> Quantization:
    """Return what a bias stands for: it is counted in units of both scales."""
    images, weights = (layer.inputs[index].info for index in range(2))
    if images is None or weights is None or images.quantization is None or weights.quantization is None:
        raise Unexportable("it has a bias of integers, but images or weights without a quantization")
    if images.quantization.is_per_axis:
        raise Unexportable("it has a bias of integers, and images with a scale for each index of an axis")
    scale = np.float64(images.quantization.scale[0])
    scales = [float(scale * np.float64(one)) for one in weights.quantization.scale]
    if len(scales) == 1:
        return Quantization.per_tensor(scales[0])
    if len(scales) != math.prod(bias.sizes):
        raise Unexportable(f"it has {len(scales)} scales of weights for {bias.shape_text} numbers of the bias")
    return Quantization.per_axis(scales, axis=0)


def _dequantize(model: Model, value: str, quantization: Quantization, label: str) -> str:
    dtype = model.dtype_of(value)
    inputs = [value, *parameters(model, quantization, dtype, label)]
    if dtype is DType.INT32:
        if any(quantization.zero_point):
            raise Unexportable("ONNX has no zero point for int32")
        inputs = inputs[:2]
    return model.node("DequantizeLinear", inputs, label, dtype=DType.FLOAT32, **_axis(quantization))[0]


def quantized(model: Model, value: str, info: TensorInfo, label: str) -> str:
    """Return what a layer's slot carries: integers, if it is quantized."""
    if info.quantization is None:
        if info.dtype.is_integer and model.dtype_of(value).is_float:
            raise Unexportable("its result holds plain integers, and its inputs quantized ones")
        return value
    inputs = [value, *parameters(model, info.quantization, info.dtype, label)]
    return model.node("QuantizeLinear", inputs, label, dtype=info.dtype, **_axis(info.quantization))[0]


def parameters(model: Model, quantization: Quantization, dtype: DType, label: str) -> tuple[str, str]:
    """Add scale and zero point of a quantization as constants."""
    shape = (-1,) if quantization.is_per_axis else ()
    scale = np.asarray(quantization.scale, np.float32).reshape(shape)
    zero = np.asarray(quantization.zero_point, dtype.numpy).reshape(shape)
    return (
        model.constant(scale, DType.FLOAT32, f"{label}.scale"),
        model.constant(zero, dtype, f"{label}.zero_point"),
    )


def _axis(quantization: Quantization) -> dict[str, int]:
    return {} if quantization.axis is None else {"axis": quantization.axis}
