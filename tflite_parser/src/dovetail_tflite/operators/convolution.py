"""Convolutions over images [N, H, W, C] and volumes [N, D, H, W, C]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from dovetail import DType, Quantization
from dovetail.graph.layer import OutputSlot
from dovetail.graph.tensor import DataLayout
from dovetail.layers import (
    AutoPadding,
    BinaryOperation,
    Concat,
    Convolution2d,
    DepthwiseConvolution2d,
    Dequantize,
    ElementwiseBinary,
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
from ..words import are_words

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
    how = call.quantization_of(weights)
    differ = how is not None and any(one != how.scale[0] for one in how.scale)
    x = rounded(call, x, weights, _IMAGE, asymmetric=groups > 1 or differ)
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
        first = _before(wanted, step, window, same=same)
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


def _before(wanted: int, step: int, window: int, *, same: bool) -> int:
    """Return what is cut off before the result of a transposed convolution along an axis."""
    return max((-(-wanted // step) - 1) * step + window - wanted, 0) // 2 if same else 0


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


@operator("CONV_3D_TRANSPOSE")
def transpose_convolution_3d(call: Call) -> OutputSlot:
    """Translate a transposed convolution over volumes, with filters [d, h, w, O, C].

    Each slice becomes as many images as filters have slices; these are laid where they belong
    along the depth, and added up.
    """
    shape, x, weights = _result_shape(call), call.input(2), call.input(1)
    if len(shape) != 5 or call.rank_of(x) != 5 or call.rank_of(weights) != 5:
        raise call.malformed("has no volumes of five axes")
    _, depth, height, width, channels = _known_sizes(call, x)
    taps, rows, columns, filters, seen = [call.size_of(weights, axis) or 0 for axis in range(5)]
    steps, gaps = ([call.option(f"{name}_{axis}{end}") for axis in "dhw"] for name, end in _STEPS_AND_GAPS)
    if seen != channels or min(*steps, *gaps, taps, rows, columns, filters) < 1:
        raise call.malformed(f"has filters that see {seen} of {channels} channels, strides {steps}, dilations {gaps}")
    _check_taps(taps)
    same = call.auto_padding()
    flat = TransposeConvolution2d(
        stride=(steps[1], steps[2]),
        dilation=(gaps[1], gaps[2]),
        auto_padding=same,
        output_size=(shape[2], shape[3]),
        layout=DataLayout.NHWC,
    )
    flat = _padded(call, flat, (height, width), (gaps[1] * (rows - 1) + 1, gaps[2] * (columns - 1) + 1))
    images = call.add(Reshape(shape=(-1, height, width, channels)), x, part="images")
    behind = call.add(Permute(permutation=(0, 3, 1, 2, 4)), weights, part="filters")
    laid = call.add(Reshape(shape=(taps * filters, rows, columns, channels)), behind, part="weights")
    planes = call.add(flat, images, laid, part="planes")
    apart = call.add(Reshape(shape=(-1, depth, shape[2] * shape[3], taps, filters)), planes, part="apart")
    first = _before(shape[1], steps[0], gaps[0] * (taps - 1) + 1, same=same is AutoPadding.SAME_UPPER)
    result = _added_along_depth(call, apart, depth, steps[0], gaps[0], taps)
    result = _cut(call, result, first, shape[1], depth * steps[0] + gaps[0] * (taps - 1))
    bias, volume = call.optional(3), Reshape(shape=(-1, *shape[1:4], filters))
    if bias is None:
        return call.activated(call.add(volume, result))
    result = call.add(volume, result, part="volume")
    return call.activated(call.add(ElementwiseBinary(operation=BinaryOperation.ADD), result, bias))


_MOST_TAPS = 1000
"""Slices of a filter, each of which becomes layers of its own."""


def _check_taps(taps: int) -> None:
    if taps > _MOST_TAPS:
        raise Unsupported(f"its filters have {taps} slices")


_STEPS_AND_GAPS = (("stride", ""), ("dilation", "_factor"))
"""How options of the three axes begin and end."""


def _added_along_depth(call: Call, apart: OutputSlot, depth: int, step: int, gap: int, taps: int) -> OutputSlot:
    """Lay the slices [N, depth, pixels, tap, O] of each tap where they belong, and add these up."""
    pixels, filters = call.size_of(apart, 2), call.size_of(apart, 4)
    total = None
    for tap in range(taps):
        slices = call.add(StridedSlice(begin=(tap,), end=(tap + 1,), axes=(3,), stride=(1,)), apart, part=f"tap{tap}")
        if step > 1:
            slices = call.add(Pad(before=(0, 0, 0, 0, 0), after=(0, 0, 0, step - 1, 0)), slices, part=f"spread{tap}")
        # The zeros behind a slice stand for those that the stride steps over.
        order = call.add(Permute(permutation=(0, 1, 3, 2, 4)), slices, part=f"order{tap}")
        line = call.add(Reshape(shape=(-1, depth * step, pixels or 0, filters or 0)), order, part=f"line{tap}")
        place = Pad(before=(0, tap * gap, 0, 0), after=(0, (taps - 1 - tap) * gap, 0, 0))
        line = call.add(place, line, part=f"placed{tap}")
        added = ElementwiseBinary(operation=BinaryOperation.ADD)
        total = line if total is None else call.add(added, total, line, part=f"sum{tap}")
    assert total is not None  # there is a tap
    return total


def _cut(call: Call, line: OutputSlot, first: int, wanted: int, there: int) -> OutputSlot:
    """Take so many slices from the first one on; what is not there is zero."""
    missing = first + wanted - there
    if missing > 0:
        line = call.add(Pad(before=(0, 0, 0, 0), after=(0, missing, 0, 0)), line, part="longer")
    return call.add(StridedSlice(begin=(first,), end=(first + wanted,), axes=(1,), stride=(1,)), line, part="cut")


def _known_sizes(call: Call, slot: OutputSlot) -> list[int]:
    """Return all sizes but the first, which may be open and is then 0."""
    found = [call.size_of(slot, axis) for axis in range(call.rank_of(slot))]
    if None in found[1:]:
        raise Unsupported(f"the sizes of {slot.name!r} are not known before the open ones are fixed")
    return [size or 0 for size in found]


def _neighbours(call: Call, x: OutputSlot, depth: int, taps: int) -> OutputSlot:
    """Join, for each position of the filters along the depth, the slices that they see."""
    _check_taps(taps)
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


def _has_words(call: Call, weights: OutputSlot, bias: OutputSlot | None) -> bool:
    """Tell whether words of 16 bits are multiplied by these weights as integers."""
    of_sums = bias is None or call.dtype_of(bias) in (DType.INT32, DType.INT64)
    return of_sums and call.dtype_of(weights) is DType.INT8


# -- any product with weights ----------------------------------------------------------------------


def add_product(
    call: Call, descriptor: FusedActivation, x: OutputSlot, weights: OutputSlot, bias: OutputSlot | None, axis: int
) -> OutputSlot:
    """Add a layer that multiplies by weights.

    Bytes are multiplied as integers, and so are words of 16 bits by bytes. Other quantized tensors
    stand for the real numbers that are multiplied, such as quantized weights of floats (which
    TensorFlow Lite calls hybrid).

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
    if along and are_words(call, x) and call.is_fixed(descriptor) and _has_words(call, weights, bias):
        return call.add(descriptor, x, weights, bias)
    if bias is not None and call.dtype_of(bias).is_integer:
        if ours is None or theirs is None:
            raise call.malformed("has an integer bias, but its input or its weights are not quantized")
        scale = tuple(ours.scale[0] * one for one in theirs.scale)
        quantization = Quantization(scale, (0,) * len(scale), 0 if len(scale) > 1 else None)
        bias = call.network.add(Dequantize(quantization=quantization), bias, name=call.label("bias")).output
    return call.add_real(descriptor, x, weights, bias)
