"""Turn dequantize - compute - quantize into one layer on integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np

from ...graph.descriptor import Array, Constant, Descriptor
from ...graph.element_types import DType
from ...graph.graph import Graph
from ...graph.layer import Layer, OutputSlot
from ...graph.tensor import Quantization, TensorInfo
from ...ground.pieces import copied, holds, mapped, reduced
from ...layers import (
    Activation,
    ActivationFunction,
    Dequantize,
    ElementwiseBinary,
    FullyConnected,
    MatMul,
    Quantize,
)
from ..annotation import Annotation, Home
from ..rewriting import merged_sources, only_consumer, prune, quantized_constant
from .base import Pass
from .integer_operands import EIGHT_BIT, Weighted, as_reduction, farthest, filter_axis, integer_images, stored_weights

_CLAMPS = (ActivationFunction.RELU, ActivationFunction.BOUNDED_RELU)


class IntegerLayers(Pass):
    """Turn Dequantize -> layer -> Quantize into one layer on int8 or uint8.

    `integer_operands` says which kinds have a form on integers. A product of matrices, one of them
    stored, becomes a fully connected layer; a pooling of whole images that changes the scale, a
    reduction.

    Quantization then stands on the slots, as TensorFlow Lite has it: a layer is quantized if, and
    only if, its slots say so. The result differs from the literal execution in float32 by at most 1
    in the last place of the quantized output: both round the same real number, one of them after
    float32 rounding, and a bias that is no multiple of its scale by at most half of one more
    accumulator step, which is only accepted where a step is at most half an output step.

    Each conversion is a transaction: the layer, what its operands and its result then say of their
    integers, and all layers that these pass through unchanged on their way (`Annotation`). If one
    of them found no backend so, all stay as written.

    Args:
        accepts: Says whether some backend takes the integer layer (seen in the graph); where none
            does, nothing changes.
        home: Place of the backend that would run a layer in the order of preference; None: nobody
            would.
    """

    name: ClassVar[str] = "integer_layers"

    def __init__(self, accepts: Callable[[Layer], bool] = lambda layer: True, home: Home = lambda layer: 0) -> None:
        self.accepts = accepts
        self.home = home
        self._refused: set[tuple[OutputSlot, Quantization]] = set()

    def run(self, graph: Graph) -> int:
        return sum(
            self._convert(graph, layer, layer.descriptor)
            for layer in graph.topological_order()
            if isinstance(layer.descriptor, Quantize)
        )

    def _convert(self, graph: Graph, last: Layer, quantize: Quantize) -> bool:
        chain = _chain_before(last)
        if not chain or quantize.dtype not in EIGHT_BIT or quantize.quantization.is_per_axis:
            return False
        annotation = Annotation(self.home, self._refused)
        layer = None
        images = integer_images(chain[0], quantize)
        if (
            images is not None
            and all(annotation.require(slot, meaning) for slot, meaning in images)
            and annotation.require(last.output, quantize.quantization)
            and annotation.apply()
        ):
            layer = self._integer_layer(graph, chain, last, quantize, [slot for slot, _ in images])
        if layer is None:
            annotation.undo()
            return False
        graph.redirect(last.output, layer.output)
        prune(graph, [last])
        if chain[0].name not in graph:
            graph.rename(layer, chain[0].name)
        return True

    def _integer_layer(
        self, graph: Graph, chain: list[Layer], last: Layer, quantize: Quantize, images: list[OutputSlot]
    ) -> Layer | None:
        """Add the layer that computes on integers what the chain does, if a backend takes it."""
        core, descriptor = chain[0], chain[0].descriptor
        constants: list[OutputSlot | None] = []
        if isinstance(descriptor, Weighted) or len(images) < len(core.inputs):
            found = _integer_constants(graph, core, descriptor, images[0].known_info, quantize.quantization)
            if found is None:
                return None
            constants += found
            descriptor = FullyConnected() if isinstance(descriptor, MatMul) else descriptor
        reduction = as_reduction(core)
        if reduction is not None and images[0].known_info.quantization != quantize.quantization:
            descriptor = reduction
        if len(chain) > 1 and isinstance(chain[1].descriptor, Activation):
            clamp = chain[1].descriptor
            descriptor = replace(
                descriptor,  # type: ignore[type-var]  # behind a clamp stands a kind that has these
                activation=clamp.function,
                activation_alpha=clamp.alpha,
                activation_beta=clamp.beta,
            )
        feeding = [slot.source.layer for slot in core.inputs if slot.source is not None]
        dequantizes = [layer for layer in feeding if isinstance(layer.descriptor, Dequantize)]
        layer = graph.add(
            descriptor,
            *images,
            *constants,
            name=core.name,
            quantization=quantize.quantization,
            sources_of=merged_sources(*dequantizes, *chain, last),
        )
        if layer.output.known_info.dtype is quantize.dtype and self.accepts(layer):
            return layer
        prune(graph, [layer])
        return None


def _chain_before(last: Layer) -> list[Layer]:
    """Return the computing layer and, if present, the clamp behind it.

    Returns nothing where others read them too.
    """
    source = last.inputs[0].source
    if source is None or only_consumer(source) is None:
        return []
    layer = source.layer
    if not isinstance(layer.descriptor, Activation) or layer.descriptor.function not in _CLAMPS:
        return [layer]
    source = layer.inputs[0].source
    if source is None or not isinstance(source.layer.descriptor, Weighted | ElementwiseBinary):
        return [layer]
    return [source.layer, layer] if only_consumer(source) is not None else []


def _integer_constants(
    graph: Graph, core: Layer, descriptor: Descriptor, image: TensorInfo, result: Quantization
) -> list[OutputSlot | None] | None:
    """Add the stored weights and the bias in steps of the products.

    Returns None, and adds nothing, where sums might wrap.
    """
    found = stored_weights(core, descriptor)
    if found is None or image.quantization is None:
        return None
    stored, scheme = found
    if not isinstance(stored.descriptor, Constant):
        return None
    steps = np.asarray(scheme.scale, np.float64) * image.quantization.scale[0]
    values: Array | None = None
    if len(core.inputs) > 2 and core.inputs[2].source is not None:
        values = _integer_bias(core.inputs[2].source.layer, steps, result.scale[0])
        if values is None:
            return None
    axis = filter_axis(descriptor, stored.output.known_info.rank)
    if not _sums_fit(stored.descriptor.value, scheme, axis, image, values):
        return None
    bias: OutputSlot | None = None
    if values is not None and core.inputs[2].source is not None:
        accumulator = Quantization(tuple(steps.tolist()), axis=0 if scheme.is_per_axis else None)
        bias = graph.constant(values, name=f"{core.name}.bias", quantization=accumulator, copy=False)
        bias.layer.sources = core.inputs[2].source.layer.sources
    if isinstance(descriptor, MatMul):
        return [_as_rows(graph, stored, stored.descriptor.value, scheme, axis)]
    return [quantized_constant(graph, stored, scheme), bias]


def _as_rows(graph: Graph, stored: Layer, value: Array, scheme: Quantization, axis: int) -> OutputSlot:
    """Add a stored matrix as the weights of a fully connected layer: filters come first."""
    if axis == 0:
        return quantized_constant(graph, stored, scheme)
    rows = Quantization(scheme.scale, scheme.zero_point, axis=0 if scheme.is_per_axis else None)
    slot = graph.constant(copied(value.T), name=stored.name, quantization=rows, copy=False)
    slot.layer.sources = stored.sources
    return slot


def _sums_fit(weights: Array, scheme: Quantization, axis: int, image: TensorInfo, bias: Array | None) -> bool:
    """Tell whether sums fit 32 bits, whatever the image holds.

    Where a sum of integers wraps, one of float32 goes on.

    Args:
        weights: As stored.
        scheme: Their quantization.
        axis: What counts the filters.
        image: Quantized per tensor.
        bias: Of the scale of the products.
    """
    if image.quantization is None or not weights.size:
        return False
    room = 2**31 - 1 - (0 if bias is None else _largest(bias))
    reach = farthest(image.dtype, image.quantization)
    if weights.size // weights.shape[axis] * farthest(DType.of(weights.dtype), scheme) * reach <= room:
        return True
    column = [1] * weights.ndim
    column[axis] = -1
    zeros = np.asarray(scheme.zero_point, np.int64)
    shifts = zeros.reshape(column) if scheme.is_per_axis else zeros
    differences = mapped(lambda stored, zero: stored.astype(np.int64) - zero, np.int32, weights, shifts)
    others = [other for other in range(weights.ndim) if other != axis]
    return _largest(reduced(np.add, differences, others, np.int64, np.abs)) * reach <= room


def _largest(integers: Array) -> int:
    """The largest magnitude."""
    if not integers.size:
        return 0
    return int(reduced(np.maximum, integers, range(integers.ndim), np.int64, lambda part: np.abs(part.astype(np.int64))).max())


def _integer_bias(origin: Layer, steps: Array, result_scale: float) -> Array | None:
    if isinstance(origin.descriptor, Constant):
        counts = mapped(lambda real, steps: real.astype(np.float64) / steps, np.float64, origin.descriptor.value, steps)
    elif isinstance(origin.descriptor, Dequantize):
        stored, scheme = origin.constant(0), origin.descriptor.quantization
        if stored is None:
            return None
        if stored.dtype == np.int32 and not any(scheme.zero_point) and np.allclose(scheme.scale, steps, rtol=1e-6, atol=0.0):
            return stored
        counts = mapped(
            lambda stored, zero, scale, steps: (stored.astype(np.float64) - zero) * scale / steps,
            np.float64,
            stored,
            np.asarray(scheme.zero_point),
            np.asarray(scheme.scale),
            steps,
        )
    else:
        return None
    if not holds(lambda part: np.isfinite(part) & (np.abs(np.rint(part)) < 2**31), counts):
        return None
    if not holds(lambda part: part <= 0.5 * result_scale, steps) and not holds(
        lambda part: np.abs(part - np.rint(part)) < 1e-3, counts
    ):
        return None
    return mapped(lambda part: np.rint(part).astype(np.int32), np.int32, counts)
