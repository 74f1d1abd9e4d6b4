"""Turn dequantize - compute - quantize into one layer on integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ...descriptor import Array, Constant
from ...graph import Graph
from ...layer import Layer, OutputSlot
from ...layers import (
    Activation,
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
from ...tensor import DataLayout, DType, Quantization, TensorInfo
from ..rewriting import merged_sources, only_consumer, prune, quantized_constant
from .base import Pass

_EIGHT_BIT = (DType.INT8, DType.UINT8)
_Weighted = Convolution2d | DepthwiseConvolution2d | FullyConnected
_CLAMPS = (ActivationFunction.RELU, ActivationFunction.BOUNDED_RELU)


class IntegerLayers(Pass):
    """Turn Dequantize -> convolution, fully connected, addition or pooling -> Quantize into one layer on int8 or uint8.

    Quantization then stands on the slots, as TensorFlow Lite has it: a layer is quantized if, and only if, its slots say so.
    The result differs from the literal execution in float32 by at most 1 in the last place of the quantized output: both round
    the same real number, one of them after float32 rounding, and a bias that is no multiple of its scale by at most half of one
    more accumulator step, which is only accepted where a step is at most half an output step.

    Args:
        accepts: Says whether some backend takes the integer layer (seen in the graph); where none does, nothing changes.
    """

    name: ClassVar[str] = "integer_layers"

    def __init__(self, accepts: Callable[[Layer], bool] = lambda layer: True) -> None:
        self.accepts = accepts

    def run(self, graph: Graph) -> int:
        return sum(
            self._convert(graph, layer, layer.descriptor)
            for layer in graph.topological_order()
            if isinstance(layer.descriptor, Quantize)
        )

    def _convert(self, graph: Graph, last: Layer, quantize: Quantize) -> bool:
        chain = _chain_before(last)
        if not chain or quantize.dtype not in _EIGHT_BIT or quantize.quantization.is_per_axis:
            return False
        core = chain[0]
        operands = _integer_operands(graph, core, quantize.quantization)
        if operands is None or any(
            slot.known_info.dtype is not quantize.dtype for slot in operands[: _activation_count(core)] if slot is not None
        ):
            prune(graph, [slot.layer for slot in operands or () if slot is not None])
            return False
        descriptor = core.descriptor
        if (
            len(chain) > 1
            and isinstance(chain[1].descriptor, Activation)
            and isinstance(descriptor, _Weighted | ElementwiseBinary)
        ):
            clamp = chain[1].descriptor
            descriptor = replace(
                descriptor, activation=clamp.function, activation_alpha=clamp.alpha, activation_beta=clamp.beta
            )
        feeding = [slot.source.layer for slot in core.inputs if slot.source is not None]
        dequantizes = [layer for layer in feeding if isinstance(layer.descriptor, Dequantize)]
        layer = graph.add(
            descriptor,
            *operands,
            name=core.name,
            quantization=quantize.quantization,
            sources_of=merged_sources(*dequantizes, *chain, last),
        )
        if layer.output.known_info.dtype is not quantize.dtype or not self.accepts(layer):
            prune(graph, [layer])
            return False
        graph.redirect(last.output, layer.output)
        prune(graph, [last])
        if core.name not in graph:
            graph.rename(layer, core.name)
        return True


def _chain_before(last: Layer) -> list[Layer]:
    """Return the layer that computes and, if there is one, the clamp behind it; nothing where others read them too."""
    source = last.inputs[0].source
    if source is None or only_consumer(source) is None:
        return []
    layer = source.layer
    if not isinstance(layer.descriptor, Activation):
        return [layer]
    source = layer.inputs[0].source
    if layer.descriptor.function not in _CLAMPS or source is None or only_consumer(source) is None:
        return []
    return [source.layer, layer] if isinstance(source.layer.descriptor, _Weighted | ElementwiseBinary) else []


def _activation_count(core: Layer) -> int:
    return 2 if isinstance(core.descriptor, ElementwiseBinary) else 1


def _integer_operands(graph: Graph, core: Layer, result: Quantization) -> list[OutputSlot | None] | None:
    descriptor = core.descriptor
    if isinstance(descriptor, _Weighted) and descriptor.activation is None:
        return _weighted_operands(graph, core, descriptor, result)
    if isinstance(descriptor, ElementwiseBinary):
        if descriptor.operation is not BinaryOperation.ADD or descriptor.activation is not None:
            return None
        pair = [_integer_source(core, 0), _integer_source(core, 1)]
        return None if None in pair else [*pair]
    if isinstance(descriptor, Pooling2d | GlobalPooling) and descriptor.function is not PoolingFunction.LP:
        # An average that counts padding as real zeros, and a change of scale, are beyond what integer pooling does.
        counts = isinstance(descriptor, Pooling2d) and descriptor.count_padding and any(descriptor.padding)
        slot = None if counts else _integer_source(core, 0)
        return None if slot is None or slot.known_info.quantization != result else [slot]
    return None


def _integer_source(core: Layer, index: int) -> OutputSlot | None:
    """Return the 8-bit slot behind the dequantize that feeds an input; its quantization is put on the slot."""
    source = core.inputs[index].source
    dequantize = None if source is None else source.layer
    if dequantize is None or not isinstance(dequantize.descriptor, Dequantize):
        return None
    slot, quantization = dequantize.inputs[0].source, dequantize.descriptor.quantization
    if slot is None or slot.known_info.dtype not in _EIGHT_BIT or quantization.is_per_axis:
        return None
    info = slot.known_info
    if info.quantization is None and not isinstance(slot.layer.descriptor, Constant):
        # To others the integers may mean themselves.
        readers = [consumer.layer.descriptor for consumer in slot.consumers]
        if any(not isinstance(reader, Dequantize) or reader.quantization != quantization for reader in readers):
            return None
        slot.quantization = quantization
        slot.info = info.with_quantization(quantization)
    return slot if slot.known_info.quantization == quantization else None


def _weighted_operands(
    graph: Graph, core: Layer, descriptor: _Weighted, result: Quantization
) -> list[OutputSlot | None] | None:
    dequantize = None if core.inputs[1].source is None else core.inputs[1].source.layer
    if dequantize is None or not isinstance(dequantize.descriptor, Dequantize):
        return None
    stored, scheme = dequantize.inputs[0].source, dequantize.descriptor.quantization
    if stored is None or not isinstance(stored.layer.descriptor, Constant) or stored.known_info.dtype not in _EIGHT_BIT:
        return None
    rank = stored.known_info.rank
    if scheme.axis is not None and scheme.axis % rank != _filter_axis(descriptor, rank):
        return None
    image = _integer_source(core, 0)
    if image is None or image.known_info.quantization is None:
        return None
    steps = np.asarray(scheme.scale, np.float64) * image.known_info.quantization.scale[0]
    values: Array | None = None
    if len(core.inputs) > 2 and core.inputs[2].source is not None:
        values = _integer_bias(core.inputs[2].source.layer, steps, result.scale[0])
        if values is None:
            return None
    if not _sums_fit(stored.layer.descriptor.value, scheme, _filter_axis(descriptor, rank), image.known_info, values):
        return None
    bias: OutputSlot | None = None
    if values is not None and core.inputs[2].source is not None:
        accumulator = Quantization(tuple(steps.tolist()), axis=0 if scheme.is_per_axis else None)
        bias = graph.constant(values, name=f"{core.name}.bias", quantization=accumulator, copy=False)
        bias.layer.sources = core.inputs[2].source.layer.sources
    return [image, quantized_constant(graph, stored.layer, scheme), bias]


def _sums_fit(weights: Array, scheme: Quantization, axis: int, image: TensorInfo, bias: Array | None) -> bool:
    """Tell whether sums fit 32 bits, whatever the image holds: where one of integers wraps, one of float32 goes on.

    Args:
        weights: As stored.
        scheme: Their quantization.
        axis: What counts the filters.
        image: Quantized per tensor.
        bias: Of the scale of the products.
    """
    if image.quantization is None or not weights.size:
        return False
    room = 2**31 - 1 - (0 if bias is None else int(np.abs(bias.astype(np.int64)).max(initial=0)))
    farthest = _farthest(image.dtype.numpy, image.quantization)
    if weights.size // weights.shape[axis] * _farthest(weights.dtype, scheme) * farthest <= room:
        return True
    column = [1] * weights.ndim
    column[axis] = -1
    zeros = np.asarray(scheme.zero_point, np.int64)
    magnitudes = np.abs(weights.astype(np.int64) - (zeros.reshape(column) if scheme.is_per_axis else zeros))
    sums = magnitudes.sum(axis=tuple(other for other in range(weights.ndim) if other != axis))
    return int(sums.max()) * farthest <= room


def _farthest(dtype: np.dtype[Any], quantization: Quantization) -> int:
    """The largest distance of an 8-bit integer from its zero point."""
    limits = np.iinfo(dtype)
    return max(int(limits.max) - min(quantization.zero_point), max(quantization.zero_point) - int(limits.min))


def _filter_axis(descriptor: _Weighted, rank: int) -> int:
    last = isinstance(descriptor, DepthwiseConvolution2d) and descriptor.layout is DataLayout.NHWC
    return rank - 1 if last else 0


def _integer_bias(origin: Layer, steps: Array, result_scale: float) -> Array | None:
    if isinstance(origin.descriptor, Constant):
        real = np.asarray(origin.descriptor.value, np.float64)
    elif isinstance(origin.descriptor, Dequantize):
        stored, scheme = origin.constant(0), origin.descriptor.quantization
        if stored is None:
            return None
        if stored.dtype == np.int32 and not any(scheme.zero_point) and np.allclose(scheme.scale, steps, rtol=1e-6, atol=0.0):
            return stored
        real = (stored.astype(np.float64) - np.asarray(scheme.zero_point)) * np.asarray(scheme.scale)
    else:
        return None
    counts = real / steps
    rounded = np.rint(counts)
    exact = bool((np.abs(counts - rounded) < 1e-3).all())
    fine_enough = bool((steps <= 0.5 * result_scale).all())
    if not (np.isfinite(counts).all() and (np.abs(rounded) < 2**31).all() and (exact or fine_enough)):
        return None
    return rounded.astype(np.int32)
