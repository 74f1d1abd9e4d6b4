"""Lower quantized layers: convolutions, matrix products, pooling and additions, in bytes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dovetail import Layer, Quantization, TensorInfo, layers
from dovetail.graph.layer import OutputSlot
from dovetail.ground.pieces import mapped

from ..arrays import Floats, Ints, Shorts
from ..convolution.lowering import window_of
from ..fusion.lowering import Lowering
from ..geometry.layouts import Image, bytes_info
from ..geometry.window import POINT, Geometry
from ..windows.lowering import elements_that_count, pooled_window
from .kinds import AddQuantized, ConvolveQuantized, DepthwiseQuantized, PoolQuantized, ReorderQuantized
from .support import clamp_range

_LARGEST = 1e30
"""Of a factor: any integer but 0 times it is beyond 8 bits anyhow, and 0 times it is 0."""


def _quantization(slot: OutputSlot | None) -> Quantization:
    quantization = None if slot is None else slot.known_info.quantization
    if quantization is None:
        raise ValueError("a quantized layer has a tensor without quantization")
    return quantization


def _weights(layer: Layer) -> tuple[Shorts, Floats, Ints | None]:
    """Return a product's weights less zero points, factors from sums to results, and the bias.

    The weights keep the order in which they are stored.
    """
    stored, scheme = layer.constant(1), _quantization(layer.inputs[1].source)
    if stored is None:
        raise ValueError(f"{layer.name!r} has no weights")
    axis = getattr(layer.descriptor, "filter_axis", 0)
    column = [1] * stored.ndim
    column[axis] = -1
    zeros = np.asarray(scheme.zero_point, np.int16)
    shifts = zeros.reshape(column) if scheme.is_per_axis else zeros
    weights = mapped(lambda stored, zero: stored.astype(np.int16) - zero, np.int16, stored, shifts)
    steps = _quantization(layer.inputs[0].source).scale[0] * np.asarray(scheme.scale, np.float64)
    factors = np.broadcast_to(steps / _quantization(layer.output).scale[0], stored.shape[axis])
    return weights, np.minimum(factors, _LARGEST).astype(np.float32), layer.constant(2) if len(layer.inputs) > 2 else None


def _zeros(layer: Layer) -> tuple[int, int]:
    return _quantization(layer.inputs[0].source).zero_point[0], _quantization(layer.output).zero_point[0]


def lower_convolution(lowering: Lowering, layer: Layer) -> bool:
    """Make a convolution in bytes."""
    descriptor, source, value = layer.descriptor, layer.inputs[0].source, layer.constant(1)
    if not isinstance(descriptor, layers.Convolution2d | layers.DepthwiseConvolution2d) or source is None or value is None:
        return False
    layout, dtype = descriptor.layout, source.known_info.dtype
    image, target = Image.of(source.known_info, layout), Image.of(layer.output.known_info, layout)
    stored, factors, bias = _weights(layer)
    geometry, weights = window_of(descriptor, stored, image, target)
    groups = image.channels if isinstance(descriptor, layers.DepthwiseConvolution2d) else descriptor.groups
    shared: dict[str, Any] = {
        "infos": (bytes_info(target, dtype),),
        "bias": bias,
        "factors": factors,
        "source": image,
        "target": target,
        "geometry": geometry,
        "zeros": _zeros(layer),
        "bounds": clamp_range(layer),
    }
    made: ConvolveQuantized | DepthwiseQuantized
    if groups == image.channels == target.channels and groups > 1:
        made = DepthwiseQuantized(weights=weights[:, :, 0], **shared)
    else:
        made = ConvolveQuantized(weights=weights, groups=groups, **shared)
    output = lowering.emit(made, [lowering.bytes(source, layout)], [layer]).output
    lowering.define(layer.output, output, "bytes", layout)
    return True


def _rows(lowering: Lowering, slot: OutputSlot, image: Image, layer: Layer) -> OutputSlot:
    """A plain tensor as an image of bytes."""
    reorder = ReorderQuantized(infos=(bytes_info(image, slot.known_info.dtype),), image=image, channels_last=True)
    return lowering.emit(reorder, [lowering.plain(slot)], [layer], name=f"{layer.name}.reorder").output


def _define_rows(lowering: Lowering, layer: Layer, made: OutputSlot, image: Image) -> None:
    """Say that the output of a layer exists, as rows of an image of bytes."""
    info = layer.output.known_info
    reorder = ReorderQuantized(infos=(TensorInfo(info.shape, info.dtype, info.quantization),), image=image, channels_last=True)
    lowering.define(layer.output, lowering.emit(reorder, [made], [layer], name=f"{layer.name}.reorder").output)


def lower_fully_connected(lowering: Lowering, layer: Layer) -> bool:
    """Make a product with a constant matrix a convolution of one tap."""
    source = layer.inputs[0].source
    if not isinstance(layer.descriptor, layers.FullyConnected) or source is None:
        return False
    weights, factors, bias = _weights(layer)
    filters, channels = weights.shape
    rows = math.prod(source.known_info.sizes[:-1])
    image, target = Image(1, channels, rows, 1), Image(1, filters, rows, 1)
    made = ConvolveQuantized(
        infos=(bytes_info(target, source.known_info.dtype),),
        weights=weights[:, None, :],
        bias=bias,
        factors=factors,
        source=image,
        target=target,
        geometry=POINT,
        zeros=_zeros(layer),
        bounds=clamp_range(layer),
    )
    output = lowering.emit(made, [_rows(lowering, source, image, layer)], [layer]).output
    _define_rows(lowering, layer, output, target)
    return True


def lower_addition(lowering: Lowering, layer: Layer) -> bool:
    """Make an addition in bytes."""
    a, b = layer.inputs[0].source, layer.inputs[1].source
    if not isinstance(layer.descriptor, layers.ElementwiseBinary) or a is None or b is None:
        return False
    of_a, of_b, result = _quantization(a), _quantization(b), _quantization(layer.output)
    layout, info = lowering.byte_layout(a) or lowering.byte_layout(b), layer.output.known_info
    image = Image(1, info.elements, 1, 1) if layout is None else Image.of(info, layout)
    descriptor = AddQuantized(
        infos=(bytes_info(image, info.dtype),),
        factors=(min(of_a.scale[0] / result.scale[0], _LARGEST), min(of_b.scale[0] / result.scale[0], _LARGEST)),
        zeros=(of_a.zero_point[0], of_b.zero_point[0], result.zero_point[0]),
        bounds=clamp_range(layer),
    )
    if layout is None:
        made = lowering.emit(descriptor, [_rows(lowering, slot, image, layer) for slot in (a, b)], [layer]).output
        _define_rows(lowering, layer, made, image)
    else:
        made = lowering.emit(descriptor, [lowering.bytes(a, layout), lowering.bytes(b, layout)], [layer]).output
        lowering.define(layer.output, made, "bytes", layout)
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
        zero=_quantization(source).zero_point[0] if averages else 0,
    )
    lowering.define(layer.output, lowering.emit(pool, [lowering.bytes(source, layout)], [layer]).output, "bytes", layout)
    return True
