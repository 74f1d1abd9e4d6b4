"""Shapes, and operators that keep, repeat or reorder the elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from dovetail import DType
from dovetail.graph.layer import OutputSlot
from dovetail.graph.tensor import DataLayout
from dovetail.layers import (
    BinaryOperation,
    BroadcastTo,
    Cast,
    Comparison,
    ComparisonOperation,
    Concat,
    DepthToSpace,
    ElementwiseBinary,
    ExpandDims,
    Pad,
    Permute,
    Reshape,
    Shape,
    SpaceToDepth,
    Squeeze,
    StridedSlice,
    Tile,
    Where,
)

from ..call import Call
from ..registry import operator
from ..slicing import TO_THE_END
from ..unsupported import Unsupported

_SIZES = (DType.INT32, DType.INT64)
_Margins: TypeAlias = "list[tuple[int, int]]"
_Size: TypeAlias = "int | OutputSlot"
"""A size, or where it is known later, as a vector of one element."""


@operator("RESHAPE")
def reshape(call: Call) -> OutputSlot:
    """Translate a reshape to a shape that is an input, or, in older files, an option."""
    x, shape = call.input(0), call.optional(1)
    if shape is not None and call.rank_of(shape) == 1:
        sizes = call.integers(1)
        return call.add(Reshape(), x, shape) if sizes is None else call.add(Reshape(shape=_worked_out(call, sizes)), x)
    if not call.has_options():
        raise call.malformed("does not say a shape")
    sizes = call.option_vector("new_shape")
    return call.add(Reshape(shape=() if sizes == (0,) else _worked_out(call, sizes)), x)


def _worked_out(call: Call, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Fill in -1 beside 0, where TensorFlow Lite compares the sizes that are not zero."""
    if 0 not in sizes or sizes.count(-1) != 1:
        return sizes
    x = call.input(0)
    known = [call.size_of(x, axis) for axis in range(call.rank_of(x))]
    if None in known:
        raise Unsupported(f"the shape {list(sizes)} of a tensor whose sizes are open")
    rest = math.prod(size for size in sizes if size not in (0, -1))
    filled = math.prod(size for size in known if size) // rest
    return tuple(filled if size == -1 else size for size in sizes)


@operator("SQUEEZE", newest=2)
def squeeze(call: Call) -> OutputSlot:
    """Translate the removal of axes of size one; an axis may be named twice."""
    x, axes = call.input(0), call.option_vector("squeeze_dims")
    if not axes:
        return call.add(Squeeze(), x)
    rank = call.rank_of(x)
    once = dict.fromkeys(axis + rank if axis < 0 else axis for axis in axes)
    return call.add(Squeeze(axes=tuple(once)), x)


@operator("EXPAND_DIMS")
def expand_dims(call: Call) -> OutputSlot:
    """Translate the insertion of an axis."""
    axes = call.integers(1)
    if axes is None:
        return call.add(ExpandDims(), call.input(0), call.input(1))
    if len(axes) != 1:
        raise call.malformed(f"inserts the axes {list(axes)}, expected one")
    return call.add(ExpandDims(axes=axes), call.input(0))


@operator("TRANSPOSE", newest=9)
def transpose(call: Call) -> OutputSlot:
    """Translate a permutation of the axes."""
    return call.add(Permute(permutation=call.known_integers(1, "the permutation")), call.input(0))


@operator("SHAPE")
def shape(call: Call) -> OutputSlot:
    """Translate the sizes of a tensor."""
    dtype = call.outputs[0].dtype
    if dtype not in _SIZES:
        raise call.malformed(f"gives sizes as {dtype}")
    if dtype is DType.INT64:
        return call.add(Shape(), call.input(0))
    return call.add(Cast(dtype=dtype), call.add(Shape(), call.input(0), part="sizes"))


@operator("RANK")
def rank(call: Call) -> OutputSlot:
    """Translate the number of axes, which every file states."""
    return call.network.constant(np.asarray(call.rank_of(call.input(0)), np.int32), call.label())


