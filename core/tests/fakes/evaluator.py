"""A tiny evaluator of networks in float64, and of quantized layers in exact integers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from dovetail import layers
from dovetail.graph.descriptor import Array, Constant, Input, Output
from dovetail.graph.element_types import DType
from dovetail.graph.graph import Graph
from dovetail.graph.layer import Layer
from dovetail.graph.tensor import DataLayout, Quantization

NHWC = DataLayout.NHWC


def normal(*shape: int, seed: int = 0, dtype: Any = np.float64) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def run(graph: Graph, feeds: Mapping[str, Array]) -> list[Array]:
    """Compute the outputs: real numbers in float64, quantized tensors as integers.

    A quantized tensor has its slot's quantization.
    """
    values: dict[Any, Array] = {}
    for layer in graph.topological_order():
        inputs = [None if slot.source is None else values[slot.source] for slot in layer.inputs]
        if isinstance(layer.descriptor, Input):
            values[layer.output] = feeds[layer.name]
        elif isinstance(layer.descriptor, Constant):
            values[layer.output] = layer.descriptor.value
        elif not isinstance(layer.descriptor, Output):
            values[layer.output] = compute(layer, inputs)
    return [values[layer.inputs[0].source] for layer in graph.outputs]


def compute(layer: Layer, inputs: list[Any]) -> Array:
    d, info = layer.descriptor, layer.output.known_info
    if isinstance(d, layers.Quantize):
        return quantized(inputs[0], d.quantization, d.dtype)
    if isinstance(d, layers.Dequantize):
        return real(inputs[0], d.quantization)
    if info.quantization is not None and not isinstance(d, layers.Permute):
        infos = [slot.info for slot in layer.inputs]
        inputs = [None if v is None else real(v, i.quantization) for v, i in zip(inputs, infos, strict=True)]  # type: ignore[union-attr]
        return quantized(compute_real(layer, inputs), info.quantization, info.dtype)
    return compute_real(layer, inputs)


def compute_real(layer: Layer, inputs: list[Any]) -> Array:
    d = layer.descriptor
    x = np.asarray(inputs[0], np.float64)
    if isinstance(
        d, layers.Convolution2d | layers.DepthwiseConvolution2d | layers.TransposeConvolution2d | layers.FullyConnected
    ):
        return activated(d, weighted(d, x, np.asarray(inputs[1], np.float64), inputs[2] if len(inputs) > 2 else None))
    if isinstance(d, layers.ElementwiseBinary):
        return activated(d, x + inputs[1])
    if isinstance(d, layers.Activation):
        return {"relu": np.maximum(x, 0), "bounded_relu": np.clip(x, d.beta, d.alpha)}[d.function.value]
    if isinstance(d, layers.BatchNormalization):
        axis = d.layout.channel_axis if x.ndim > 1 else 0
        scale, offset, mean, variance = (along(np.asarray(v, np.float64), x.ndim, axis) for v in inputs[1:])
        return (x - mean) / np.sqrt(variance + d.epsilon) * scale + offset
    if isinstance(d, layers.Pad):
        return np.pad(x, list(zip(d.before, d.after, strict=True)), constant_values=d.value)
    if isinstance(d, layers.Pooling2d):
        return pooled(d, x)
    if isinstance(d, layers.GlobalPooling):
        return {"average": np.mean, "max": np.max}[d.function.value](x, d.layout.spatial_axes(x.ndim), keepdims=True)
    if isinstance(d, layers.Reduce):
        return {"mean": np.mean, "max": np.max}[d.function.value](x, d.reduced_axes(x.ndim), keepdims=d.keep_dims)
    if isinstance(d, layers.MatMul):
        return x @ np.asarray(inputs[1], np.float64)
    found = d.evaluate(layer.input_infos, [x])
    assert found is not None, d
    return np.asarray(found[0])


def along(v: Array, rank: int, axis: int) -> Array:
    shape = [1] * rank
    shape[axis] = -1
    return v.reshape(shape)


def activated(d: Any, y: Array) -> Array:
    if d.activation is None:
        return y
    return np.maximum(y, 0) if d.activation.value == "relu" else np.clip(y, d.activation_beta, d.activation_alpha)


def real(q: Array, quantization: Quantization) -> Array:
    axis = quantization.axis
    scale, zero = np.asarray(quantization.scale), np.asarray(quantization.zero_point)
    if axis is not None:
        scale, zero = along(scale, q.ndim, axis), along(zero, q.ndim, axis)
    return (q.astype(np.float64) - zero) * scale


def quantized(x: Array, quantization: Quantization, dtype: DType) -> Array:
    limits = np.iinfo(dtype.numpy)
    return np.clip(np.rint(x / quantization.scale[0]) + quantization.zero_point[0], limits.min, limits.max).astype(dtype.numpy)


def weighted(d: Any, x: Array, w: Array, bias: Array | None) -> Array:
    b = 0.0 if bias is None else np.asarray(bias, np.float64)
    if isinstance(d, layers.FullyConnected):
        return x @ w.T + b
    last = d.layout is NHWC
    if last:
        x = x.transpose(0, 3, 1, 2)
        w = w.transpose(3, 0, 1, 2) if isinstance(d, layers.DepthwiseConvolution2d) else w.transpose(0, 3, 1, 2)
    if isinstance(d, layers.TransposeConvolution2d):
        y = transposed(d, x, w.transpose(1, 0, 2, 3) if last else w)
    else:
        groups = x.shape[1] if isinstance(d, layers.DepthwiseConvolution2d) else d.groups
        top, left, bottom, right = d.padding
        x = np.pad(x, [(0, 0), (0, 0), (top, bottom), (left, right)])
        rows, columns = ((x.shape[2 + i] - d.dilation[i] * (w.shape[2 + i] - 1) - 1) // d.stride[i] + 1 for i in range(2))
        y = np.zeros((x.shape[0], w.shape[0], rows, columns))
        per_in, per_out = w.shape[1], w.shape[0] // groups
        for o, i, j in itertools.product(range(w.shape[0]), range(rows), range(columns)):
            first = o // per_out * per_in
            top, left = i * d.stride[0], j * d.stride[1]
            patch = x[
                :,
                first : first + per_in,
                top : top + d.dilation[0] * (w.shape[2] - 1) + 1 : d.dilation[0],
                left : left + d.dilation[1] * (w.shape[3] - 1) + 1 : d.dilation[1],
            ]
            y[:, o, i, j] = (patch * w[o]).sum((1, 2, 3))
    y = y + (along(b, 4, 1) if bias is not None else 0.0)
    return y.transpose(0, 2, 3, 1) if last else y


def transposed(d: layers.TransposeConvolution2d, x: Array, w: Array) -> Array:
    n, channels, height, width = x.shape
    per_out = w.shape[1]
    size = [d.stride[i] * (x.shape[2 + i] - 1) + w.shape[2 + i] + d.output_padding[i] for i in range(2)]
    y = np.zeros((n, per_out * d.groups, *size))
    for c, i, j in itertools.product(range(channels), range(height), range(width)):
        first = c // (channels // d.groups) * per_out
        top, left = i * d.stride[0], j * d.stride[1]
        target = y[:, first : first + per_out, top : top + w.shape[2], left : left + w.shape[3]]
        target += x[:, c, i, j][:, None, None, None] * w[c]
    top, left, bottom, right = d.padding
    return y[:, :, top : size[0] - bottom, left : size[1] - right]


def pooled(d: layers.Pooling2d, x: Array) -> Array:
    last = d.layout is NHWC
    x = x.transpose(0, 3, 1, 2) if last else x
    top, left, bottom, right = d.padding
    spans = [(0, 0), (0, 0), (top, bottom), (left, right)]
    inside = np.pad(np.ones(x.shape), spans)
    x = np.pad(x, spans, constant_values=-np.inf if d.function.value == "max" else 0)
    rows, columns = ((x.shape[2 + i] - d.dilation[i] * (d.size[i] - 1) - 1) // d.stride[i] + 1 for i in range(2))
    y = np.zeros((*x.shape[:2], rows, columns))
    for i, j in itertools.product(range(rows), range(columns)):
        window = (
            slice(None),
            slice(None),
            slice(i * d.stride[0], i * d.stride[0] + d.dilation[0] * (d.size[0] - 1) + 1, d.dilation[0]),
            slice(j * d.stride[1], j * d.stride[1] + d.dilation[1] * (d.size[1] - 1) + 1, d.dilation[1]),
        )
        patch = x[window]
        if d.function.value == "max":
            y[:, :, i, j] = patch.max((2, 3))
        elif d.function.value == "lp":
            y[:, :, i, j] = (np.abs(patch) ** d.p).sum((2, 3)) ** (1 / d.p)
        else:
            count = patch[0, 0].size if d.count_padding else inside[window].sum((2, 3))
            y[:, :, i, j] = patch.sum((2, 3)) / count
    return y.transpose(0, 2, 3, 1) if last else y
