"""Convolutions and fully connected layers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...chips import Chip
from ...engines.convolutions import Way, is_lopsided, layer_of, reads_all_channels, splits_wrongly, way_of
from ...program import Convolution, FullyConnected, Program, Tensor, Weights
from .making import Making

_MAX_FILLED = 1 << 24


def refuse_convolution(operation: Convolution, program: Program, chip: Chip) -> str:
    """Say why ovxlib cannot compute a convolution."""
    x, y = program.tensors[operation.inputs[0]], program.tensors[operation.output]
    if len(x.shape) != 4 or len(y.shape) != 4:
        return f"a convolution of a tensor with {len(x.shape)} axes; ovxlib takes images, which have 4"
    elements = _filled_elements(operation, program, chip)
    if elements > max(_MAX_FILLED, operation.weights.values.size):
        return (
            f"a convolution in {operation.groups} groups with a dilation of {operation.dilation} and a stride of "
            f"{operation.stride}: its weights would become {elements} with the zeros that it needs, and at most "
            f"{_MAX_FILLED} are taken"
        )
    return _refuse_weights(operation.weights)


def add_convolution(making: Making, operation: Convolution) -> None:
    """Add a convolution, and the clamp of its results."""
    x, y = making.tensor(operation.inputs[0]), making.output(operation)
    number, padding = making.number(operation.inputs[0]), operation.padding
    given, dilation, groups = operation.weights, operation.dilation, operation.groups
    is_depthwise = operation.is_depthwise
    if _must_be_filled(operation, making.program, making.chip):
        given, dilation = _filled(given, dilation), (1, 1)
    if is_lopsided(operation, padding) or _reads_beyond(operation, making.program, making.chip):
        number, padding = _with_border(making, number, x, padding), (0, 0, 0, 0)
    if reads_all_channels(operation, x):
        given, groups, is_depthwise = _dense(given, groups), 1, False
    height, width = given.values.shape[2:]
    channels = y.shape[1]
    shape, axis, multiplier = given.values.shape, 0, 0
    if is_depthwise:
        shape, axis, multiplier = (1, channels, height, width), 1, channels // x.shape[1]
    weights, bias = making.weights(given, shape, x, axis)
    before = making.before_clamp(operation, operation.low, operation.high)
    making.graph.convolution(
        (number, weights, bias),
        before,
        (height, width),
        operation.stride,
        padding,
        dilation,
        channels,
        groups,
        multiplier,
    )
    making.clamp(before, operation, operation.low, operation.high)


def _filled_elements(operation: Convolution, program: Program, chip: Chip) -> int:
    filters, channels, *kernel = operation.weights.values.shape
    if reads_all_channels(operation, program.tensors[operation.inputs[0]]):
        channels *= operation.groups
    if _must_be_filled(operation, program, chip):
        kernel = [(size - 1) * step + 1 for size, step in zip(kernel, operation.dilation, strict=True)]
    return int(filters * channels * math.prod(kernel))


def _must_be_filled(operation: Convolution, program: Program, chip: Chip) -> bool:
    """Tell whether weights take zeros instead of a dilation.

    Measured with ovxlib 1.2.30: its depthwise convolution is far off with strides and dilation at
    once, and where a window with its dilation is larger than the convolution engine takes.
    """
    is_dilated = max(operation.dilation) > 1
    return is_dilated and (operation.is_depthwise or splits_wrongly(layer_of(operation, program), chip))


def _reads_beyond(operation: Convolution, program: Program, chip: Chip) -> bool:
    """Tell whether the driver would read what lies before an image.

    Measured with ovxlib 1.2.30: the shader's depthwise convolution does so where nothing but rows
    above the image are added. The convolution engine's does not.
    """
    top, *others = operation.padding
    is_above = operation.is_depthwise and top > 0 and not any(others)
    return is_above and way_of(layer_of(operation, program), chip) is Way.SHADER


def _filled(weights: Weights, dilation: tuple[int, int]) -> Weights:
    """Return weights with zeros where a dilation skips."""
    filters, channels, height, width = weights.values.shape
    shape = (filters, channels, (height - 1) * dilation[0] + 1, (width - 1) * dilation[1] + 1)
    values = np.empty(shape, weights.values.dtype)
    values[:] = np.reshape(weights.zero_point, (-1, 1, 1, 1))
    values[:, :, :: dilation[0], :: dilation[1]] = weights.values
    return replace(weights, values=values)


def _with_border(making: Making, number: int, x: Tensor, padding: tuple[int, ...]) -> int:
    """Add a node that pads an image with zeros; return what it writes."""
    top, left, bottom, right = padding
    height, width = x.shape[2:]
    padded = making.between(replace(x, shape=(*x.shape[:2], top + height + bottom, left + width + right)))
    making.graph.pad(number, padded, (0, 0, top, left), (0, 0, bottom, right), 0.0)
    return padded


def _dense(weights: Weights, groups: int) -> Weights:
    """Return weights of groups with zeros for all other channels of the input."""
    filters, depth, height, width = weights.values.shape
    channels = groups * depth
    values: npt.NDArray[Any] = np.empty((filters, channels, height, width), weights.values.dtype)
    values[:] = np.reshape(weights.zero_point, (-1, 1, 1, 1))
    for group, given in enumerate(np.split(weights.values, groups)):
        values[group * len(given) : (group + 1) * len(given), group * depth : (group + 1) * depth] = given
    return replace(weights, values=values)


def refuse_fully_connected(operation: FullyConnected, program: Program, chip: Chip) -> str:
    """Say why ovxlib cannot compute a fully connected layer."""
    x = program.tensors[operation.inputs[0]]
    if len(x.shape) != 2:
        return f"a fully connected layer on a tensor with {len(x.shape)} axes; ovxlib takes rows, which have 2"
    return _refuse_weights(operation.weights)


def add_fully_connected(making: Making, operation: FullyConnected) -> None:
    """Add a fully connected layer, and the clamp of its results."""
    x = making.tensor(operation.inputs[0])
    weights, bias = making.weights(operation.weights, operation.weights.values.shape, x, 0)
    before = making.before_clamp(operation, operation.low, operation.high)
    making.graph.fully_connected((making.number(operation.inputs[0]), weights, bias), before, operation.weights.values.shape[0])
    making.clamp(before, operation, operation.low, operation.high)


def _refuse_weights(weights: Weights) -> str:
    if weights.is_per_channel and any(weights.zero_point):
        return "weights with a scale for each channel and zero points other than 0"
    return ""
