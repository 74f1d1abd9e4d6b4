"""Lower quantized layers: convolutions, matrix products and pooling, in bytes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dovetail import Layer, layers
from dovetail.ground.pieces import mapped

from ..arrays import Whole
from ..convolution.lowering import window_of
from ..fusion.lowering import Lowering
from ..geometry.layouts import Image, bytes_info
from ..geometry.window import POINT, Geometry
from ..windows.lowering import elements_that_count, pooled_window
from .kinds import ConvolveQuantized, DepthwiseQuantized, PoolQuantized
from .rows import define_rows, rows
from .support import LARGEST, clamp_range, scheme


def byte_filters(layer: Layer) -> tuple[Whole, dict[str, Any]]:
    """Return `filters_of` a product in bytes, whose factors are float32."""
    weights, shared = filters_of(layer)
    return weights, {**shared, "factors": np.minimum(shared["factors"], LARGEST).astype(np.float32)}


def filters_of(layer: Layer) -> tuple[Whole, dict[str, Any]]:
    """Return a product's weights less zero points, and what else of `Filters` the layer alone says.

    The weights keep the order in which they are stored; int8 without zero points is what is stored.
    The bias is as it is stored, and factors from sums to results are float64.
    """
    stored, given = layer.constant(1), scheme(layer.inputs[1].source)
    if stored is None:
        raise ValueError(f"{layer.name!r} has no weights")
    axis = getattr(layer.descriptor, "filter_axis", 0)
    weights = stored
    if stored.dtype != np.int8 or any(given.zero_point):
        column = [1] * stored.ndim
        column[axis] = -1
        zeros = np.asarray(given.zero_point, np.int16)
        weights = mapped(np.subtract, np.int16, stored, zeros.reshape(column) if given.is_per_axis else zeros)
    source, result = scheme(layer.inputs[0].source), scheme(layer.output)
    steps = source.scale[0] * np.asarray(given.scale, np.float64)
    return weights, {
        "bias": layer.constant(2) if len(layer.inputs) > 2 else None,
        "factors": np.broadcast_to(steps / result.scale[0], stored.shape[axis]),
        "zeros": (source.zero_point[0], result.zero_point[0]),
        "bounds": clamp_range(layer),
    }


def lower_convolution(lowering: Lowering, layer: Layer) -> bool:
    """Make a convolution in bytes."""
    descriptor, source, value = layer.descriptor, layer.inputs[0].source, layer.constant(1)
    if not isinstance(descriptor, layers.Convolution2d | layers.DepthwiseConvolution2d) or source is None or value is None:
        return False
    layout, dtype = descriptor.layout, source.known_info.dtype
    image, target = Image.of(source.known_info, layout), Image.of(layer.output.known_info, layout)
    stored, shared = byte_filters(layer)
    geometry, weights = window_of(descriptor, stored, image, target)
    groups = image.channels if isinstance(descriptor, layers.DepthwiseConvolution2d) else descriptor.groups
    shared.update(infos=(bytes_info(target, dtype),), source=image, target=target, geometry=geometry)
    made: ConvolveQuantized | DepthwiseQuantized
    if groups == image.channels == target.channels and groups > 1:
        made = DepthwiseQuantized(weights=weights[:, :, 0], **shared)
    else:
        made = ConvolveQuantized(weights=weights, groups=groups, **shared)
    output = lowering.emit(made, [lowering.bytes(source, layout)], [layer]).output
    lowering.define(layer.output, output, "bytes", layout)
    return True


def lower_fully_connected(lowering: Lowering, layer: Layer) -> bool:
    """Make a product with a constant matrix a convolution of one tap."""
    source = layer.inputs[0].source
    if not isinstance(layer.descriptor, layers.FullyConnected) or source is None:
        return False
    weights, shared = byte_filters(layer)
    filters, channels = weights.shape
    count = math.prod(source.known_info.sizes[:-1])
    image, target = Image(1, channels, count, 1), Image(1, filters, count, 1)
    made = ConvolveQuantized(
        infos=(bytes_info(target, source.known_info.dtype),),
        weights=weights[:, None, :],
        source=image,
        target=target,
        geometry=POINT,
        **shared,
    )
    output = lowering.emit(made, [rows(lowering, lowering.plain(source), image, layer)], [layer]).output
    define_rows(lowering, layer, output, target)
    return True


def lower_pooling(lowering: Lowering, layer: Layer) -> bool:
    """Make a pooling in bytes."""
    descriptor, source = layer.descriptor, layer.inputs[0].source
    if not isinstance(descriptor, layers.Pooling2d | layers.GlobalPooling) or source is None:
        return False
    layout, averages = descriptor.layout, descriptor.function == layers.PoolingFunction.AVERAGE
    image, target = Image.of(source.known_info, layout), Image.of(layer.output.known_info, layout)
    if isinstance(descriptor, layers.Pooling2d):
        geometry = pooled_window(descriptor, image, target)
        sizes, results = (image.height, image.width), (target.height, target.width)
        along = [elements_that_count(descriptor, axis, sizes[axis], results[axis]) for axis in range(2)]
        counts = (
            mapped(np.multiply, np.int32, along[0][:, None], along[1])
            if averages and layer.output.known_info.elements
            else None
        )
    else:
        geometry = Geometry((image.height, image.width))
        counts = np.full((1, 1), image.pixels, np.int32) if averages else None
    pool = PoolQuantized(
        infos=(bytes_info(target, source.known_info.dtype),),
        source=image,
        target=target,
        geometry=geometry,
        counts=counts,
        zero=scheme(source).zero_point[0] if averages else 0,
    )
    lowering.define(layer.output, lowering.emit(pool, [lowering.bytes(source, layout)], [layer]).output, "bytes", layout)
    return True
