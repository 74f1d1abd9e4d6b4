"""What layers of images become: convolutions, pooling, concatenation, and what is applied per channel."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TypeVar

import numpy as np

from dovetail import DataLayout, Layer, TensorInfo
from dovetail.graph.layer import OutputSlot
from dovetail.ground.pieces import Region, assembled, in_order, mapped
from dovetail.layers import (
    BinaryOperation,
    Concat,
    Convolution2d,
    DepthwiseConvolution2d,
    ElementwiseBinary,
    GlobalPooling,
    Pooling2d,
    PoolingFunction,
    Resize,
    ResizeMethod,
)

from ..algorithms import allows_winograd, tile_vectors, wins
from ..clipping import clipped
from ..functions import function_of
from ..kinds import (
    POINT,
    Combine,
    Convolve,
    Depthwise,
    Floats,
    Frame,
    Geometry,
    Join,
    MeanOfImage,
    Pool,
    PrivateLayer,
    Resample,
    ScaleChannels,
    Shorts,
    WinogradConvolve,
)
from ..layouts import Image, blocked_info, plain_info
from ..resampling import layouts, taps
from .chains import Chain
from .lowering import Lowering, Rule

Filters = TypeVar("Filters", Floats, Shorts)

FRAME_GROWTH, FRAME_PIXELS = 4, 1 << 16
"""How many times as large as an image it may be with its padding, and besides."""


def window_of(
    descriptor: Convolution2d | DepthwiseConvolution2d, weights: Filters, image: Image, target: Image
) -> tuple[Geometry, Filters]:
    """Return what some result reads of a window: its geometry, and the filters as [filters, taps, channels of a group]."""
    kernel = descriptor.kernel_size(TensorInfo.of_array(weights))
    whole = Geometry(kernel, descriptor.stride, descriptor.dilation, descriptor.padding[:2])
    window = clipped(whole, (image.height, image.width), (target.height, target.width))
    if window.geometry.kernel != kernel:
        last = descriptor.layout is DataLayout.NHWC
        weights = weights[:, window.rows, window.columns] if last else weights[:, :, window.rows, window.columns]
    return window.geometry, weights_of(descriptor, weights)


def pooled_window(descriptor: Pooling2d, image: Image, target: Image) -> Geometry:
    """Return what some result reads of a window."""
    whole = Geometry(descriptor.size, descriptor.stride, descriptor.dilation, descriptor.padding[:2])
    return clipped(whole, (image.height, image.width), (target.height, target.width)).geometry


def weights_of(descriptor: Convolution2d | DepthwiseConvolution2d, weights: Filters) -> Filters:
    """Return a view of the filters as [filters, taps, channels of a group]."""
    if isinstance(descriptor, DepthwiseConvolution2d):
        if descriptor.layout is DataLayout.NHWC:  # [1, h, w, filters]
            return weights.reshape(-1, weights.shape[3]).T[:, :, None]
        return weights.reshape(weights.shape[0], -1)[:, :, None]
    filters, last = weights.shape[0], descriptor.layout is DataLayout.NHWC
    channels = weights.shape[3 if last else 1]
    taps = math.prod(weights.shape[1:3] if last else weights.shape[2:])
    if last:
        return weights.reshape(filters, taps, channels)
    return weights.reshape(filters, channels, taps).transpose(0, 2, 1)


def lower_convolution(lowering: Lowering, chain: Chain) -> bool:
    """A convolution with what follows it."""
    descriptor = chain.root.descriptor
    if not isinstance(descriptor, Convolution2d | DepthwiseConvolution2d):
        return False
    source = chain.root.inputs[0].source
    value = chain.root.constant(1)
    if source is None or value is None:
        raise ValueError(f"{chain.root.name!r} has no input or no weights")
    layout, lanes = descriptor.layout, lowering.lanes
    image, target = Image.of(source.known_info, layout), Image.of(chain.output.known_info, layout)
    geometry, weights = window_of(descriptor, value, image, target)
    depthwise = isinstance(descriptor, DepthwiseConvolution2d)
    groups = image.channels if depthwise else descriptor.groups  # type: ignore[union-attr]  # of a Convolution2d

    if groups == image.channels == target.channels and groups > 1 and chain.adds is None:
        made = lowering.emit(
            Depthwise(
                infos=(blocked_info(target, lanes),),
                weights=weights[:, :, 0],
                bias=chain.bias,
                source=image,
                target=target,
                geometry=geometry,
                function=chain.function,
            ),
            [lowering.blocked(source, layout)],
            chain.layers,
        )
        lowering.define(chain.output, made.output, "blocked", layout)
        return True

    convolve = Convolve(
        infos=(blocked_info(target, lanes),),
        weights=weights,
        bias=chain.bias,
        source=image,
        target=target,
        geometry=geometry,
        groups=groups,
        function=chain.function,
        vectors=tile_vectors(target, lanes, image.channels if geometry == POINT else 0),
    )
    if groups > 1 and (image.channels // groups % lanes or target.channels // groups % lanes):
        _emit_channels_last(lowering, chain, convolve, source, layout)
        return True
    if image.pixels == target.pixels == 1 and geometry == POINT and groups == 1:
        _emit_as_matrix(lowering, chain, convolve, source)
        return True
    if (
        groups == 1
        and image.channels < lanes
        and geometry.dilation == (1, 1)
        and geometry.kernel[1] > 1
        and lowering.data_layout(source) is None
        and _frame_of(convolve).pixels <= FRAME_GROWTH * image.pixels + FRAME_PIXELS
    ):
        x, convolve = _framed(lowering, chain, convolve, source, layout)
    else:
        x = lowering.blocked(source, layout)
    inputs = [x] if chain.adds is None else [x, lowering.blocked(chain.adds, layout)]
    made = lowering.emit(fastest(convolve, lanes), inputs, chain.layers)
    lowering.define(chain.output, made.output, "blocked", layout)
    return True


def fastest(convolve: Convolve, lanes: int) -> PrivateLayer:
    """The same convolution by Winograd's filtering, where that is faster."""
    point = (1, 1)
    if convolve.geometry[:3] != ((3, 3), point, point) or convolve.groups > 1 or convolve.run > 1:
        return convolve
    tile = wins(convolve.source, convolve.target, lanes)
    if not tile or not allows_winograd(convolve.weights):
        return convolve
    return WinogradConvolve(
        infos=convolve.infos,
        weights=convolve.weights,
        bias=convolve.bias,
        source=convolve.source,
        target=convolve.target,
        geometry=convolve.geometry,
        function=convolve.function,
        tile=tile,
    )


