"""Layers with weights: convolutions and fully connected layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import DataLayout, Layer
from dovetail.layers import Convolution2d, DepthwiseConvolution2d, FullyConnected
from dovetail.quantized.bounds import bounds_of

from .. import program
from .request import Request
from .storage import PLANAR, SIGN, Storage, natural, sizes, source, unsigned

_INT32 = np.iinfo(np.int32)


def convolution(storage: Storage, layer: Layer, request: Request) -> None:
    """Add a `Convolution2d`."""
    descriptor = layer.descriptor
    assert isinstance(descriptor, Convolution2d)
    values = _constant(layer, 1)
    if descriptor.layout is DataLayout.NHWC:
        values = values.transpose(0, 3, 1, 2)
    _convolve(storage, layer, descriptor, values, descriptor.groups, request)


def depthwise_convolution(storage: Storage, layer: Layer, request: Request) -> None:
    """Add a `DepthwiseConvolution2d` as a convolution with a group for each channel."""
    descriptor = layer.descriptor
    assert isinstance(descriptor, DepthwiseConvolution2d)
    values = _constant(layer, 1)
    if descriptor.layout is DataLayout.NHWC:
        values = values.transpose(3, 0, 1, 2)
    channels = sizes(source(layer, 0))[descriptor.layout.channel_axis]
    _convolve(storage, layer, descriptor, values, channels, request)


def fully_connected(storage: Storage, layer: Layer, request: Request) -> None:
    """Add a `FullyConnected` on rows: what leads the last axis is one axis."""
    descriptor = layer.descriptor
    assert isinstance(descriptor, FullyConnected)
    values, slot = _constant(layer, 1), source(layer, 0)
    flat = storage.flattened(slot)
    if flat is not None:  # rows are stored plane by plane: so are the weights then
        rows, (channels, height, width) = flat
        pixels = values.reshape(len(values), height, width, channels)
        values = pixels.transpose(0, 3, 1, 2).reshape(len(values), -1)
    else:
        rows = _as_rows(storage, storage.stored(slot), layer, values.shape[1])
    low, high = bounds(descriptor, layer)
    weights = _weights(layer, values, request)
    shape = (storage.tensors[rows].shape[0], len(values))
    is_rows = sizes(layer.output) == shape
    result = storage.new_tensor(layer.output) if is_rows else storage.unstored_tensor(layer.output, shape)
    storage.add(
        program.FullyConnected(
            name=layer.name,
            inputs=(rows,),
            output=result,
            sources=layer.sources,
            weights=weights,
            low=low,
            high=high,
        )
    )
    if not is_rows:
        made = storage.new_tensor(layer.output)
        storage.add(program.Reshape(name=f"{layer.name} as given", inputs=(result,), output=made))


def bounds(descriptor: Any, layer: Layer) -> tuple[int, int]:
    """Return between which integers the program's results of a layer with an activation lie."""
    info = layer.output.known_info
    low, high = bounds_of(descriptor.activation, descriptor.activation_alpha, descriptor.activation_beta, info)
    return unsigned(low, info.dtype), unsigned(high, info.dtype)


def _convolve(storage: Storage, layer: Layer, descriptor: Any, values: npt.NDArray[Any], groups: int, request: Request) -> None:
    order = PLANAR if descriptor.layout is DataLayout.NHWC else natural(layer.output)
    low, high = bounds(descriptor, layer)
    read = storage.stored(source(layer, 0), order)
    storage.add(
        program.Convolution(
            name=layer.name,
            inputs=(read,),
            output=storage.new_tensor(layer.output, order),
            sources=layer.sources,
            weights=_weights(layer, np.ascontiguousarray(values), request),
            stride=descriptor.stride,
            padding=descriptor.padding,
            dilation=descriptor.dilation,
            groups=groups,
            low=low,
            high=high,
        )
    )


def _as_rows(storage: Storage, number: int, layer: Layer, columns: int) -> int:
    """Return a tensor [M, K] of what is stored; a reshape if it has other axes."""
    tensor = storage.tensors[number]
    shape = (tensor.elements // max(columns, 1), columns)
    if tensor.shape == shape:
        return number
    made = storage.unstored_tensor(source(layer, 0), shape)
    storage.add(program.Reshape(name=f"{layer.name} rows", inputs=(number,), output=made))
    return made


def _weights(layer: Layer, values: npt.NDArray[Any], request: Request) -> program.Weights:
    """Return the weights of a layer, output channels first.

    One scale: uint8. A scale for each channel: int8, unless they may be given one.
    """
    slot = source(layer, 1)
    quantization = slot.known_info.quantization
    assert quantization is not None  # the claims ask for it
    bias = np.zeros(len(values), np.int32)
    if len(layer.inputs) > 2 and layer.inputs[2].source is not None:
        bias = np.array(_constant(layer, 2), np.int32)
    scale, zero = quantization.scale, quantization.zero_point
    if len(set(scale)) > 1:
        if not request.per_tensor:
            return program.Weights(values, scale, zero, bias)
        values, scale, zero, bias = _with_one_scale(values, scale, bias)
    if values.dtype == np.int8:
        values = (values.astype(np.int16) + SIGN).astype(np.uint8)
        zero = (zero[0] + SIGN,)
    return program.Weights(np.ascontiguousarray(values), scale[:1], zero[:1], bias)


def _with_one_scale(
    values: npt.NDArray[Any], scale: tuple[float, ...], bias: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int8], tuple[float], tuple[int], npt.NDArray[np.int32]]:
    """Give weights with a scale for each channel, all of whose zero points are 0, the largest."""
    largest = max(scale)
    factors = np.asarray(scale) / largest
    column = factors.reshape(-1, *(1,) * (values.ndim - 1))
    return (
        np.clip(np.rint(values * column), -127, 127).astype(np.int8),
        (largest,),
        (0,),
        np.clip(np.rint(bias * factors), _INT32.min, _INT32.max).astype(np.int32),
    )


def _constant(layer: Layer, index: int) -> npt.NDArray[Any]:
    value = layer.constant(index)
    assert value is not None  # the claims ask for it
    return value
