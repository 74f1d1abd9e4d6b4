"""Operators that pick, replace or reverse elements by position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import DType
from dovetail.graph.layer import OutputSlot
from dovetail.layers import (
    BinaryOperation,
    Cast,
    Comparison,
    ComparisonOperation,
    Concat,
    Dequantize,
    ElementwiseBinary,
    ExpandDims,
    Fill,
    Gather,
    GatherNd,
    Permute,
    Range,
    Reshape,
    ScatterNd,
    ScatterReduction,
    Shape,
    StridedSlice,
    Where,
)

from ..call import Call
from ..registry import operator
from ..slicing import TO_THE_END, strided_slice_of
from ..unsupported import Unsupported

_INDICES = (DType.INT32, DType.INT64)


@operator("GATHER", newest=8)
def gather(call: Call) -> OutputSlot:
    """Translate picking slices along an axis."""
    positions, has_options = _positions(call, 1), call.has_options()
    axis, batch_dims = (call.option(name) if has_options else 0 for name in ("axis", "batch_dims"))
    if batch_dims < 0:
        batch_dims += call.rank_of(positions)
    return call.add(Gather(axis=axis, batch_dims=batch_dims), call.input(0), positions)


@operator("GATHER_ND", newest=6)
def gather_nd(call: Call) -> OutputSlot:
    """Translate picking slices by positions over several axes."""
    return call.add(GatherNd(), call.input(0), _positions(call, 1))


@operator("EMBEDDING_LOOKUP", newest=5)
def embedding_lookup(call: Call) -> OutputSlot:
    """Translate picking rows of a table, which may be quantized while the result is not."""
    rows, table = _positions(call, 0), call.input(1)
    quantization, dtype = call.quantization_of(table), call.outputs[0].dtype
    if quantization is None or not dtype.is_float:
        return call.add(Gather(), table, rows)
    numbers = Dequantize(quantization=quantization, dtype=dtype)
    if quantization.axis is None:
        return call.add(numbers, call.add(Gather(), table, rows, part="rows"))
    return call.add(Gather(), call.add(numbers, table, part="table"), rows)


@operator("SCATTER_ND")
def scatter_nd(call: Call) -> OutputSlot:
    """Translate adding updates to zeros by positions over several axes."""
    positions, updates = _positions(call, 0), call.input(1)
    sizes, dtype = call.integers(2), call.dtype_of(updates)
    quantization = call.quantization_of(updates)
    reduction = ScatterReduction.MAX if dtype is DType.BOOL else ScatterReduction.ADD
    if quantization is not None:
        # TensorFlow Lite adds the integers themselves, whatever zero is among them.
        if not _differ(call.value_of(positions)):
            raise Unsupported("it may add quantized numbers to each other")
        reduction = ScatterReduction.NONE
    zeros = call.network.add(
        Fill(value=0, dtype=dtype, shape=sizes or ()),
        *([call.input(2)] if sizes is None else []),
        name=call.label("zeros"),
        quantization=quantization,
    )
    return call.add(ScatterNd(reduction=reduction), zeros.output, positions, updates)


def _differ(positions: npt.NDArray[Any] | None) -> bool:
    """Tell whether positions are known, and none is there twice."""
    if positions is None or positions.ndim == 0:
        return False
    rows = positions.reshape(-1, positions.shape[-1])
    return len(np.unique(rows, axis=0)) == len(rows)


@operator("SEGMENT_SUM")
def segment_sum(call: Call) -> OutputSlot:
    """Translate sums over neighbouring slices; how many there are follows from constant numbers."""
    x, segments = call.input(0), call.known_integers(1, "the number of a segment")
    steps = np.diff(segments, prepend=0)
    if call.size_of(x, 0) not in (None, len(segments)) or ((steps < 0) | (steps > 1)).any():
        raise call.malformed(f"sums {call.size_of(x, 0)} slices to the segments {list(segments[:16])}")
    if segments and segments[0]:
        raise call.malformed(f"begins with segment {segments[0]}")
    count = segments[-1] + 1 if segments else 0
    rest = call.add(Shape(start=1), x, part="rest")
    first = call.network.constant(np.asarray([count], np.int64), call.label("segments"))
    sizes = call.add(Concat(), first, rest, part="sizes")
    zeros = call.add(Fill(value=0, dtype=call.dtype_of(x)), sizes, part="zeros")
    places = call.network.constant(np.asarray(segments, np.int64).reshape(-1, 1), call.label("places"))
    return call.add(ScatterNd(reduction=ScatterReduction.ADD), zeros, places, x)


@operator("SLICE", newest=8)
def cut(call: Call) -> OutputSlot:
    """Translate a slice that is told by its begin and its size; a size of -1 goes to the end."""
    x, begin, sizes = call.input(0), call.integers(1), call.integers(2)
    rank = call.rank_of(x)
    if any(call.size_of(call.input(index), 0) != rank for index in (1, 2)):
        raise call.malformed(f"has not one begin and one size for each of {rank} axes")
    if min(begin or (), default=0) < 0 or min(sizes or (), default=0) < -1:
        raise call.malformed(f"cuts {sizes} elements from {begin}")
    if begin is None or sizes is None:
        return _cut_by_values(call)
    for axis, (first, count) in enumerate(zip(begin, sizes, strict=True)):
        whole = call.size_of(x, axis)
        if whole is not None and first + max(count, 0) > whole:
            raise call.malformed(f"cuts {count} elements from {first} out of {whole} of axis {axis}")
    end = tuple(TO_THE_END if count == -1 else first + count for first, count in zip(begin, sizes, strict=True))
    return call.add(StridedSlice(begin=begin, end=end), x)


def _cut_by_values(call: Call) -> OutputSlot:
    """Cut where begin or size is known later."""
    begin, sizes = call.input(1), call.input(2)
    end = call.add(ElementwiseBinary(operation=BinaryOperation.ADD), begin, sizes, part="sum")
    less = Comparison(operation=ComparisonOperation.LESS)
    to_the_end = call.add(less, sizes, call.scalar(0, sizes, "zero"), part="to_the_end")
    end = call.add(Where(), to_the_end, call.scalar(TO_THE_END, sizes, "last"), end, part="end")
    return call.add(StridedSlice(), call.input(0), begin, end)


@operator("STRIDED_SLICE", newest=8)
def strided_slice(call: Call) -> OutputSlot:
    """Translate a slice by Python's rules, with the masks of its options."""
    return strided_slice_of(call)


