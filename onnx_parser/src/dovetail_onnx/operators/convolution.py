"""Convolutions over images and sequences."""

from __future__ import annotations

from functools import partial

from dovetail import Constant, Descriptor
from dovetail.graph.layer import OutputSlot
from dovetail.layers import AutoPadding, Convolution2d, DepthwiseConvolution2d, TransposeConvolution2d

from ..node import Node
from ..registry import builtin
from ..tensors import made_of
from ..unsupported import Unsupported
from .windows import Window, as_image, as_sequence, image_label, image_pair, read_window


@builtin("Conv")
def convolution(node: Node) -> OutputSlot:
    """Translate a convolution; one whose filters see one channel each is a depthwise one."""
    return convolve(node, node.input(0), node.input(1), node.optional(2))


def convolve(node: Node, x: OutputSlot, weights: OutputSlot, bias: OutputSlot | None, part: str = "") -> OutputSlot:
    """Add the convolution that the attributes of a node describe."""
    window = read_window(node, _spatial_axes(node, x, weights))
    groups = node.integer("group", 1)
    depthwise = groups > 1 and node.size_of(weights, 1) == 1
    descriptor: Descriptor = (DepthwiseConvolution2d if depthwise else partial(Convolution2d, groups=groups))(
        stride=window.stride, padding=window.padding, dilation=window.dilation, auto_padding=window.auto_padding
    )
    return _add(node, descriptor, window, x, weights, bias, part)


@builtin("ConvTranspose")
def transpose_convolution(node: Node) -> OutputSlot:
    """Translate a transposed convolution."""
    x, weights = node.input(0), node.input(1)
    axes = _spatial_axes(node, x, weights)
    window = read_window(node, axes)
    auto_padding, size = window.auto_padding, None
    if node.has("output_shape"):
        # Some exporters give the whole shape, batch and channels included.
        size = image_pair(node.integers("output_shape")[-axes:], 1)
        # The specification puts the odd element first unless SAME_UPPER is asked for.
        auto_padding = AutoPadding.SAME_LOWER if auto_padding is AutoPadding.EXPLICIT else auto_padding
    descriptor = TransposeConvolution2d(
        stride=window.stride,
        padding=window.padding,
        dilation=window.dilation,
        auto_padding=auto_padding,
        output_padding=image_pair(node.integers("output_padding", (0,) * axes), 0),
        groups=node.integer("group", 1),
        output_size=size,
    )
    return _add(node, descriptor, window, x, weights, node.optional(2), "")


def _spatial_axes(node: Node, x: OutputSlot, weights: OutputSlot) -> int:
    rank = node.rank_of(weights) or node.rank_of(x)
    if rank is None:
        if not node.has("kernel_shape"):
            raise Unsupported("the number of spatial axes is not known while parsing", attribute="kernel_shape")
        return len(node.integers("kernel_shape"))
    kernel = node.integers("kernel_shape") if node.has("kernel_shape") else None
    if kernel is not None and weights.info is not None and weights.info.is_concrete and weights.info.sizes[2:] != kernel:
        raise node.malformed(f"has kernel_shape {list(kernel)}, but weights of shape {weights.info.shape_text}")
    return rank - 2


def _add(
    node: Node, descriptor: Descriptor, window: Window, x: OutputSlot, weights: OutputSlot, bias: OutputSlot | None, part: str
) -> OutputSlot:
    flat = window.flat
    image = as_image(node, x, flat)
    y = node.network.add(descriptor, image, _filters(node, weights, flat), bias, name=image_label(node, flat, part)).output
    return as_sequence(node, y, flat, part)


def _filters(node: Node, weights: OutputSlot, flat: bool) -> OutputSlot:
    if not flat or not isinstance(weights.layer.descriptor, Constant):
        return as_image(node, weights, flat, "weights")
    sizes = weights.known_info.sizes
    shape = (*sizes[:2], 1, *sizes[2:])
    value = made_of(weights, shape, lambda value: value.reshape(shape))
    return node.network.constant(value, node.label("weights"), dtype=weights.dtype)
