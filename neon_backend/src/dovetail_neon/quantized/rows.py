"""Plain quantized tensors as images of bytes, and back."""

from __future__ import annotations

from dovetail import Layer, TensorInfo
from dovetail.graph.layer import OutputSlot

from ..fusion.lowering import Lowering
from ..geometry.layouts import Image, bytes_info
from .kinds import ReorderQuantized


def rows(lowering: Lowering, plain: OutputSlot, image: Image, layer: Layer, *, channels_last: bool = True) -> OutputSlot:
    """Return a plain tensor as an image of bytes, for a layer that reads it."""
    reorder = ReorderQuantized(infos=(bytes_info(image, plain.known_info.dtype),), image=image, channels_last=channels_last)
    return lowering.emit(reorder, [plain], [layer], name=f"{layer.name}.reorder").output


def define_rows(lowering: Lowering, layer: Layer, made: OutputSlot, image: Image) -> None:
    """Say that the output of a layer exists, as an image of bytes with channels innermost."""
    info = layer.output.known_info
    reorder = ReorderQuantized(infos=(TensorInfo(info.shape, info.dtype, info.quantization),), image=image, channels_last=True)
    lowering.define(layer.output, lowering.emit(reorder, [made], [layer], name=f"{layer.name}.reorder").output)
