"""What pooling becomes."""

from __future__ import annotations

import numpy as np

from dovetail import DataLayout, Layer
from dovetail.graph.layer import OutputSlot
from dovetail.ground.pieces import Region, assembled, mapped
from dovetail.layers import (
    GlobalPooling,
    Pooling2d,
    PoolingFunction,
)

from ..arrays import Floats
from ..fusion.lowering import Lowering
from ..geometry.clipping import clipped
from ..geometry.layouts import Image, blocked_info, plain_info
from ..geometry.window import Geometry
from .kinds import MeanOfImage, Pool


def pooled_window(descriptor: Pooling2d, image: Image, target: Image) -> Geometry:
    """Return what some result reads of a window."""
    whole = Geometry(descriptor.size, descriptor.stride, descriptor.dilation, descriptor.padding[:2])
    return clipped(whole, (image.height, image.width), (target.height, target.width)).geometry


def _factors(rows: Floats, columns: Floats) -> Floats:
    """One over the elements that count; 0 where none does."""
    counts: Floats = rows * columns
    with np.errstate(divide="ignore"):
        return np.where(counts == 0, 0.0, 1.0 / counts)


def lower_pooling(lowering: Lowering, layer: Layer) -> bool:
    """Make a pooling of blocked images."""
    descriptor, source = layer.descriptor, layer.inputs[0].source
    if not isinstance(descriptor, Pooling2d) or source is None or descriptor.function is PoolingFunction.LP:
        return False
    layout = descriptor.layout
    image, target = Image.of(source.known_info, layout), Image.of(layer.output.known_info, layout)
    if descriptor.function is PoolingFunction.AVERAGE and _covers_image(descriptor, image):
        _emit_mean(lowering, layer, source, layout)
        return True
    factors = None
    if descriptor.function is PoolingFunction.AVERAGE and layer.output.known_info.elements:
        counts = [
            elements_that_count(descriptor, axis, (image.height, image.width)[axis], (target.height, target.width)[axis])
            for axis in range(2)
        ]
        factors = mapped(_factors, np.float32, counts[0][:, None], counts[1])
    pool = Pool(
        infos=(blocked_info(target, lowering.lanes),),
        source=image,
        target=target,
        geometry=pooled_window(descriptor, image, target),
        factors=factors,
    )
    made = lowering.emit(pool, [lowering.blocked(source, layout)], [layer])
    lowering.define(layer.output, made.output, "blocked", layout)
    return True


def elements_that_count(descriptor: Pooling2d, axis: int, size: int, results: int) -> np.ndarray:
    """Per window along an axis: how many of its elements an average divides by."""
    kernel, dilation = descriptor.size[axis], descriptor.dilation[axis]

    def before(end: int, start: np.ndarray) -> np.ndarray:
        """How many elements of each window lie before a position."""
        return np.asarray(np.clip((end - 1 - start) // dilation + 1, 0, kernel))

    def part(region: Region) -> np.ndarray:
        windows = range(results) if region == (...,) else range(region[0].start, region[0].stop)
        start = np.arange(windows.start, windows.stop) * descriptor.stride[axis] - descriptor.padding[axis]
        if descriptor.count_padding:
            return before(size + descriptor.padding[axis + 2], start)
        return np.asarray(before(size, start) - before(0, start))

    return assembled((results,), np.float64, part)


def lower_global_pooling(lowering: Lowering, layer: Layer) -> bool:
    """Make a mean of blocked images."""
    descriptor, source = layer.descriptor, layer.inputs[0].source
    if not isinstance(descriptor, GlobalPooling) or source is None or descriptor.function is not PoolingFunction.AVERAGE:
        return False
    info = source.known_info
    if info.rank != 4:
        return False
    _emit_mean(lowering, layer, source, descriptor.layout)
    return True


def _covers_image(descriptor: Pooling2d, image: Image) -> bool:
    """True for a window that is the whole image, as exporters write a global mean of known size."""
    return descriptor.size == (image.height, image.width) and descriptor.dilation == (1, 1) and not any(descriptor.padding)


def _emit_mean(lowering: Lowering, layer: Layer, source: OutputSlot, layout: DataLayout) -> None:
    mean = MeanOfImage(infos=(plain_info(layer.output.known_info.sizes),), source=Image.of(source.known_info, layout))
    lowering.define(layer.output, lowering.emit(mean, [lowering.blocked(source, layout)], [layer]).output)
