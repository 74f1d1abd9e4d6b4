"""Plain quantized tensors as images of bytes, and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import DataLayout, Layer, TensorInfo
from dovetail.graph.layer import OutputSlot

from ..fusion.lowering import Lowering
from ..geometry.layouts import Image, bytes_info, pixel_bytes
from .kinds import ReorderQuantized

_GROUP = 64
"""Bytes that a kernel may read at once."""


def rows(lowering: Lowering, plain: OutputSlot, image: Image, layer: Layer, *, channels_last: bool = True) -> OutputSlot:
    """Return a plain tensor as an image of bytes, for a layer that reads it."""
    reorder = ReorderQuantized(infos=(bytes_info(image, plain.known_info.dtype),), image=image, channels_last=channels_last)
    return lowering.emit(reorder, [plain], [layer], name=f"{layer.name}.reorder").output


def define_rows(lowering: Lowering, layer: Layer, made: OutputSlot, image: Image) -> None:
    """Say that the output of a layer exists, as an image of bytes with channels innermost."""
    info = layer.output.known_info
    reorder = ReorderQuantized(infos=(TensorInfo(info.shape, info.dtype, info.quantization),), image=image, channels_last=True)
    lowering.define(layer.output, lowering.emit(reorder, [made], [layer], name=f"{layer.name}.reorder").output)


def repeated(value: npt.NDArray[Any], info: TensorInfo, image: Image, layout: DataLayout | None) -> npt.NDArray[Any]:
    """Return bytes that lie beside an image of bytes once they are repeated as often as they fit.

    Args:
        value: Broadcast to the shape of the tensor.
        info: Of that tensor.
        image: Its sizes as an image.
        layout: The order of its axes; None: all of it is one pixel.

    Returns:
        The shortest whole number of groups of 64 bytes, or all of the image if that is less.
    """
    own = value.reshape((1,) * (len(info.sizes) - value.ndim) + value.shape)
    if layout is DataLayout.NCHW:
        own = np.moveaxis(own, 1, -1)
    sizes = info.sizes if layout is None else image.shape(DataLayout.NHWC)
    # Along the first axes it is the same, so that one of each will do; pixels are padded as wholes.
    leading = next((axis for axis, size in enumerate(own.shape) if size != 1), own.ndim)
    leading = leading if layout is None else min(leading, own.ndim - 1)
    once = np.broadcast_to(own[(0,) * leading], sizes[leading:])
    if layout is not None:
        channels = once.shape[-1]
        padded = np.zeros((*once.shape[:-1], pixel_bytes(channels)), once.dtype)
        padded[..., :channels] = once
        once = padded
    nbytes = bytes_info(image, info.dtype).nbytes
    period = min(math.lcm(once.size, _GROUP), nbytes) if once.size else nbytes
    return np.resize(once, period)
