"""What moves elements: shapes, axes, borders, and joining; softmax, as it has an axis too."""

from __future__ import annotations

from dataclasses import replace

from ...chips import Chip
from ...program import Concat, Pad, Permute, Program, Reshape, Softmax
from .making import Making, axes_of


def refuse_nothing(operation: Concat | Pad | Permute | Reshape | Softmax, program: Program, chip: Chip) -> str:
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
    y, after = making.output(operation), making.number(operation.output)
    x = making.quantized_as(operation.inputs[0], y)
    axes = [axis for axis, counts in enumerate(zip(operation.before, operation.after, strict=True)) if any(counts)]
    if not axes:
        making.graph.simple("convert", (x,), after)
        return
    if operation.value >= y.zero_point:
        value = (operation.value - y.zero_point) * y.scale
        making.graph.pad(x, after, operation.before, operation.after, value)
        return
    # The vendor's simulator aborts with a negative border, as its bits do not fit where they are
    # written: constants are joined to the tensor instead, along one axis after the other.
    sizes = list(making.tensor(operation.inputs[0]).shape)
    for axis in axes:
        borders = [
            [making.constant_like(y, (*sizes[:axis], count, *sizes[axis + 1 :]), operation.value)] if count else []
            for count in (operation.before[axis], operation.after[axis])
        ]
        sizes[axis] += operation.before[axis] + operation.after[axis]
        joined = after if axis == axes[-1] else making.between(replace(y, shape=tuple(sizes)))
        making.graph.concat([*borders[0], x, *borders[1]], joined, axis)
        x = joined


def add_permute(making: Making, operation: Permute) -> None:
    """Add a permutation of axes."""
    x = making.quantized_as(operation.inputs[0], making.output(operation))
    making.graph.permute(x, making.number(operation.output), operation.order)


def add_reshape(making: Making, operation: Reshape) -> None:
    """Add a change of the shape."""
    y = making.output(operation)
    making.graph.reshape(making.quantized_as(operation.inputs[0], y), making.number(operation.output), axes_of(y))