@operator("REVERSE_V2", newest=4)
def reverse(call: Call) -> OutputSlot:
    """Translate reversing some axes."""
    axes = call.known_integers(1, "the axes")
    count = len(axes)
    everything = StridedSlice(begin=(-1,) * count, end=(-TO_THE_END,) * count, axes=axes, stride=(-1,) * count)
    return call.add(everything, call.input(0))


@operator("REVERSE_SEQUENCE")
def reverse_sequence(call: Call) -> OutputSlot:
    """Translate reversing the first elements of each sequence, of as many as an input says."""
    x, lengths = call.input(0), call.input(1)
    time, batch, rank = call.option("seq_dim"), call.option("batch_dim"), call.rank_of(x)
    if not (0 <= time < rank and 0 <= batch < rank and time != batch):
        raise call.malformed(f"reverses axis {time} of each of axis {batch}, of a tensor of rank {rank}")
    if call.rank_of(lengths) != 1 or _are_known_to_differ(call.size_of(lengths, 0), call.size_of(x, batch)):
        raise call.malformed(f"has {call.size_of(lengths, 0)} lengths for {call.size_of(x, batch)} sequences")
    step = _counted(call, x, time, call.dtype_of(lengths))
    last = call.add(ElementwiseBinary(operation=BinaryOperation.SUB), lengths, call.scalar(1, lengths, "one"), part="last")
    last = call.add(ExpandDims(axes=(1,)), last, part="column")
    mirrored = call.add(ElementwiseBinary(operation=BinaryOperation.SUB), last, step, part="mirrored")
    inside = call.add(Comparison(operation=ComparisonOperation.LESS_OR_EQUAL), step, last, part="inside")
    places = call.add(Where(), inside, mirrored, step, part="places")
    order = [batch, time, *(axis for axis in range(rank) if axis not in (batch, time))]
    first = call.add(Permute(permutation=tuple(order)), x, part="batch_first")
    picked = call.add(Gather(axis=1, batch_dims=1), first, places, part="reversed")
    return call.add(Permute(permutation=tuple(np.argsort(order).tolist())), picked)


