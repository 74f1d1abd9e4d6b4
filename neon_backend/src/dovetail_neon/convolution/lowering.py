"""What convolutions become."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from dovetail import DataLayout, PrivateLayer, TensorInfo
from dovetail.graph.layer import OutputSlot
from dovetail.ground.pieces import in_order
from dovetail.layers import (
    Convolution2d,
    DepthwiseConvolution2d,
)

from ..arrays import Floats, Whole
from ..convolution.algorithms import winograd_tile
from ..fusion.chains import Chain
from ..fusion.lowering import Lowering
from ..geometry.clipping import clipped
from ..geometry.layouts import Image, blocked_info, plain_info
from ..geometry.window import POINT, Geometry
from ..movement.kinds import Frame
from ..windows.depthwise import lower_depthwise
from .algorithms import allows_winograd, tile_vectors
from .grouped import lower_grouped
from .kinds import Convolve, WinogradConvolve

Way = Callable[[Lowering, Chain, Convolve, OutputSlot, DataLayout], bool]
Filters = TypeVar("Filters", Floats, Whole)

FRAME_GROWTH, FRAME_PIXELS = 4, 1 << 16
"""How many times as large as an image it may be with its padding, and besides."""


def window_of(
    descriptor: Convolution2d | DepthwiseConvolution2d, weights: Filters, image: Image, target: Image
) -> tuple[Geometry, Filters]:
    """Return the geometry of a result's window, and its filters.

    The filters are [filters, taps, channels of a group].
    """
    kernel = descriptor.kernel_size(TensorInfo.of_array(weights))
    whole = Geometry(kernel, descriptor.stride, descriptor.dilation, descriptor.padding[:2])
    window = clipped(whole, (image.height, image.width), (target.height, target.width))
    if window.geometry.kernel != kernel:
        last = descriptor.layout is DataLayout.NHWC
        weights = weights[:, window.rows, window.columns] if last else weights[:, :, window.rows, window.columns]
    return window.geometry, weights_of(descriptor, weights)


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


def lower_convolution(lowering: Lowering, chain: Chain) -> None:
    """A convolution with what follows it."""
    descriptor = chain.root.descriptor
    if not isinstance(descriptor, Convolution2d | DepthwiseConvolution2d):
        raise TypeError(f"{chain.root.name!r} is no convolution")
    source = chain.root.inputs[0].source
    value = chain.root.constant(1)
    if source is None or value is None:
        raise ValueError(f"{chain.root.name!r} has no input or no weights")
    layout, lanes = descriptor.layout, lowering.lanes
    image, target = Image.of(source.known_info, layout), Image.of(chain.output.known_info, layout)
    geometry, weights = window_of(descriptor, value, image, target)
    depthwise = isinstance(descriptor, DepthwiseConvolution2d)
    groups = image.channels if depthwise else descriptor.groups  # type: ignore[union-attr]  # of a Convolution2d

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
    for way in WAYS:
        if way(lowering, chain, convolve, source, layout):
            return
    raise AssertionError("the last way takes every convolution")


def fastest(convolve: Convolve, lanes: int) -> PrivateLayer:
    """The same convolution by Winograd convolution, where that is faster."""
    point = (1, 1)
    if convolve.geometry[:3] != ((3, 3), point, point) or convolve.groups > 1 or convolve.run > 1:
        return convolve
    tile = winograd_tile(convolve.source, convolve.target, lanes)
    if not tile or not allows_winograd(convolve.weights):
        return convolve
    return WinogradConvolve(**convolve.as_filters(), tile=tile)


def _lower_few_channels(lowering: Lowering, chain: Chain, convolve: Convolve, source: OutputSlot, layout: DataLayout) -> bool:
    """Lower a convolution of few channels: a row of the window is a run of elements.

    With the padding in place, the run lies in each plane or is of all channels.
    """
    geometry = convolve.geometry
    if convolve.source.channels >= lowering.lanes or geometry.dilation != (1, 1) or geometry.kernel[1] == 1:
        return False
    image, framed = convolve.source, _frame_of(convolve)
    if lowering.data_layout(source) is not None or framed.pixels > FRAME_GROWTH * image.pixels + FRAME_PIXELS:
        return False
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
    over_frame = replace(convolve, weights=weights, source=framed, geometry=geometry, run=columns, channels_last=last)
    _emit_blocked(lowering, chain, over_frame, made, layout)
    return True


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


def _lower_pixels(lowering: Lowering, chain: Chain, convolve: Convolve, source: OutputSlot, layout: DataLayout) -> bool:
    """Images of one pixel are the rows of a matrix, and lie alike in every plain layout."""
    image, target = convolve.source, convolve.target
    if not image.pixels == target.pixels == 1 or convolve.geometry != POINT:
        return False
    inputs = [lowering.plain(source)] + ([] if chain.adds is None else [lowering.plain(chain.adds)])
    descriptor = replace(
        convolve,
        infos=(plain_info(chain.output.known_info.sizes),),
        source=Image(1, image.channels, image.batch, 1),
        target=Image(1, target.channels, image.batch, 1),
        geometry=POINT,
    )
    lowering.define(chain.output, lowering.emit(descriptor, inputs, chain.layers).output)
    return True


def _lower_blocked(lowering: Lowering, chain: Chain, convolve: Convolve, source: OutputSlot, layout: DataLayout) -> bool:
    """Images in blocks of channels."""
    _emit_blocked(lowering, chain, convolve, lowering.blocked(source, layout), layout)
    return True


def _emit_blocked(lowering: Lowering, chain: Chain, convolve: Convolve, x: OutputSlot, layout: DataLayout) -> None:
    """Add what makes an image in blocks, by the algorithm that is fastest."""
    inputs = [x] if chain.adds is None else [x, lowering.blocked(chain.adds, layout)]
    made = lowering.emit(fastest(convolve, lowering.lanes), inputs, chain.layers)
    lowering.define(chain.output, made.output, "blocked", layout)


WAYS: tuple[Way, ...] = (lower_depthwise, lower_grouped, _lower_pixels, _lower_few_channels, _lower_blocked)
"""How a convolution may be lowered: the first way that takes it does so."""
