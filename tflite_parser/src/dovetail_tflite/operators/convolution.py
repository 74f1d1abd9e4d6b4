"""Convolutions over images [N, H, W, C] and volumes [N, D, H, W, C]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from dovetail import Quantization
from dovetail.graph.layer import OutputSlot
from dovetail.graph.tensor import DataLayout
from dovetail.layers import (
    AutoPadding,
    Concat,
    Convolution2d,
    DepthwiseConvolution2d,
    Dequantize,
    FusedActivation,
    Pad,
    Permute,
    Reshape,
    StridedSlice,
    TransposeConvolution2d,
)

from ..call import BYTES, Call
from ..hybrid import rounded
from ..registry import operator
from ..unsupported import Unsupported

_IMAGE = (1, 2, 3)
"""Axes along which all elements are of one image."""


@operator("CONV_2D", newest=8)
def convolution(call: Call) -> OutputSlot:
    """Translate a convolution; filters that see fewer channels than there are make groups."""
    x, weights = call.input(0), call.input(1)
    channels, per_group = call.size_of(x, 3), call.size_of(weights, 3)
    if channels is None or not per_group or channels % per_group:
        raise Unsupported(f"filters see {per_group} of {channels} channels")
    groups = channels // per_group
    descriptor = _over_images(call, groups)
    scales = call.quantization_of(weights)
    x = rounded(call, x, weights, _IMAGE, asymmetric=groups > 1 or (scales is not None and len(set(scales.scale)) > 1))
    return add_product(call, descriptor, x, weights, call.optional(2), 0)


def _over_images(call: Call, groups: int = 1) -> Convolution2d:
    return Convolution2d(
        stride=call.pair("stride_h", "stride_w"),
        dilation=call.pair("dilation_h_factor", "dilation_w_factor"),
        auto_padding=call.auto_padding(),
        groups=groups,
        layout=DataLayout.NHWC,
        **call.fused(),
    )


@operator("DEPTHWISE_CONV_2D", newest=7)
def depthwise_convolution(call: Call) -> OutputSlot:
    """Translate a depthwise convolution; the multiplier follows from the sizes."""
    descriptor = DepthwiseConvolution2d(
        stride=call.pair("stride_h", "stride_w"),
        dilation=call.pair("dilation_h_factor", "dilation_w_factor"),
        auto_padding=call.auto_padding(),
        layout=DataLayout.NHWC,
        **call.fused(),
    )
    weights = call.input(1)
    x = rounded(call, call.input(0), weights, _IMAGE, asymmetric=True)
    return add_product(call, descriptor, x, weights, call.optional(2), 3)


# -- transposed ------------------------------------------------------------------------------------


@operator("TRANSPOSE_CONV", newest=5)
def transpose_convolution(call: Call) -> OutputSlot:
    """Translate a transposed convolution, whose first input is the shape of the result."""
    shape = _result_shape(call)
    if len(shape) != 4:
        raise call.malformed(f"has a result of shape {list(shape)}, expected four sizes")
    x, weights = call.input(2), call.input(1)
    descriptor = TransposeConvolution2d(
        stride=call.pair("stride_h", "stride_w"),
        auto_padding=call.auto_padding(),
        output_size=(shape[1], shape[2]),
        layout=DataLayout.NHWC,
        **call.fused(),
    )
    sizes, kernel = ([call.size_of(slot, axis) for axis in (1, 2)] for slot in (x, weights))
    if None not in (*sizes, *kernel):
        descriptor = _padded(call, descriptor, cast("list[int]", sizes), cast("list[int]", kernel))
    x = rounded(call, x, weights, _IMAGE, asymmetric=True)
    return add_product(call, descriptor, x, weights, call.optional(3), 0)


def _result_shape(call: Call) -> tuple[int, ...]:
    """Return the sizes of the result: those of the input, else those that the file states."""
    stated, found = call.outputs[0].shape, call.integers(0)
    if found is None and -1 in stated:
        raise Unsupported("the shape of the result is not a constant")
    return stated if found is None else found


def _padded(
    call: Call, descriptor: TransposeConvolution2d, sizes: Sequence[int], kernel: Sequence[int]
) -> TransposeConvolution2d:
    """Cut off what the convolution that makes the input of the result would pad it with.

    The result may have any size: what is then left over is cut off, or missing, at its end.
    """
    before, after, missing = [], [], []
    for size, window, step, wanted in zip(sizes, kernel, descriptor.stride, descriptor.output_size or (), strict=True):
        if step < 1:
            raise call.malformed(f"has stride {step}")
        same = descriptor.auto_padding is AutoPadding.SAME_UPPER
        first = max((-(-wanted // step) - 1) * step + window - wanted, 0) // 2 if same else 0
        left_over = (size - 1) * step + window - first - wanted
        before.append(first)
        after.append(max(left_over, 0))
        missing.append(max(-left_over, 0))
    return replace(
        descriptor,
        padding=(before[0], before[1], after[0], after[1]),
        output_padding=(missing[0], missing[1]),
        output_size=None,
        auto_padding=AutoPadding.EXPLICIT,
    )


# -- volumes ---------------------------------------------------------------------------------------


@operator("CONV_3D")
def convolution_3d(call: Call) -> OutputSlot:
    """Translate a convolution over volumes, with filters [d, h, w, C, O].

    The slices that a filter sees at a time lie behind each other as channels of one image.
    """
    x, weights = call.input(0), call.input(1)
    if call.rank_of(x) != 5 or call.rank_of(weights) != 5:
        raise call.malformed(f"has a volume of rank {call.rank_of(x)} and filters of rank {call.rank_of(weights)}")
    _, depth, height, width, channels = _known_sizes(call, x)
    taps, rows, columns, seen, filters = _known_sizes(call, weights)
    if seen != channels:
        raise call.malformed(f"has filters that see {seen} of {channels} channels")
    beside = _neighbours(call, x, depth, taps)
    images = call.add(Reshape(shape=(-1, height, width, taps * channels)), beside, part="images")
    behind = call.add(Permute(permutation=(4, 1, 2, 0, 3)), weights, part="filters")
    flat = call.add(Reshape(shape=(filters, rows, columns, taps * channels)), behind, part="weights")
    planes = call.add(_over_images(call), images, flat, call.optional(2), part="planes")
    result = (call.size_of(beside, 1) or 0, call.size_of(planes, 1) or 0, call.size_of(planes, 2) or 0, filters)
    return call.add(Reshape(shape=(-1, *result)), planes)


def _known_sizes(call: Call, slot: OutputSlot) -> list[int]:
    """Return all sizes but the first, which may be open and is then 0."""
    found = [call.size_of(slot, axis) for axis in range(call.rank_of(slot))]
    if None in found[1:]:
        raise Unsupported(f"the sizes of {slot.name!r} are not known before the open ones are fixed")
    return [size or 0 for size in found]


def _neighbours(call: Call, x: OutputSlot, depth: int, taps: int) -> OutputSlot:
    """Join, for each position of the filters along the depth, the slices that they see."""
    stride, dilation = call.option("stride_d"), call.option("dilation_d_factor")
    if min(stride, dilation, depth, taps) < 1:
        raise call.malformed(f"has stride {stride}, dilation {dilation}, depth {depth} and {taps} taps along it")
    reach = dilation * (taps - 1) + 1
    if call.auto_padding() is AutoPadding.SAME_UPPER:
        count = -(-depth // stride)
        total = max((count - 1) * stride + reach - depth, 0)
        pad = Pad(before=(0, total // 2, 0, 0, 0), after=(0, total - total // 2, 0, 0, 0))
        x = call.add(pad, x, part="padded")
    else:
        count = (depth - reach) // stride + 1
    if count < 1:
        raise call.malformed(f"has filters that reach over {reach} of {depth} slices")
    seen = []
    for tap in range(taps):
        first = tap * dilation
        end = first + (count - 1) * stride + 1
        seen.append(call.add(StridedSlice(begin=(first,), end=(end,), axes=(1,), stride=(stride,)), x, part=f"tap{tap}"))
    return call.add(Concat(axis=4), *seen, part="neighbours")


# -- any product with weights ----------------------------------------------------------------------


def add_product(
    call: Call, descriptor: FusedActivation, x: OutputSlot, weights: OutputSlot, bias: OutputSlot | None, axis: int
) -> OutputSlot:
    """Add a layer that multiplies by weights.

    Bytes are multiplied as integers. Other quantized tensors stand for the real numbers that are
    multiplied: words of 16 bits, and quantized weights of floats (which TensorFlow Lite calls
    hybrid).

    Args:
        call: The operator.
        descriptor: The layer.
        x: Its input.
        weights: Its weights.
        bias: Its bias; integers are multiples of the scale of the input times that of the weights.
        axis: Along which the weights may have a scale each.
    """
    ours, theirs = call.quantization_of(x), call.quantization_of(weights)
    along = theirs is not None and theirs.axis in (None, axis)
    if along and call.are_bytes(x) and call.is_fixed(descriptor) and call.dtype_of(weights) in BYTES:
        return call.add(descriptor, x, weights, bias)
    if bias is not None and call.dtype_of(bias).is_integer:
        if ours is None or theirs is None:
            raise call.malformed("has an integer bias, but its input or its weights are not quantized")
        scale = tuple(ours.scale[0] * one for one in theirs.scale)
        quantization = Quantization(scale, (0,) * len(scale), 0 if len(scale) > 1 else None)
        bias = call.network.add(Dequantize(quantization=quantization), bias, name=call.label("bias")).output
    return call.add_real(descriptor, x, weights, bias)
