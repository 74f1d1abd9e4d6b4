"""Simplify a network before it is quantized, as the optimizer would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dovetail import Network
from dovetail.graph.descriptor import Descriptor
from dovetail.graph.layer import InputSlot, Layer
from dovetail.graph.tensor import DataLayout
from dovetail.layers import (
    Activation,
    Concat,
    Convolution2d,
    DepthwiseConvolution2d,
    ElementwiseBinary,
    GlobalPooling,
    MatMul,
    Permute,
    Pooling2d,
)
from dovetail.optimizer.passes import (
    DropUnused,
    FixShapes,
    FoldBatchNormalization,
    FoldPad,
    InferAndFold,
    InversePermutes,
    RemoveIdentities,
    Validate,
)

_Image = Convolution2d | DepthwiseConvolution2d | Pooling2d | GlobalPooling
_FIRST, _LAST = (0, 3, 1, 2), (0, 2, 3, 1)
"""Orders that bring channels to the front and back."""


def prepared(network: Network, shapes: Mapping[str, Any]) -> Network:
    """Return a copy with all sizes known, batch normalization and padding folded into weights.

    Convolutions and pooling get their channels first, and stored matrices are multiplied as they
    are, as ONNX has them: reordered weights would stand between the stored integers and what
    computes with them.

    Raises:
        DovetailError: The network is wrong, or sizes are still open.
    """
    graph = network.copy()
    for step in (Validate(), DropUnused(), FixShapes(shapes), InferAndFold(), DropUnused()):
        step.run(graph)
    for layer in graph.topological_order():
        if isinstance(layer.descriptor, MatMul) and layer.descriptor.transpose_b:
            _turn_stored(graph, layer, layer.descriptor)
        if (
            isinstance(layer.descriptor, _Image)
            and layer.descriptor.layout is DataLayout.NHWC
            and layer.output.known_info.rank == 4
        ):
            _channels_first(graph, layer)
    repeated = (RemoveIdentities(), InversePermutes(), FoldPad(), FoldBatchNormalization(), DropUnused())
    while _sink_permutes(graph) + sum(step.run(graph) for step in repeated):
        pass
    return graph


def _turn_stored(graph: Network, layer: Layer, descriptor: MatMul) -> None:
    """Store the second matrix as it is multiplied, if it is a constant."""
    value = layer.constant(1)
    if value is None or value.ndim != 2:
        return
    turned = graph.constant(np.ascontiguousarray(value.T), name=f"{layer.name}.turned")
    graph.disconnect(layer.inputs[1])
    graph.replace_descriptor(layer, replace(descriptor, transpose_b=False))
    graph.connect(turned, layer.inputs[1])


def _channels_first(graph: Network, layer: Layer) -> None:
    image, value = layer.inputs[0].source, layer.constant(1)
    assert image is not None  # it is required
    if len(layer.inputs) > 1 and value is None:  # weights that are computed stay as they are
        return
    arguments = [graph.add(Permute(permutation=_FIRST), image, name=f"{layer.name}.first").output]
    if value is not None:
        order = (3, 0, 1, 2) if isinstance(layer.descriptor, DepthwiseConvolution2d) else _FIRST
        arguments.append(graph.constant(np.ascontiguousarray(value.transpose(order)), name=f"{layer.name}.weights"))
    arguments += [slot.source for slot in layer.inputs[2:] if slot.source is not None]
    name = layer.name
    graph.rename(layer, f"{name}.last")
    descriptor = replace(layer.descriptor, layout=DataLayout.NCHW)  # type: ignore[type-var]  # an image's kinds have it
    first = graph.add(descriptor, *arguments, name=name, sources_of=layer.sources)
    back = graph.add(Permute(permutation=_LAST), first.output, name=f"{name}.back", sources_of=layer.sources)
    graph.redirect(layer.output, back.output)
    graph.remove(layer)


def _sink_permutes(graph: Network) -> int:
    """Move permutations behind layers that do not mind, where they may cancel out."""
    changes = 0
    for layer in graph.topological_order():
        orders = {_order_before(slot) for slot in layer.inputs}
        order = orders.pop() if len(orders) == 1 else None
        descriptor = None if order is None else _permuted(layer, order)
        if order is None or descriptor is None:
            continue
        sources = [slot.source.layer.inputs[0].source for slot in layer.inputs if slot.source is not None]
        name = layer.name
        graph.rename(layer, f"{name}.last")
        inner = graph.add(descriptor, *sources, name=name, sources_of=layer.sources)
        back = graph.add(Permute(permutation=order), inner.output, name=f"{name}.back", sources_of=layer.sources)
        graph.redirect(layer.output, back.output)
        graph.remove(layer)
        changes += 1
    return changes


def _order_before(slot: InputSlot) -> tuple[int, ...] | None:
    """Return how the axes of an input were reordered; None if they were not."""
    layer = None if slot.source is None else slot.source.layer
    if layer is None or not isinstance(layer.descriptor, Permute):
        return None
    return layer.descriptor.order(layer.output.known_info.rank)


def _permuted(layer: Layer, order: tuple[int, ...]) -> Descriptor | None:
    """Return what computes the same of inputs that were not reordered; None if nothing does."""
    descriptor = layer.descriptor
    if isinstance(descriptor, Concat):
        return replace(descriptor, axis=order[descriptor.axis % len(order)])
    shapes = {slot.source.known_info.shape for slot in layer.inputs if slot.source is not None}
    is_elementwise = isinstance(descriptor, Activation | ElementwiseBinary) and len(shapes) == 1
    return descriptor if is_elementwise else None
