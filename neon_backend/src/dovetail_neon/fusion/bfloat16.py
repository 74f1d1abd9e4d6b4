"""Which products of a replacement round their factors to bfloat16, and which tensors are kept in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.graph import Graph, Layer, OutputSlot

from ..kinds import Convolve, ConvolveBfloat16, Frame, Geometry, WinogradConvolve
from ..layouts import BFLOAT16_BLOCK, Image, bfloat16_info, blocks

LEAST_FILLED = 1 / 16
"""Of the factors that are multiplied: blocks of 32 channels and vectors of 16 filters hold zeros for what does not exist."""
FEW = 4
"""Channels of an image whose rows are read as runs."""


def round_to_bfloat16(graph: Graph) -> None:
    """Let convolutions and products with constant matrices round their factors; keep what only they read in bfloat16.

    They would round it anyway: that changes no bit. Layers whose channels are too few to fill blocks stay as they are.
    """
    for layer in graph.topological_order():
        descriptor = layer.descriptor
        if isinstance(descriptor, Convolve) and descriptor.run > 1:
            _round_few(graph, layer, descriptor)
        elif isinstance(descriptor, Convolve | WinogradConvolve) and _fills(descriptor):
            graph.replace_descriptor(
                layer,
                ConvolveBfloat16(
                    infos=descriptor.infos,
                    weights=descriptor.weights,
                    bias=descriptor.bias,
                    source=descriptor.source,
                    target=descriptor.target,
                    geometry=descriptor.geometry,
                    groups=_groups(descriptor),
                    function=descriptor.function,
                ),
            )
    for layer in graph.layers:
        for output in layer.outputs:
            if _keeps(output):
                _keep(graph, layer)


def _groups(descriptor: Convolve | WinogradConvolve) -> int:
    return descriptor.groups if isinstance(descriptor, Convolve) else 1


def _fills(descriptor: Convolve | WinogradConvolve) -> bool:
    filters, taps, channels = descriptor.weights.shape
    filters //= _groups(descriptor)
    room = blocks(channels, 32) * 32 * blocks(filters, 16) * 16
    return bool(filters * channels * taps > 0 and filters * channels >= LEAST_FILLED * room)


def _round_few(graph: Graph, layer: Layer, descriptor: Convolve) -> None:
    """A convolution over a framed image of few channels: it puts the frame around what it rounds itself."""
    slot = layer.inputs[0].source
    image = descriptor.source
    if slot is None or image.channels > FEW or 0 in descriptor.weights.shape:
        return
    frame = slot.layer.descriptor
    top = left = 0
    if isinstance(frame, Frame):
        last, image, (top, left, _, _) = frame.channels_last, frame.image, frame.padding
    elif image.channels == image.height == image.width:
        return  # the order of its axes cannot be told
    else:
        last = slot.known_info.sizes != (image.batch, image.channels, image.height, image.width)
    filters, rows, _ = descriptor.weights.shape
    columns = descriptor.run
    order = (filters, rows, columns, image.channels) if last else (filters, rows, image.channels, columns)
    weights = np.zeros((filters, rows, columns, FEW), np.float32)
    weights[..., : image.channels] = descriptor.weights.reshape(order).transpose((0, 1, 2, 3) if last else (0, 1, 3, 2))
    rounded = ConvolveBfloat16(
        infos=descriptor.infos,
        weights=weights.reshape(filters, rows, columns * FEW),
        bias=descriptor.bias,
        source=image,
        target=descriptor.target,
        geometry=Geometry((rows, columns), descriptor.geometry.stride, padding=(top, left)),
        function=descriptor.function,
        run=columns,
        channels_last=last,
    )
    graph.replace_descriptor(layer, rounded)
    if isinstance(frame, Frame) and slot.layer.inputs[0].source is not None:
        source = slot.layer.inputs[0].source
        graph.disconnect(layer.inputs[0])
        graph.connect(source, layer.inputs[0])
        if not slot.consumers:
            graph.remove(slot.layer)


def _keeps(slot: OutputSlot) -> bool:
    """Whether all who read a slot would round it."""
    descriptor = slot.layer.descriptor
    if not isinstance(descriptor, ConvolveBfloat16) or not slot.consumers:
        return False
    if descriptor.groups > 1 and descriptor.target.channels // descriptor.groups % BFLOAT16_BLOCK:
        return False
    return all(_rounds(consumer.layer, slot, descriptor.target) for consumer in slot.consumers)


def _rounds(layer: Layer, slot: OutputSlot, image: Image) -> bool:
    descriptor = layer.descriptor
    if not isinstance(descriptor, ConvolveBfloat16) or descriptor.source != image or descriptor.run > 1:
        return False
    if descriptor.groups > 1 and image.channels // descriptor.groups % BFLOAT16_BLOCK:
        return False
    return [slot] == [used.source for used in layer.inputs if used.source is slot] and layer.inputs[0].source is slot


def _keep(graph: Graph, layer: Layer) -> None:
    descriptor = layer.descriptor
    if not isinstance(descriptor, ConvolveBfloat16):
        raise TypeError(f"{layer.kind} makes no bfloat16")
    graph.replace_descriptor(layer, replace(descriptor, infos=(bfloat16_info(descriptor.target),)))
    graph.infer(layer)
