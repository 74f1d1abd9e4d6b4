"""What moves elements: shapes, axes, borders, and joining; softmax, as it has an axis too."""

from __future__ import annotations

from ...chips import Chip
from ...program import Concat, Pad, Permute, Program, Reshape, Softmax
from .making import Making


def refuse_pad(operation: Pad, program: Program, chip: Chip) -> str:
    """Say why ovxlib cannot put a border around a tensor."""
    # The vendor's simulator aborts, as the border's bits do not fit where they are written.
    is_negative = operation.value < program.tensors[operation.output].zero_point
    return "a border of a negative number, with which the driver aborts" if is_negative else ""


def refuse_nothing(operation: Concat | Permute | Reshape | Softmax, program: Program, chip: Chip) -> str:
    """Say nothing: ovxlib has these for whatever a program has."""
    return ""


def add_softmax(making: Making, operation: Softmax) -> None:
    """Add a softmax."""
    x, y = making.number(operation.inputs[0]), making.number(operation.output)
    making.graph.softmax(x, y, operation.beta, operation.axis)


def add_concat(making: Making, operation: Concat) -> None:
    """Add a concatenation."""
    inputs = [making.quantized_as(number, making.output(operation)) for number in operation.inputs]
    making.graph.concat(inputs, making.number(operation.output), operation.axis)


def add_pad(making: Making, operation: Pad) -> None:
    """Add a border."""
    y = making.output(operation)
    x = making.quantized_as(operation.inputs[0], y)
    value = (operation.value - y.zero_point) * y.scale
    making.graph.pad(x, making.number(operation.output), operation.before, operation.after, value)


def add_permute(making: Making, operation: Permute) -> None:
    """Add a permutation of axes."""
    x = making.quantized_as(operation.inputs[0], making.output(operation))
    making.graph.permute(x, making.number(operation.output), operation.order)


def add_reshape(making: Making, operation: Reshape) -> None:
    """Add a change of the shape."""
    y = making.output(operation)
    making.graph.reshape(making.quantized_as(operation.inputs[0], y), making.number(operation.output), y.shape)
