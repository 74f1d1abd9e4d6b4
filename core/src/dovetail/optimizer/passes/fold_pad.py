"""Fold a pad into the window that reads it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np

from ...graph.descriptor import Descriptor
from ...graph.graph import Graph
from ...graph.layer import InputSlot, Layer
from ...graph.tensor import DataLayout, TensorInfo
from ...ground.errors import GraphError
from ...layers import AutoPadding, Convolution2d, DepthwiseConvolution2d, Pad, PadMode, Pooling2d, PoolingFunction
from ..rewriting import merged_sources, prune, reconnect
from .base import Pass


class FoldPad(Pass):
    """Fold a constant pad of spatial axes into the convolution or pooling behind it, if equivalent.

    Convolutions and L-p pooling pad by zero; maximum pooling ignores padding, so the pad must hold
    the least value; average pooling must count the padding (no own, uncounted padding, no partial
    window). For quantized tensors zero is the integer that stands for it: the zero point.
    """

    name: ClassVar[str] = "fold_pad"

    def run(self, graph: Graph) -> int:
        changes = 0
        for layer in [layer for layer in graph if isinstance(layer.descriptor, Pad)]:
            for consumer in list(layer.output.consumers):
                changes += _fold(graph, layer, consumer)
            prune(graph, [layer])
        return changes


def _fold(graph: Graph, pad: Layer, reader: InputSlot) -> bool:
    source, descriptor, target = pad.inputs[0].source, pad.descriptor, reader.layer
    if source is None or reader.index != 0 or not isinstance(descriptor, Pad) or descriptor.mode is not PadMode.CONSTANT:
        return False
    if pad.output.known_info.quantization != source.known_info.quantization:
        return False  # it hands on the integers, for other numbers
    folded = _folded(descriptor, source.known_info, target.descriptor)
    if folded is None:
        return False
    try:
        infos = list(folded.infer([source.info, *target.input_infos[1:]]))
    except GraphError:  # such as padding as large as the window
        return False
    before = [slot.known_info for slot in target.outputs]
    if [(i.shape, i.dtype) for i in infos] != [(i.shape, i.dtype) for i in before]:
        return False
    graph.replace_descriptor(target, folded)
    reconnect(graph, reader, source)
    target.sources = merged_sources(pad, target)
    return True


def _folded(pad: Pad, info: TensorInfo, target: Descriptor) -> Descriptor | None:
    if (
        not isinstance(target, Convolution2d | DepthwiseConvolution2d | Pooling2d)
        or target.auto_padding is not AutoPadding.EXPLICIT
    ):
        return None
    amounts = _spatial_amounts(pad, target.layout)
    zero = _zero(info)
    if amounts is None or zero is None:
        return None
    own = target.padding
    padding = (own[0] + amounts[0], own[1] + amounts[1], own[2] + amounts[2], own[3] + amounts[3])
    if not isinstance(target, Pooling2d):
        return replace(target, padding=padding) if pad.value == zero else None
    if target.function is PoolingFunction.MAX:
        return replace(target, padding=padding) if _is_least(pad.value, info) else None
    if pad.value != zero:
        return None
    if target.function is PoolingFunction.LP:
        return replace(target, padding=padding)
    if target.ceil_mode or (any(own) and not target.count_padding):
        return None
    return replace(target, padding=padding, count_padding=True)


def _spatial_amounts(pad: Pad, layout: DataLayout) -> tuple[int, int, int, int] | None:
    if len(pad.before) != 4 or min((*pad.before, *pad.after)) < 0:
        return None
    height, width = layout.spatial_axes()
    if any(pad.before[axis] or pad.after[axis] for axis in range(4) if axis not in (height, width)):
        return None
    return pad.before[height], pad.before[width], pad.after[height], pad.after[width]


def _zero(info: TensorInfo) -> int | None:
    """Return the element that stands for zero; None if that is another one for each channel."""
    points = {0} if info.quantization is None else set(info.quantization.zero_point)
    return points.pop() if len(points) == 1 else None


def _is_least(value: float, info: TensorInfo) -> bool:
    if info.dtype.is_float:
        return value == -math.inf
    return info.dtype.is_integer and value == int(np.iinfo(info.dtype.numpy).min)
