"""Lower products of int16 with constant weights of bytes, on plain tensors with channels innermost.

Arithmetic is that of TensorFlow Lite's reference kernels: `ShortFilters` says which.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dovetail import DType, Layer, TensorInfo, layers
from dovetail.graph.layer import OutputSlot

from ..arrays import Whole
from ..convolution.lowering import window_of
from ..fusion.lowering import Lowering
from ..geometry.layouts import Image
from ..geometry.window import POINT, Geometry
from .kinds import ConvolveShorts, DepthwiseShorts
from .lowering import filters_of
from .transposed import join_phases

_MAX_TAPS = 256
"""Products of an int16 and 9 bits that 32 bits hold."""


def lower_convolution(lowering: Lowering, layer: Layer) -> bool:
    """Make a convolution of int16."""
    descriptor, source = layer.descriptor, layer.inputs[0].source
    if not isinstance(descriptor, layers.Convolution2d | layers.DepthwiseConvolution2d) or source is None:
        return False
    image, target = (Image.of(slot.known_info, descriptor.layout) for slot in (source, layer.output))
    stored, shared = _shared(layer)
    geometry, weights = window_of(descriptor, stored, image, target)
    groups = image.channels if isinstance(descriptor, layers.DepthwiseConvolution2d) else descriptor.groups
    made: ConvolveShorts | DepthwiseShorts
    if 1 < groups == image.channels == target.channels and weights.shape[1] <= _MAX_TAPS:
        made = DepthwiseShorts(weights=weights[:, :, 0], source=image, target=target, geometry=geometry, **shared)
    else:
        made = ConvolveShorts(weights=weights, source=image, target=target, geometry=geometry, groups=groups, **shared)
    _emit(lowering, layer, made)
    return True


def lower_fully_connected(lowering: Lowering, layer: Layer) -> bool:
    """Make a product with a constant matrix a convolution of one tap."""
    stored, shared = _shared(layer)
    _emit(lowering, layer, _of_rows(layer, stored, {**shared, "is_fixed": False}))
    return True


def lower_transposed(lowering: Lowering, layer: Layer) -> bool:
    """Make a convolution of int16 for each phase, and put their results side by side."""
    descriptor, source = layer.descriptor, layer.inputs[0].source
    if not isinstance(descriptor, layers.TransposeConvolution2d) or source is None:
        return False
    layout, image = descriptor.layout, Image.of(source.known_info, descriptor.layout)
    stored, shared = _shared(layer)

    def convolve(weights: Whole, target: Image, window: Geometry, name: str) -> OutputSlot:
        own = {**shared, "infos": (TensorInfo(target.shape(layout), DType.INT16),)}
        made = ConvolveShorts(weights=weights, source=image, target=target, geometry=window, **own)
        return lowering.emit(made, [lowering.plain(source)], [layer], name).output

    join_phases(lowering, layer, stored, convolve)
    return True


def _shared(layer: Layer) -> tuple[Whole, dict[str, Any]]:
    """Return a layer's weights less zero points, and what its private kind has besides."""
    weights, shared = filters_of(layer)
    bias = shared["bias"]
    return weights, {
        **shared,
        "infos": _infos(layer),
        "bias": None if bias is None else bias.astype(np.int64),
        "factors": np.ascontiguousarray(shared["factors"]),
        "is_narrow": bias is not None and bias.dtype == np.int32,
    }


def _of_rows(layer: Layer, weights: Whole, shared: dict[str, Any]) -> ConvolveShorts:
    filters, channels = weights.shape
    count = math.prod(layer.input_infos[0].sizes[:-1])  # type: ignore[union-attr]  # it has an input
    image, target = Image(1, channels, count, 1), Image(1, filters, count, 1)
    return ConvolveShorts(weights=weights[:, None, :], source=image, target=target, geometry=POINT, **shared)


def _infos(layer: Layer) -> tuple[TensorInfo, ...]:
    info = layer.output.known_info
    return (TensorInfo(info.shape, info.dtype, info.quantization),)


def _emit(lowering: Lowering, layer: Layer, made: ConvolveShorts | DepthwiseShorts) -> None:
    source = layer.inputs[0].source
    assert source is not None  # what it reads
    lowering.define(layer.output, lowering.emit(made, [lowering.plain(source)], [layer]).output)