@operator("BROADCAST_TO", newest=4)
def broadcast_to(call: Call) -> OutputSlot:
    """Translate repetition along axes of size one."""
    x, sizes = call.input(0), call.integers(1)
    if sizes is None:
        return call.add(BroadcastTo(), x, call.input(1))
    axes = call.rank_of(x)
    own = [call.size_of(x, axis) for axis in range(axes)]
    aligned = sizes[len(sizes) - axes :]
    # The kind lets both sides grow; here the shape is that of the result.
    if len(sizes) < axes or any(a not in (None, 1, b) for a, b in zip(own, aligned, strict=True)):
        raise call.malformed(f"broadcasts {own} to {list(sizes)}")
    return call.add(BroadcastTo(shape=sizes), x)


@operator("BROADCAST_ARGS")
def broadcast_args(call: Call) -> OutputSlot:
    """Translate the shape that two shapes broadcast to: where one says 1, the other decides."""
    a, b = call.input(0), call.input(1)
    lengths = [call.size_of(slot, 0) for slot in (a, b)]
    if any(call.rank_of(slot) != 1 for slot in (a, b)):
        raise call.malformed("reads shapes that are not of rank 1")
    if lengths[0] is None or lengths[1] is None:
        raise Unsupported("the length of a shape is open")
    known = [call.integers(index) for index in (0, 1)]
    if known[0] is not None and known[1] is not None:
        pairs = zip(reversed(known[0]), reversed(known[1]), strict=False)
        if any(one != other and 1 not in (one, other) for one, other in pairs):
            raise call.malformed(f"reads {list(known[0])} and {list(known[1])}, which do not broadcast")
    longest = max(lengths[0], lengths[1])
    a, b = (_with_ones(call, slot, longest - length) for slot, length in ((a, lengths[0]), (b, lengths[1])))
    equal = Comparison(operation=ComparisonOperation.EQUAL)
    is_one = call.add(equal, a, call.scalar(1, a, "one"), part="is_one")
    return call.add(Where(), is_one, b, a)


def _with_ones(call: Call, sizes: OutputSlot, count: int) -> OutputSlot:
    return call.add(Pad(before=(count,), after=(0,), value=1), sizes, part="aligned") if count else sizes


@operator("TILE", newest=3)
def tile(call: Call) -> OutputSlot:
    """Translate repetition of the whole tensor."""
    repeats = call.integers(1)
    if repeats is None:
        return call.add(Tile(), call.input(0), call.input(1))
    return call.add(Tile(repeats=repeats), call.input(0))


@operator("SPACE_TO_DEPTH", newest=2)
def space_to_depth(call: Call) -> OutputSlot:
    """Translate blocks of pixels to channels."""
    return call.add(SpaceToDepth(block=call.option("block_size"), layout=DataLayout.NHWC), call.input(0))


@operator("DEPTH_TO_SPACE", newest=2)
def depth_to_space(call: Call) -> OutputSlot:
    """Translate channels to blocks of pixels."""
    return call.add(DepthToSpace(block=call.option("block_size"), layout=DataLayout.NHWC), call.input(0))


@operator("SPACE_TO_BATCH_ND", newest=4)
def space_to_batch(call: Call) -> OutputSlot:
    """Translate blocks of pixels to the batch: image (dy * width + dx) * N + n has their pixel."""
    x = call.input(0)
    block, margins = _blocks(call, "paddings")
    if any(any(pair) for pair in margins):
        quantization = call.quantization_of(x)
        zero = 0 if quantization is None else quantization.zero_point[0]
        unpadded = [(0, 0)] * (call.rank_of(x) - 1 - len(block))
        before, after = zip((0, 0), *margins, *unpadded, strict=True)
        x = call.add(Pad(before=before, after=after, value=zero), x, part="padded")
    batch, space, rest = _sizes(call, x, len(block))
    if any(isinstance(size, int) and size % step for size, step in zip(space, block, strict=True)):
        raise call.malformed(f"parts {space} pixels into blocks of {list(block)}")
    outer = [_scaled(call, size, BinaryOperation.DIV, step) for size, step in zip(space, block, strict=True)]
    apart = [size for pair in zip(outer, block, strict=True) for size in pair]
    x = _reshaped(call, x, (batch, *apart, *rest), "blocks")
    axes = range(1, 1 + len(apart))
    x = call.add(Permute(permutation=(*axes[1::2], 0, *axes[::2], *_behind(apart, rest))), x, part="images")
    return _reshaped(call, x, (batch if batch < 0 else batch * math.prod(block), *outer, *rest))