def _are_known_to_differ(a: int | None, b: int | None) -> bool:
    return a is not None and b is not None and a != b


def _counted(call: Call, x: OutputSlot, axis: int, dtype: DType) -> OutputSlot:
    """Number the positions along an axis."""
    size = call.add(Shape(start=axis, end=axis + 1), x, part="steps")
    limit = call.add(Reshape(shape=()), call.add(Cast(dtype=dtype), size, part="cast"), part="limit")
    zero, one = call.scalar(0, limit, "first"), call.scalar(1, limit, "delta")
    return call.add(Range(), zero, limit, one, part="step")


@operator("DYNAMIC_UPDATE_SLICE", newest=6)
def dynamic_update_slice(call: Call) -> OutputSlot:
    """Translate replacing a box, which is moved inside if it would stand out."""
    x, update, begin = call.input(0), call.input(1), call.input(2)
    whole, box = _sizes(call, x), _sizes(call, update)
    if len(whole) != len(box) or any(a < b for a, b in zip(whole, box, strict=True)):
        raise call.malformed(f"puts {box} into {whole}")
    if call.rank_of(begin) != 1 or call.size_of(begin, 0) != len(whole):
        raise call.malformed(f"has a begin that is not one position for each axis of {whole}")
    if not whole:
        return update
    # Whole slices are replaced, behind the last axis that is not filled.
    depth = max((axis + 1 for axis in range(len(whole)) if whole[axis] != box[axis]), default=1)
    room = np.asarray([a - b for a, b in zip(whole[:depth], box[:depth], strict=True)])
    call.check_affordable(depth * math.prod(box[:depth]), "the positions inside of the box")
    inside = np.moveaxis(np.indices(box[:depth]), 0, -1)
    dtype = call.dtype_of(begin).numpy
    if depth < len(whole):
        begin = call.add(StridedSlice(begin=(0,), end=(depth,)), begin, part="leading")
    begin = call.add(
        ElementwiseBinary(operation=BinaryOperation.MAXIMUM), begin, call.scalar(0, begin, "zero"), part="from_zero"
    )
    limit = call.network.constant(room.astype(dtype), call.label("room"))
    begin = call.add(ElementwiseBinary(operation=BinaryOperation.MINIMUM), begin, limit, part="begin")
    offsets = call.network.constant(inside.astype(dtype), call.label("offsets"))
    places = call.add(ElementwiseBinary(operation=BinaryOperation.ADD), offsets, begin, part="places")
    return call.add(ScatterNd(), x, places, update)


def _sizes(call: Call, slot: OutputSlot) -> Sequence[int]:
    found = [call.size_of(slot, axis) for axis in range(call.rank_of(slot))]
    known = [size for size in found if size is not None]
    if len(known) != len(found):
        raise Unsupported("sizes of what is replaced are open")
    return known


def _positions(call: Call, index: int) -> OutputSlot:
    """Return an input of positions, none of which may count from the end."""
    slot = call.input(index)
    dtype, known = call.dtype_of(slot), call.constant(index)
    if dtype not in (*_INDICES, DType.INT16):
        raise call.malformed(f"has positions of type {dtype}")
    if known is not None and (known < 0).any():
        raise call.malformed(f"has the position {known.min()}")
    return slot if dtype in _INDICES else call.add(Cast(dtype=DType.INT32), slot, part="positions")
