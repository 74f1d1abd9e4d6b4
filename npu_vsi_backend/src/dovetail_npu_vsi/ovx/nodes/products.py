"""Convolutions and fully connected layers."""

from __future__ import annotations

from ...chips import Chip
from ...program import Convolution, FullyConnected, Program, Weights
from .making import Making


def refuse_convolution(operation: Convolution, program: Program, chip: Chip) -> str:
    """Say why ovxlib cannot compute a convolution."""
    x, y = program.tensors[operation.inputs[0]], program.tensors[operation.output]
    if len(x.shape) != 4 or len(y.shape) != 4:
        return f"a convolution of a tensor with {len(x.shape)} axes; ovxlib takes images, which have 4"
    # Measured with ovxlib 1.2.30: of random ones every fifteenth is far off.
    if operation.is_depthwise and max(operation.stride) > 1 and max(operation.dilation) > 1:
        return "a depthwise convolution with strides and dilation at once, which the driver computes wrongly"
    return _refuse_weights(operation.weights)


def add_convolution(making: Making, operation: Convolution) -> None:
    """Add a convolution, and the clamp of its results."""
    x, y = making.tensor(operation.inputs[0]), making.output(operation)
    height, width = operation.weights.values.shape[2:]
    channels = y.shape[1]
    shape, axis, multiplier = operation.weights.values.shape, 0, 0
    if operation.is_depthwise:
        shape, axis, multiplier = (1, channels, height, width), 1, channels // x.shape[1]
    weights, bias = making.weights(operation.weights, shape, x, axis)
    before = making.before_clamp(operation, operation.low, operation.high)
    making.graph.convolution(
        (making.number(operation.inputs[0]), weights, bias),
        before,
        (height, width),
        operation.stride,
        operation.padding,
        operation.dilation,
        channels,
        operation.groups,
        multiplier,
    )
    making.clamp(before, operation, operation.low, operation.high)


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