def _framed(
    lowering: Lowering,
    chain: Chain,
    convolve: Convolve,
    source: OutputSlot,
    layout: DataLayout,
) -> tuple[OutputSlot, Convolve]:
    """Few channels: with the padding in place, a row of the window is a run of elements, in each plane or of all channels."""
    image, framed = convolve.source, _frame_of(convolve)
    top, left = convolve.geometry.padding
    padding = (top, left, framed.height - image.height - top, framed.width - image.width - left)
    last = layout is DataLayout.NHWC
    made = lowering.plain(source)
    if any(padding):
        frame = Frame(infos=(plain_info(framed.shape(layout)),), image=image, padding=padding, channels_last=last)
        made = lowering.emit(frame, [made], [chain.root], name=f"{chain.root.name}.frame").output
    rows, columns = convolve.geometry.kernel
    filters = convolve.weights.shape[0]
    taps = convolve.weights.reshape(filters, rows, columns, image.channels)
    weights = in_order(taps if last else taps.transpose(0, 1, 3, 2)).reshape(filters, rows, columns * image.channels)
    geometry = Geometry((rows, 1), convolve.geometry.stride)
    return made, replace(convolve, weights=weights, source=framed, geometry=geometry, run=columns, channels_last=last)


def _frame_of(convolve: Convolve) -> Image:
    """Return an image with the padding that its windows reach."""
    image, target, geometry = convolve.source, convolve.target, convolve.geometry
    height, width = (
        max(size + before, (results - 1) * stride + kernel)
        for size, before, results, stride, kernel in zip(
            image[2:], geometry.padding, target[2:], geometry.stride, geometry.kernel, strict=True
        )
    )
    return Image(image.batch, image.channels, height, width)


def _emit_as_matrix(lowering: Lowering, chain: Chain, convolve: Convolve, source: OutputSlot) -> None:
    """Images of one pixel are the rows of a matrix, and lie alike in every plain layout."""
    image, target = convolve.source, convolve.target
    inputs = [lowering.plain(source)] + ([] if chain.adds is None else [lowering.plain(chain.adds)])
    descriptor = replace(
        convolve,
        infos=(plain_info(chain.output.known_info.sizes),),
        source=Image(1, image.channels, image.batch, 1),
        target=Image(1, target.channels, image.batch, 1),
        geometry=POINT,
    )
    lowering.define(chain.output, lowering.emit(descriptor, inputs, chain.layers).output)


def _emit_channels_last(lowering: Lowering, chain: Chain, convolve: Convolve, source: OutputSlot, layout: DataLayout) -> None:
    """Groups that do not fill blocks: channels innermost, where a group is a run of elements."""
    target = convolve.target
    inputs = [lowering.last(source, layout)] + ([] if chain.adds is None else [lowering.last(chain.adds, layout)])
    descriptor = replace(convolve, infos=(plain_info(target.shape(DataLayout.NHWC)),))
    made = lowering.emit(descriptor, inputs, chain.layers)
    lowering.define_last(chain.output, made.output, layout)


