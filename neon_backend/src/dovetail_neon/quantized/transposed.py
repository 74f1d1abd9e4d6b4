"""Lower transposed convolutions of quantized images: a convolution for each phase of the steps.

See `convolution.transposed`. What lies outside the image are zero points, as for any convolution.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from dovetail import DataLayout, Layer, TensorInfo
from dovetail.graph.layer import OutputSlot
from dovetail.ground.limits import budget
from dovetail.ground.pieces import put
from dovetail.layers import TransposeConvolution2d

from ..arrays import Shorts, Whole
from ..convolution.transposed import Axis, Phase
from ..fusion.lowering import Lowering
from ..geometry.layouts import Image, bytes_info
from ..geometry.window import Geometry
from ..movement.kinds import Rearrange
from ..movement.strides import Move, contiguous
from .kinds import ConvolveQuantized, ReorderQuantized
from .lowering import byte_filters

Convolve = Callable[[Whole, Image, Geometry, str], OutputSlot]
"""Makes the convolution of a phase, by weights, target, window and name: returns plain results."""


def lower_transposed(lowering: Lowering, layer: Layer) -> bool:
    """Make a convolution in bytes for each phase, and put their results side by side."""
    descriptor, source = layer.descriptor, layer.inputs[0].source
    if not isinstance(descriptor, TransposeConvolution2d) or source is None:
        return False
    layout, dtype = descriptor.layout, layer.output.known_info.dtype
    x, image = lowering.bytes(source, layout), Image.of(source.known_info, layout)
    stored, shared = byte_filters(layer)

    def convolve(weights: Whole, target: Image, window: Geometry, name: str) -> OutputSlot:
        infos = (bytes_info(target, dtype),)
        made = ConvolveQuantized(infos=infos, weights=weights, source=image, target=target, geometry=window, **shared)
        return _plain(lowering, layer, lowering.emit(made, [x], [layer], name).output, layout)

    join_phases(lowering, layer, stored, convolve)
    return True


def join_phases(lowering: Lowering, layer: Layer, stored: Whole, convolve: Convolve) -> None:
    """Make the convolution of each phase, and put their results side by side.

    Args:
        lowering: What grows.
        layer: A transposed convolution.
        stored: Its weights less zero points, in the order in which they are stored.
        convolve: Makes one.
    """
    descriptor: Any = layer.descriptor
    layout, info = descriptor.layout, layer.output.known_info
    target = Image.of(info, layout)
    kernel, results = descriptor.kernel_size(TensorInfo.of_array(stored)), (target.height, target.width)
    rows, columns = (
        Axis.of(kernel[i], descriptor.stride[i], descriptor.dilation[i], descriptor.padding[i], results[i]) for i in range(2)
    )
    computed = Image(target.batch, target.channels, rows.size, columns.size)
    by_filter = stored.transpose(1, 2, 3, 0) if layout is DataLayout.NCHW else stored
    made, moves, load = [], [], budget()
    for number, (y, z) in enumerate(itertools.product(range(len(rows.phases)), range(len(columns.phases)))):
        load.check_time()
        phase = rows.phases[y], columns.phases[z]
        window = Geometry(
            (len(phase[0].taps), len(phase[1].taps)),
            dilation=(phase[0].dilation, phase[1].dilation),
            padding=(phase[0].padding, phase[1].padding),
        )
        made.append(convolve(_weights(by_filter, *phase), computed, window, f"{layer.name}.phase {number}"))
        taken = _taken(rows, y, results[0]), _taken(columns, z, results[1])
        moves.append(_move(layout, computed, target, number, taken, info.dtype.itemsize))
    output = TensorInfo(info.shape, info.dtype, info.quantization)
    lowering.define(layer.output, lowering.emit(Rearrange(infos=(output,), moves=tuple(moves)), made, [layer]).output)


def _plain(lowering: Lowering, layer: Layer, made: OutputSlot, layout: DataLayout) -> OutputSlot:
    convolved = made.layer.descriptor
    assert isinstance(convolved, ConvolveQuantized), "it was made here"
    info = TensorInfo(convolved.target.shape(layout), made.known_info.dtype)
    reorder = ReorderQuantized(infos=(info,), image=convolved.target, channels_last=layout is DataLayout.NHWC)
    return lowering.emit(reorder, [made], [layer], f"{made.layer.name}.reorder").output


def _taken(axis: Axis, phase: int, results: int) -> tuple[int, int, int, int]:
    """Return the first wanted result of a phase, how many there are, its place, and the step."""
    stride = len(axis.phases)
    begin = max(0, -(-(axis.first - phase) // stride))
    place = stride * begin + phase - axis.first
    return begin, max(0, min(axis.size - begin, -(-(results - place) // stride))), place, stride


def _move(
    layout: DataLayout,
    computed: Image,
    target: Image,
    number: int,
    taken: tuple[tuple[int, int, int, int], ...],
    itemsize: int,
) -> Move:
    """Return the copy of one phase's results to where they belong."""
    sizes = list(target.shape(layout))
    own, whole = contiguous(computed.shape(layout), itemsize), list(contiguous(target.shape(layout), itemsize))
    source = place = 0
    for axis, (begin, count, first, stride) in zip(layout.spatial_axes(), taken, strict=True):
        source, place = source + begin * own[axis], place + first * whole[axis]
        sizes[axis], whole[axis] = count, whole[axis] * stride
    return Move(tuple(sizes), own, tuple(whole), input=number, source_offset=source, target_offset=place)


def _weights(by_filter: Whole, row: Phase, column: Phase) -> Shorts:
    """Return [filters, taps, channels] of one phase, of [filters, height, width, channels]."""
    filters, _, _, channels = by_filter.shape
    weights = np.zeros((filters, len(row.taps), len(column.taps), channels), np.int16)
    for (i, y), (j, x) in itertools.product(enumerate(row.taps), enumerate(column.taps)):
        if x is not None and y is not None:
            put(weights[:, i, j], by_filter[:, y, x])
    return weights.reshape(filters, -1, channels)
