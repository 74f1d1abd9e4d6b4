"""Fold batch normalization into the weights before it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...graph.descriptor import Array
from ...graph.element_types import DType
from ...graph.graph import Graph
from ...graph.layer import Layer
from ...graph.tensor import DataLayout
from ...ground.pieces import holds, mapped, regions
from ...layers import BatchNormalization, Convolution2d, DepthwiseConvolution2d, FullyConnected, TransposeConvolution2d
from ..rewriting import Heirs, derived_constant, drop_constants, only_consumer
from .base import Pass

_FLOATS = (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64)
_Weighted = Convolution2d | DepthwiseConvolution2d | TransposeConvolution2d | FullyConnected


class FoldBatchNormalization(Pass):
    """Fold a batch normalization into the convolution or fully connected layer that it alone reads.

    With s = scale / sqrt(variance + epsilon): weights become weights * s, the bias (bias - mean) *
    s + offset. The arithmetic is float64, rounded once. A layer whose weights or bias would
    overflow their type, such as float16, stays as it is: what it computes need not overflow.
    """

    name: ClassVar[str] = "fold_batch_normalization"

    def run(self, graph: Graph) -> int:
        changes, heirs = 0, Heirs()
        for layer in [layer for layer in graph if isinstance(layer.descriptor, BatchNormalization)]:
            source = layer.inputs[0].source
            if source is not None and only_consumer(source) is not None and _fold(graph, source.layer, layer):
                heirs.take_on(source.layer, layer)
                changes += 1
        heirs.settle()
        return changes


def _fold(graph: Graph, weighted: Layer, normalization: Layer) -> bool:
    descriptor, parameters = weighted.descriptor, [normalization.constant(i) for i in range(1, 5)]
    if not isinstance(descriptor, _Weighted) or not isinstance(normalization.descriptor, BatchNormalization):
        return False
    weights = weighted.constant(1)
    has_bias = len(weighted.inputs) > 2 and weighted.inputs[2].source is not None
    bias = weighted.constant(2) if has_bias else None
    known = weights is not None and all(p is not None for p in parameters) and (bias is not None or not has_bias)
    dtypes = {slot.info.dtype for slot in (*weighted.inputs, *normalization.inputs) if slot.info is not None}
    if not known or len(dtypes) != 1 or not dtypes < set(_FLOATS) or descriptor.activation is not None:
        return False
    if not _same_channels(weighted, normalization.descriptor.layout):
        return False
    scale, offset, mean, variance = (np.asarray(parameter) for parameter in parameters)
    epsilon = normalization.descriptor.epsilon
    with np.errstate(all="ignore"):
        factor = mapped(lambda scale, variance: _wide(scale) / np.sqrt(_wide(variance) + epsilon), np.float64, scale, variance)
    if not holds(np.isfinite, factor) or weights is None:
        return False
    dtype = weights.dtype

    def shifted(bias: Array, mean: Array, factor: Array, offset: Array) -> Array:
        moved: Array = ((_wide(bias) - _wide(mean)) * factor + _wide(offset)).astype(dtype)
        return moved

    try:
        with np.errstate(all="ignore", over="raise"):
            shift = mapped(shifted, dtype, np.zeros((), np.float64) if bias is None else bias, mean, factor, offset)
            scaled = _scaled(descriptor, weights, factor)
    except FloatingPointError:
        return False
    old = weighted.inputs[1].source
    assert old is not None  # it has a value
    read = [slot for slot in (*weighted.inputs[1:], *normalization.inputs[1:]) if slot.source is not None]
    constants = dict.fromkeys(slot.source.layer for slot in read if slot.source is not None)
    for slot in read:
        graph.disconnect(slot)
    drop_constants(graph, constants)  # first, so that the next fold may have the memory, and the new ones the names
    graph.connect(derived_constant(graph, scaled, old.layer), weighted.inputs[1])
    new = derived_constant(graph, shift, weighted, f"{weighted.name}.bias")
    if len(weighted.inputs) > 2:
        graph.connect(new, weighted.inputs[2])
    else:
        graph.append_input(weighted, new)
    graph.redirect(normalization.output, weighted.output)
    graph.discard(normalization)
    return True


def _wide(array: Array) -> Array:
    return np.asarray(array, np.float64)


def _same_channels(weighted: Layer, layout: DataLayout) -> bool:
    info = weighted.output.known_info
    axis = layout.channel_axis % info.rank if info.rank > 1 else 0
    descriptor = weighted.descriptor
    own = -1 if isinstance(descriptor, FullyConnected) else getattr(descriptor, "layout", layout).channel_axis
    return axis == own % info.rank


def _scaled(descriptor: _Weighted, weights: Array, factor: Array) -> Array:
    channels_first = isinstance(descriptor, FullyConnected) or descriptor.layout is DataLayout.NCHW
    if isinstance(descriptor, TransposeConvolution2d) and channels_first:
        inward, per_group, *kernel = weights.shape
        grouped = weights.reshape(descriptor.groups, inward // descriptor.groups, per_group, *kernel)
        return _product(grouped, factor.reshape(descriptor.groups, 1, per_group, 1, 1)).reshape(weights.shape)
    if isinstance(descriptor, DepthwiseConvolution2d) and not channels_first:
        return _product(weights, factor)
    return _product(weights, factor.reshape(-1, *(1,) * (weights.ndim - 1)))


def _product(weights: Array, factor: Array) -> Array:
    """Multiply in float64 and round once, some thousand elements at a time.

    All in float64 would take twice the memory of the weights.
    """
    made, factors = np.empty(weights.shape, weights.dtype), np.broadcast_to(factor, weights.shape)
    for region in regions(weights.shape):
        np.multiply(weights[region], factors[region], out=made[region], dtype=np.float64, casting="same_kind")
    return made