def _factors(rows: Floats, columns: Floats) -> Floats:
    """One over the elements that count; 0 where none does."""
    counts: Floats = rows * columns
    with np.errstate(divide="ignore"):
        return np.where(counts == 0, 0.0, 1.0 / counts)


def _pooling(lowering: Lowering, layer: Layer) -> bool:
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


def _global_pooling(lowering: Lowering, layer: Layer) -> bool:
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


def _concat(lowering: Lowering, layer: Layer) -> bool:
    slots = [slot.source for slot in layer.inputs]
    layouts = {lowering.data_layout(slot) for slot in slots if slot is not None}
    descriptor = layer.descriptor
    if not isinstance(descriptor, Concat) or len(layouts) != 1 or None in slots or len(slots) > 32:
        return False
    layout = layouts.pop()
    if layout is None or descriptor.axis % 4 != layout.channel_axis % 4:
        return False
    image = Image.of(layer.output.known_info, layout)
    channels = tuple(Image.of(slot.known_info, layout).channels for slot in slots if slot is not None)
    join = Join(infos=(blocked_info(image, lowering.lanes),), image=image, channels=channels)
    made = lowering.emit(join, [lowering.blocked(slot, layout) for slot in slots if slot is not None], [layer])
    lowering.define(layer.output, made.output, "blocked", layout)
    return True


def _binary(lowering: Lowering, layer: Layer) -> bool:
    """Of blocked images: with one of the same size, or times a factor per channel."""
    descriptor = layer.descriptor
    a, b = layer.inputs[0].source, layer.inputs[1].source
    if not isinstance(descriptor, ElementwiseBinary) or a is None or b is None:
        return False
    function = function_of(descriptor.activation, descriptor.activation_alpha, descriptor.activation_beta)
    if function is None:
        return False
    output = layer.output
    if a.known_info.sizes == b.known_info.sizes:
        layout = lowering.data_layout(a) or lowering.data_layout(b)
        if layout is None or descriptor.operation not in COMBINED:
            return False
        source = lowering.blocked(a, layout)
        combine = Combine(infos=(source.known_info,), operation=descriptor.operation.value, function=function)
        made = lowering.emit(combine, [source, lowering.blocked(b, layout)], [layer])
        lowering.define(output, made.output, "blocked", layout)
        return True
    if descriptor.operation is not BinaryOperation.MUL:
        return False
    for x, factor in ((a, b), (b, a)):
        layout = lowering.data_layout(x)
        if layout is None or factor.known_info.rank != 4 or output.known_info.sizes != x.known_info.sizes:
            continue
        image, one = Image.of(x.known_info, layout), Image.of(factor.known_info, layout)
        if one.pixels != 1 or one.channels != image.channels or one.batch != image.batch:
            continue
        source = lowering.blocked(x, layout)
        scale = ScaleChannels(infos=(source.known_info,), image=image, function=function)
        made = lowering.emit(scale, [source, lowering.plain(factor)], [layer])
        lowering.define(output, made.output, "blocked", layout)
        return True
    return False


COMBINED = frozenset({BinaryOperation.ADD, BinaryOperation.SUB, BinaryOperation.MUL})


def _resize(lowering: Lowering, layer: Layer) -> bool:
    """Rows and columns, in the layout that is there."""
    descriptor, source, possible = layer.descriptor, layer.inputs[0].source, layouts(layer)
    if not isinstance(descriptor, Resize) or source is None or not possible:
        return False
    there = lowering.data_layout(source)
    if there is not None and there not in possible:
        return False
    layout = there or possible[0]
    image, target = Image.of(source.known_info, layout), Image.of(layer.output.known_info, layout)
    sizes, wanted, scales = source.known_info.sizes, layer.output.known_info.sizes, descriptor.axis_scales(source.known_info)
    rows, columns = (taps(descriptor, sizes[axis], wanted[axis], scales[axis]) for axis in layout.spatial_axes())
    resample = Resample(
        infos=(blocked_info(target, lowering.lanes),),
        source=image,
        rows=rows,
        columns=columns,
        interpolates=descriptor.method is not ResizeMethod.NEAREST,
    )
    made = lowering.emit(resample, [lowering.blocked(source, layout)], [layer])
    lowering.define(layer.output, made.output, "blocked", layout)
    return True


IMAGE_RULES: dict[str, Rule] = {
    Pooling2d.kind: _pooling,
    Resize.kind: _resize,
    GlobalPooling.kind: _global_pooling,
    Concat.kind: _concat,
    ElementwiseBinary.kind: _binary,
}