@operator("BATCH_TO_SPACE_ND", newest=4)
def batch_to_space(call: Call) -> OutputSlot:
    """Translate the inverse of SPACE_TO_BATCH_ND."""
    x = call.input(0)
    block, crops = _blocks(call, "crops")
    batch, space, rest = _sizes(call, x, len(block))
    if batch >= 0 and batch % math.prod(block):
        raise call.malformed(f"makes blocks of {list(block)} from a batch of {batch}")
    batch = batch // math.prod(block) if batch >= 0 else batch
    joined = [_scaled(call, size, BinaryOperation.MUL, step) for size, step in zip(space, block, strict=True)]
    if any(isinstance(size, int) and size < sum(pair) for size, pair in zip(joined, crops, strict=True)):
        raise call.malformed(f"crops {crops} from {joined} pixels")
    x = _reshaped(call, x, (*block, batch, *space, *rest), "images")
    count = len(block)
    apart = [axis for pair in zip(range(count + 1, 2 * count + 1), range(count), strict=True) for axis in pair]
    x = call.add(Permute(permutation=(count, *apart, *_behind(apart, rest))), x, part="blocks")
    if not any(any(pair) for pair in crops):
        return _reshaped(call, x, (batch, *joined, *rest))
    x = _reshaped(call, x, (batch, *joined, *rest), "whole")
    begin, end = (first for first, _ in crops), (-last if last else TO_THE_END for _, last in crops)
    return call.add(StridedSlice(begin=tuple(begin), end=tuple(end), axes=tuple(range(1, 1 + count))), x)


def _behind(apart: Sequence[object], rest: Sequence[object]) -> range:
    """Return the axes behind the batch and those in `apart`."""
    return range(1 + len(apart), 1 + len(apart) + len(rest))


def _blocks(call: Call, name: str) -> tuple[tuple[int, ...], _Margins]:
    """Return the block and what is added or removed around each of its axes."""
    block = call.known_integers(1, "the shape of a block")
    margins = call.known_integers(2, name)
    fits = 1 <= len(block) < call.rank_of(call.input(0)) and len(margins) == 2 * len(block)
    if not fits or min(block) < 1 or min(margins) < 0:
        raise call.malformed(f"has blocks of {list(block)} with {name} {list(margins)}")
    return block, list(zip(margins[::2], margins[1::2], strict=True))


def _sizes(call: Call, x: OutputSlot, axes: int) -> tuple[int, list[_Size], list[_Size]]:
    """Return the size of the batch, -1 if that is open, those that are parted, and the others."""
    batch, *others = (call.size_of(x, axis) for axis in range(call.rank_of(x)))
    sizes = [
        call.add(Shape(start=axis, end=axis + 1), x, part=f"size{axis}") if size is None else size
        for axis, size in enumerate(others, 1)
    ]
    return -1 if batch is None else batch, sizes[:axes], sizes[axes:]


def _scaled(call: Call, size: _Size, operation: BinaryOperation, step: int) -> _Size:
    if isinstance(size, int):
        return size // step if operation is BinaryOperation.DIV else size * step
    factor = call.network.constant(np.asarray([step], np.int64), call.label("step"))
    return call.add(ElementwiseBinary(operation=operation), size, factor, part="scaled")


def _reshaped(call: Call, x: OutputSlot, sizes: Sequence[_Size], part: str = "") -> OutputSlot:
    """Reshape to sizes of which some may be known later."""
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) == len(sizes):
        return call.add(Reshape(shape=tuple(known)), x, part=part)
    each = [
        call.network.constant(np.asarray([size], np.int64), call.label("size")) if isinstance(size, int) else size
        for size in sizes
    ]
    return call.add(Reshape(), x, call.add(Concat(), *each, part="shape"), part=part)
