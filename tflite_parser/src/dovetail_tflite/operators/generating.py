"""Operators that make tensors: fills, ranges, one-hot rows, diagonals."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.graph.layer import OutputSlot
from dovetail.layers import (
    BroadcastTo,
    Comparison,
    ComparisonOperation,
    Concat,
    ExpandDims,
    Fill,
    OneHot,
    Range,
    Reshape,
    Shape,
    Trilu,
    Where,
)

from ..call import Call
from ..registry import operator


@operator("FILL", newest=5)
def fill(call: Call) -> OutputSlot:
    """Translate a tensor of one value, which need not be known."""
    sizes, value = call.integers(0), call.input(1)
    if call.rank_of(value):
        raise call.malformed(f"fills with a tensor of rank {call.rank_of(value)}, expected a scalar")
    if sizes is None:
        return call.add(BroadcastTo(), value, call.input(0))
    return call.add(BroadcastTo(shape=sizes), value)


@operator("ZEROS_LIKE")
def zeros_like(call: Call) -> OutputSlot:
    """Translate zeros of another tensor's shape and type."""
    x = call.input(0)
    return call.add(Fill(value=0, dtype=call.dtype_of(x)), call.add(Shape(), x, part="sizes"))


@operator("RANGE", newest=2)
def counting(call: Call) -> OutputSlot:
    """Translate numbers from a start on, before a limit."""
    return call.add(Range(), call.input(0), call.input(1), call.input(2))


@operator("ONE_HOT")
def one_hot(call: Call) -> OutputSlot:
    """Translate a row for each index; one below zero gives a row without the other value."""
    indices, depth = call.input(0), call.integers(1)
    if call.dtype_of(indices) not in (DType.INT32, DType.INT64):
        raise call.malformed(f"has indices of type {call.dtype_of(indices)}")
    if depth is not None and len(depth) != 1:
        raise call.malformed(f"has the depths {list(depth)}, expected one")
    each = [call.add(Reshape(shape=(1,)), call.input(index), part=name) for index, name in ((3, "off"), (2, "on"))]
    values = call.add(Concat(), *each, part="values")
    indices = _without_negative(call, indices)
    axis = call.option("axis")
    if depth is None:
        return call.add(OneHot(axis=axis), indices, values, call.input(1))
    return call.add(OneHot(depth=depth[0], axis=axis), indices, values)


def _without_negative(call: Call, indices: OutputSlot) -> OutputSlot:
    """Replace indices below zero, which would count from the end, by one that is in no row."""
    known = call.value_of(indices)
    if known is not None and not (known < 0).any():
        return indices
    less = Comparison(operation=ComparisonOperation.LESS)
    negative = call.add(less, indices, call.scalar(0, indices, "zero"), part="is_negative")
    nowhere = call.scalar(np.iinfo(call.dtype_of(indices).numpy).max, indices, "nowhere")
    return call.add(Where(), negative, nowhere, indices, part="indices")


@operator("MATRIX_DIAG")
def matrix_diag(call: Call) -> OutputSlot:
    """Translate rows to the diagonals of matrices: repeat each, then keep one diagonal."""
    x = call.input(0)
    axes = call.rank_of(x)
    if not axes:
        raise call.malformed("makes a diagonal of a scalar")
    size = call.add(Shape(start=axes - 1), x, part="size")
    sizes = call.add(Concat(), size, size, part="sizes")
    rows = call.add(ExpandDims(axes=(-2,)), x, part="rows")
    square = call.add(BroadcastTo(), rows, sizes, part="square")
    upper = call.add(Trilu(), square, part="upper")
    return call.add(Trilu(upper=False), upper)
