"""Lower reductions of quantized tensors: the pixels of images become one."""

from __future__ import annotations

import math

from dovetail import DataLayout, Layer
from dovetail.graph.layer import OutputSlot
from dovetail.layers import Permute, Reduce, ReduceFunction

from ..fusion.lowering import Lowering
from ..geometry.layouts import Image, bytes_info
from .kinds import ReduceQuantized
from .rows import define_rows, rows
from .support import LARGEST, scheme


def lower_reduction(lowering: Lowering, layer: Layer) -> bool:
    """Make a sum, mean, maximum or minimum along axes, in bytes."""
    source, info = layer.inputs[0].source, layer.output.known_info
    if not isinstance(layer.descriptor, Reduce) or source is None:
        return False
    layout = _spatial(lowering, layer, layer.descriptor, source)
    if layout is not None:
        image, pixels = Image.of(source.known_info, layout), lowering.bytes(source, layout)
    else:
        image, pixels = _as_pixels(lowering, layer, layer.descriptor, source)
    target = Image(image.batch, image.channels, 1, 1)
    reduction = _reducing(layer, layer.descriptor.function, source, image, target)
    made = lowering.emit(reduction, [pixels], [layer]).output
    if layout is not None and info.rank == source.known_info.rank:
        lowering.define(layer.output, made, "bytes", layout)
    else:
        define_rows(lowering, layer, made, target)
    return True


def _reducing(layer: Layer, function: ReduceFunction, source: OutputSlot, image: Image, target: Image) -> ReduceQuantized:
    factor = scheme(source).scale[0] / scheme(layer.output).scale[0]
    averages = function is ReduceFunction.MEAN
    return ReduceQuantized(
        infos=(bytes_info(target, layer.output.known_info.dtype),),
        function="sum" if averages else function.value,
        source=image,
        factor=min(factor / image.pixels if averages else factor, LARGEST),
        zeros=(scheme(source).zero_point[0], scheme(layer.output).zero_point[0]),
    )


def _spatial(lowering: Lowering, layer: Layer, descriptor: Reduce, source: OutputSlot) -> DataLayout | None:
    """Return the layout of an image that lies in bytes, if rows and columns are what is reduced."""
    layout = lowering.byte_layout(source)
    if layout is None or set(descriptor.reduced_axes(4)) != set(layout.spatial_axes()):
        return None
    return layout


def _as_pixels(lowering: Lowering, layer: Layer, descriptor: Reduce, source: OutputSlot) -> tuple[Image, OutputSlot]:
    """Bring what is reduced to the pixels of images, all else to images and channels."""
    sizes, plain = source.known_info.sizes, lowering.plain(source)
    axes = [axis for axis in descriptor.reduced_axes(len(sizes)) if sizes[axis] != 1]
    kept = [axis for axis in range(len(sizes)) if axis not in axes and sizes[axis] != 1]
    count = math.prod(sizes[axis] for axis in axes)
    inside = [axis for axis in kept if axes and axis > axes[0]]
    if any(axis < axes[-1] for axis in inside):  # others lie in between: what is reduced goes last
        order = tuple(axis for axis in range(len(sizes)) if axis not in axes) + tuple(axes)
        plain = lowering.emit(Permute(permutation=order), [plain], [layer], name=f"{layer.name}.permute").output
        inside = []
    inner = math.prod(sizes[axis] for axis in inside)
    outer = math.prod(sizes[axis] for axis in kept) // inner
    image = Image(1, outer, count, 1) if inner == 1 else Image(outer, inner, count, 1)
    return image, rows(lowering, plain, image, layer, channels_last=inner != 1)
