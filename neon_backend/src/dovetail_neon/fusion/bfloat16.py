"""Which products of a replacement round their factors to bfloat16, and which tensors are kept in it."""

from __future__ import annotations

from dovetail.graph import Graph, Layer, OutputSlot

from ..kinds import Convolve, ConvolveBfloat16, WinogradConvolve
from ..layouts import BFLOAT16_BLOCK, bfloat16_info, blocks

LEAST_FILLED = 1 / 16
"""Of the factors that are multiplied: blocks of 32 channels and vectors of 16 filters hold zeros for what does not exist."""


def round_to_bfloat16(graph: Graph) -> None:
    """Let convolutions and products with constant matrices round their factors; keep what only they read in bfloat16.

    They would round it anyway: that changes no bit. Layers whose channels are too few to fill blocks stay as they are.
    """
    for layer in graph.layers:
        descriptor = layer.descriptor
        if isinstance(descriptor, Convolve | WinogradConvolve) and _fills(descriptor):
            groups = descriptor.groups if isinstance(descriptor, Convolve) else 1
            graph.replace_descriptor(
                layer,
                ConvolveBfloat16(
                    infos=descriptor.infos,
                    weights=descriptor.weights,
                    bias=descriptor.bias,
                    source=descriptor.source,
                    target=descriptor.target,
                    geometry=descriptor.geometry,
                    groups=groups,
                    function=descriptor.function,
                ),
            )
    for layer in graph.layers:
        for output in layer.outputs:
            if _keeps(output):
                _keep(graph, layer)


def _fills(descriptor: Convolve | WinogradConvolve) -> bool:
    if isinstance(descriptor, Convolve) and descriptor.run > 1:
        return False
    filters, taps, channels = descriptor.weights.shape
    groups = descriptor.groups if isinstance(descriptor, Convolve) else 1
    filters //= groups
    room = blocks(channels, 32) * 32 * blocks(filters, 16) * 16
    return bool(filters * channels * taps > 0 and filters * channels >= LEAST_FILLED * room)


def _keeps(slot: OutputSlot) -> bool:
    """Whether all who read a slot would round it."""
    descriptor = slot.layer.descriptor
    if not isinstance(descriptor, ConvolveBfloat16) or not slot.consumers:
        return False
    if descriptor.groups > 1 and descriptor.target.channels // descriptor.groups % BFLOAT16_BLOCK:
        return False
    return all(_rounds(slot, consumer.layer) for consumer in slot.consumers)


def _rounds(slot: OutputSlot, layer: Layer) -> bool:
    descriptor = layer.descriptor
    if not isinstance(descriptor, ConvolveBfloat16) or layer.inputs[0].source is not slot:
        return False
    if len(layer.inputs) > 1 and layer.inputs[1].source is slot:
        return False
    if descriptor.groups > 1 and descriptor.source.channels // descriptor.groups % BFLOAT16_BLOCK:
        return False
    made = slot.layer.descriptor
    return isinstance(made, ConvolveBfloat16) and made.target == descriptor.source


def _keep(graph: Graph, layer: Layer) -> None:
    from dataclasses import replace

    descriptor = layer.descriptor
    if not isinstance(descriptor, ConvolveBfloat16):
        raise TypeError(f"{layer.kind} makes no bfloat16")
    graph.replace_descriptor(layer, replace(descriptor, infos=(bfloat16_info(descriptor.target),)))
    graph.infer(layer)
