"""Normalizations."""

from __future__ import annotations

import numpy as np

from dovetail import layers
from dovetail.graph.element_types import DType
from dovetail.graph.tensor import DataLayout

from ..rules import Saying, says


@says(layers.BatchNormalization)
def batch_normalization(say: Saying) -> str:
    """Say normalization by given statistics."""
    made = say.op("BatchNormalization", _images(say), *say.inputs[1:], epsilon=float(say.descriptor.epsilon))
    return _as_it_was(say, made)


def _images(say: Saying) -> str:
    """Return the input with channels first.

    ONNX takes one axis alone for the batch's, here it may be the channels'.
    """
    if _is_of_channels(say):
        return say.op("Reshape", say.input(0), say.integers((1, -1)))
    return say.channels_first(say.info().rank)


def _as_it_was(say: Saying, value: str) -> str:
    """Undo what `_images` did."""
    if _is_of_channels(say):
        return say.op("Reshape", value, say.integers(say.info().sizes))
    return say.channels_back(value, say.info().rank)


def _is_of_channels(say: Saying) -> bool:
    return say.info().rank == 1 and say.descriptor.layout is DataLayout.NHWC


@says(layers.InstanceNormalization)
def instance_normalization(say: Saying) -> str:
    """Say normalization of each channel of each image."""
    rank = say.info().rank
    channels = say.info().sizes[say.descriptor.layout.channel_axis]
    x = say.channels_first(rank)
    scale, offset = _or_filled(say, 1, (channels,), 1), _or_filled(say, 2, (channels,), 0)
    made = say.op("InstanceNormalization", x, scale, offset, epsilon=float(say.descriptor.epsilon))
    return say.channels_back(made, rank)


@says(layers.GroupNormalization)
def group_normalization(say: Saying) -> str:
    """Say normalization of groups of channels."""
    channels = say.info().sizes[1]
    scale, offset = _or_filled(say, 1, (channels,), 1), _or_filled(say, 2, (channels,), 0)
    attributes = {"num_groups": say.descriptor.groups, "epsilon": float(say.descriptor.epsilon)}
    return say.op("GroupNormalization", say.input(0), scale, offset, **attributes)


def _or_filled(say: Saying, index: int, shape: tuple[int, ...], number: float) -> str:
    """Return an input, or a constant that does nothing where it is left out."""
    return say.input(index) or say.constant(np.full(shape, number), say.dtype)


@says(layers.LayerNormalization)
def layer_normalization(say: Saying) -> str:
    """Say normalization over the last axes.

    Scale and offset that broadcast to these are nodes of their own.
    """
    axis = say.descriptor.axis % max(say.info().rank, 1)
    tail = say.info().sizes[axis:]
    if not say.descriptor.center:
        return say.cast(_shifted(say, _over_root_mean_square(say, axis)), say.dtype)
    attributes = {"axis": axis, "epsilon": float(say.descriptor.epsilon)}
    if all(not say.has(index) or say.info(index).sizes == tail for index in (1, 2)):
        return say.op("LayerNormalization", say.input(0), _or_filled(say, 1, tail, 1), say.input(2), **attributes)
    wide = _wide(say)
    ones = say.constant(np.ones(tail), wide)
    made = say.op("LayerNormalization", say.cast(say.input(0), wide), ones, **attributes)
    return say.cast(_shifted(say, made), say.dtype)


def _wide(say: Saying) -> DType:
    """Type to compute in where a layer takes several nodes: each would round narrow floats."""
    return DType.FLOAT64 if say.dtype is DType.FLOAT64 else DType.FLOAT32


def _over_root_mean_square(say: Saying, axis: int) -> str:
    x, wide = say.cast(say.input(0), _wide(say)), _wide(say)
    axes = say.integers(range(axis, say.info().rank))
    mean = say.op("ReduceMean", say.op("Mul", x, x), axes, keepdims=1)
    return say.op("Div", x, say.op("Sqrt", say.op("Add", mean, say.scalar(say.descriptor.epsilon, wide))))


def _shifted(say: Saying, value: str) -> str:
    wide = _wide(say)
    scaled = say.op("Mul", value, say.cast(say.input(1), wide)) if say.has(1) else value
    return say.op("Add", scaled, say.cast(say.input(2), wide)) if say.has(2) else scaled


@says(layers.LpNormalization)
def lp_normalization(say: Saying) -> str:
    """Say division by the norm; the operator of that name knows no smallest norm."""
    x, wide = say.cast(say.input(0), _wide(say)), _wide(say)
    norm = say.op("ReduceL1" if say.descriptor.p == 1 else "ReduceL2", x, say.integers([say.descriptor.axis]), keepdims=1)
    return say.cast(say.op("Div", x, say.op("Max", norm, say.scalar(say.descriptor.epsilon, wide))), say.dtype)


@says(layers.LocalResponseNormalization)
def local_response_normalization(say: Saying) -> str:
    """Say normalization by neighbouring channels."""
    lrn = say.descriptor
    made = say.op("LRN", _images(say), size=lrn.size, alpha=float(lrn.alpha), beta=float(lrn.beta), bias=float(lrn.k))
    return _as_it_was(say, made)
