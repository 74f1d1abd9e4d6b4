"""Replace float32 kinds by those of the precision in which products were asked for."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import fields, replace

import numpy as np

from dovetail import Layer
from dovetail.graph.graph import Graph
from dovetail.graph.layer import OutputSlot
from dovetail.ground.pieces import put

from ..convolution.kinds import Convolve, ConvolveBfloat16, ConvolveFloat16, WinogradConvolve
from ..geometry.layouts import BFLOAT16_BLOCK, Image, bfloat16_info, filled
from ..geometry.window import Geometry
from ..movement.kinds import Frame
from ..windows.kinds import Depthwise, DepthwiseBfloat16

MIN_FILLED = 1 / 16
"""Least filled share of the multiplied factors.

Blocks of 32 channels and vectors of 16 filters hold zeros for what does not exist.
"""
FEW = 4
"""Channels of an image whose rows are read as runs."""


def reduce_precision(graph: Graph, precision: str) -> None:
    """Let convolutions and products with constant matrices round their factors."""
    PASSES[precision](graph)


def _round_to_float16(graph: Graph) -> None:
    """All direct convolutions: images stay as they are, and the kernels round what they read."""
    for layer in graph.layers:
        descriptor = layer.descriptor
        if isinstance(descriptor, Convolve):
            values = {field.name: getattr(descriptor, field.name) for field in fields(Convolve)}
            graph.replace_descriptor(layer, ConvolveFloat16(**values))


def _round_to_bfloat16(graph: Graph) -> None:
    """Round the factors of convolutions and of products with constant matrices.

    What lies between these layers is kept in bfloat16. They would round what they multiply anyway;
    what they add, and what a depthwise convolution between them reads and makes, is rounded too.
    Layers whose channels are too few to fill blocks stay as they are.
    """
    for layer in graph.topological_order():
        descriptor = layer.descriptor
        if isinstance(descriptor, Convolve) and descriptor.run > 1:
            _round_few(graph, layer, descriptor)
        elif isinstance(descriptor, Convolve | WinogradConvolve) and _fills(descriptor):
            graph.replace_descriptor(layer, ConvolveBfloat16(**descriptor.as_filters(), groups=_groups(descriptor)))
    for slot in _kept(graph):
        _keep(graph, slot.layer)


def _groups(descriptor: Convolve | WinogradConvolve) -> int:
    return descriptor.groups if isinstance(descriptor, Convolve) else 1


def _fills(descriptor: Convolve | WinogradConvolve) -> bool:
    filters, taps, channels = descriptor.weights.shape
    return taps > 0 and filled(filters // _groups(descriptor), channels) >= MIN_FILLED


def _round_few(graph: Graph, layer: Layer, descriptor: Convolve) -> None:
    """Round a convolution over a framed image of few channels.

    It then puts the frame around what it rounds itself.
    """
    slot = layer.inputs[0].source
    image = descriptor.source
    if slot is None or image.channels > FEW or 0 in descriptor.weights.shape:
        return
    frame = slot.layer.descriptor
    last, top, left = descriptor.channels_last, 0, 0
    if isinstance(frame, Frame):
        image, (top, left, _, _) = frame.image, frame.padding
    filters, rows, _ = descriptor.weights.shape
    columns = descriptor.run
    order = (filters, rows, columns, image.channels) if last else (filters, rows, image.channels, columns)
    weights = np.zeros((filters, rows, columns, FEW), np.float32)
    put(weights[..., : image.channels], descriptor.weights.reshape(order).transpose((0, 1, 2, 3) if last else (0, 1, 3, 2)))
    changed = {
        "weights": weights.reshape(filters, rows, columns * FEW),
        "source": image,
        "geometry": Geometry((rows, columns), descriptor.geometry.stride, padding=(top, left)),
    }
    rounded = ConvolveBfloat16(**descriptor.as_filters() | changed, run=columns, channels_last=last)
    graph.replace_descriptor(layer, rounded)
    if isinstance(frame, Frame) and slot.layer.inputs[0].source is not None:
        source = slot.layer.inputs[0].source
        graph.disconnect(layer.inputs[0])
        graph.connect(source, layer.inputs[0])
        if not slot.consumers:
            graph.remove(slot.layer)


def _kept(graph: Graph) -> list[OutputSlot]:
    """Find the images that are computed and read in bfloat16.

    Depthwise convolutions take it on both sides or not at all.
    """
    kept = {layer.output: layer for layer in graph.layers if len(layer.outputs) == 1 and _makes(layer)}
    while True:
        dropped = [slot for slot in kept if not all(_takes(used.layer, slot, kept) for used in slot.consumers)]
        dropped += [
            slot
            for slot, layer in kept.items()
            if isinstance(layer.descriptor, Depthwise) and layer.inputs[0].source not in kept and slot not in dropped
        ]
        if not dropped:
            return list(kept)
        for slot in dropped:
            del kept[slot]


def _makes(layer: Layer) -> bool:
    descriptor = layer.descriptor
    if isinstance(descriptor, Depthwise):
        return bool(layer.output.consumers)
    return isinstance(descriptor, ConvolveBfloat16) and bool(layer.output.consumers) and _whole(descriptor.target, descriptor)


def _takes(layer: Layer, slot: OutputSlot, kept: Container[OutputSlot]) -> bool:
    descriptor = layer.descriptor
    if isinstance(descriptor, Depthwise):
        return layer.output in kept
    if not isinstance(descriptor, ConvolveBfloat16) or descriptor.run > 1:
        return False
    images = [descriptor.source, descriptor.target]
    made = slot.layer.descriptor
    if not isinstance(made, ConvolveBfloat16 | Depthwise):
        return False
    return all(
        made.target == image and _whole(image, descriptor)
        for used, image in zip(layer.inputs, images, strict=False)
        if used.source is slot
    )


def _whole(image: Image, descriptor: ConvolveBfloat16) -> bool:
    """Whether the channels of each group fill whole blocks."""
    return descriptor.groups == 1 or image.channels // descriptor.groups % BFLOAT16_BLOCK == 0


def _keep(graph: Graph, layer: Layer) -> None:
    descriptor = layer.descriptor
    if isinstance(descriptor, Depthwise):
        descriptor = DepthwiseBfloat16(**descriptor.as_filters())
    elif not isinstance(descriptor, ConvolveBfloat16):
        raise TypeError(f"{layer.kind} makes no bfloat16")
    graph.replace_descriptor(layer, replace(descriptor, infos=(bfloat16_info(descriptor.target),)))
    graph.infer(layer)


PASSES: dict[str, Callable[[Graph], None]] = {
    "float32": lambda graph: None,
    "float16": _round_to_float16,
    "bfloat16": _round_to_bfloat16,
}
"""What a precision does to a replacement."""
