"""Kinds that pick or replace elements by position, and those that make tensors."""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from dovetail.graph.element_types import DType
from dovetail.layers import (
    Fill,
    Gather,
    GatherElements,
    GatherNd,
    OneHot,
    Range,
    ScatterElements,
    ScatterNd,
    StridedSlice,
    Trilu,
)

from ..rules import Saying, says


@says(StridedSlice)
def strided_slice(say: Saying) -> str:
    """Say a slice."""
    cut = say.descriptor
    if not cut.begin:
        return say.input()
    axes = range(len(cut.begin)) if cut.axes is None else cut.axes
    strides = (1,) * len(cut.begin) if cut.stride is None else cut.stride
    return say.op("Slice", say.input(), *(say.integers(values) for values in (cut.begin, cut.end, axes, strides)))


@says(Gather)
def gather(say: Saying) -> str:
    """Say picking slices; with batch axes the operator that takes whole positions does it."""
    rank, batch = say.info().rank, say.descriptor.batch_dims
    axis = say.descriptor.axis % max(rank, 1)
    if not batch:
        return say.op("Gather", say.input(0), say.input(1), axis=axis)
    picked = say.info(1).rank - batch
    first = say.permuted(say.input(0), (*range(batch), axis, *range(batch, axis), *range(axis + 1, rank)))
    positions = say.op("Unsqueeze", say.cast(say.input(1), DType.INT64), say.integers([-1]))
    made = say.op("GatherND", first, positions, batch_dims=batch)
    # The axes are now: batch, picked, those that lay before the axis, those behind it.
    before = range(batch + picked, picked + axis)
    behind = range(picked + axis, picked + rank - 1)
    return say.permuted(made, (*range(batch), *before, *range(batch, batch + picked), *behind))


@says(GatherElements)
def gather_elements(say: Saying) -> str:
    """Say picking elements along an axis."""
    return say.op("GatherElements", say.input(0), say.input(1), axis=say.descriptor.axis)


@says(GatherNd)
def gather_nd(say: Saying) -> str:
    """Say picking slices by positions over several axes."""
    positions = say.cast(say.input(1), DType.INT64)
    return say.op("GatherND", say.input(0), positions, batch_dims=say.descriptor.batch_dims)


@says(ScatterElements)
def scatter_elements(say: Saying) -> str:
    """Say replacing elements along an axis."""
    reduction = say.descriptor.reduction.value
    return say.op("ScatterElements", *say.inputs, axis=say.descriptor.axis, reduction=reduction)


@says(ScatterNd)
def scatter_nd(say: Saying) -> str:
    """Say replacing slices by positions over several axes."""
    x, indices, updates = say.inputs
    return say.op("ScatterND", x, say.cast(indices, DType.INT64), updates, reduction=say.descriptor.reduction.value)


@says(OneHot)
def one_hot(say: Saying) -> str:
    """Say one-hot rows.

    ONNX asks for an axis of indices: a single index is given one, which is taken away again.
    """
    depth = say.scalar(say.descriptor.depth, DType.INT64)
    if say.info().rank:
        return say.op("OneHot", say.input(0), depth, say.input(1), axis=say.descriptor.axis)
    row = say.op("OneHot", say.op("Reshape", say.input(0), say.integers([1])), depth, say.input(1))
    return say.op("Reshape", row, say.integers(say.result.sizes))


@says(Trilu)
def trilu(say: Saying) -> str:
    """Say a triangle of a matrix."""
    return say.op("Trilu", say.input(), say.scalar(say.descriptor.k, DType.INT64), upper=int(say.descriptor.upper))


@says(Fill)
def fill(say: Saying) -> str:
    """Say a tensor of one value."""
    dtype = say.descriptor.dtype
    value = numpy_helper.from_array(np.asarray([say.descriptor.value], _within(dtype)))
    made = say.op("ConstantOfShape", say.integers(say.descriptor.shape), dtype=DType.of(_within(dtype)), value=value)
    return say.cast(made, dtype)


def _within(dtype: DType) -> np.dtype[np.generic]:
    """Type of NumPy that holds a value: bfloat16 has none."""
    return np.dtype(np.float32) if dtype is DType.BFLOAT16 else dtype.numpy


@says(Range)
def counting(say: Saying) -> str:
    """Say a range of numbers."""
    counted = say.descriptor
    return say.op("Range", *(say.scalar(value, counted.dtype) for value in (counted.start, counted.limit, counted.delta)))
