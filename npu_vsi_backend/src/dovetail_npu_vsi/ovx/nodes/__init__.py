"""The nodes of ovxlib that operations become, and what cannot become any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...chips import Chip
from ...program import (
    Binary,
    Concat,
    Convolution,
    FullyConnected,
    Function,
    Operation,
    Pad,
    Permute,
    Pooling,
    Program,
    Requantize,
    Reshape,
    Resize,
    Softmax,
)
from . import elements, movement, products, windows
from .making import Making

_MAX_AXES = 6

_Refuse = Callable[[Any, Program, Chip], str]
_Add = Callable[[Making, Any], None]

KINDS: dict[type[Operation], tuple[_Refuse, _Add]] = {
    Convolution: (products.refuse_convolution, products.add_convolution),
    FullyConnected: (products.refuse_fully_connected, products.add_fully_connected),
    Pooling: (windows.refuse_pooling, windows.add_pooling),
    Binary: (elements.refuse_binary, elements.add_binary),
    Function: (elements.refuse_function, elements.add_function),
    Requantize: (elements.refuse_requantize, elements.add_requantize),
    Softmax: (movement.refuse_nothing, movement.add_softmax),
    Concat: (movement.refuse_nothing, movement.add_concat),
    Pad: (movement.refuse_nothing, movement.add_pad),
    Permute: (movement.refuse_nothing, movement.add_permute),
    Reshape: (movement.refuse_nothing, movement.add_reshape),
    Resize: (windows.refuse_resize, windows.add_resize),
}
"""For each kind of operation: what says why it is refused, and what adds it to a graph."""


def refusal(operation: Operation, program: Program, chip: Chip) -> str:
    """Say in words what ovxlib cannot do of an operation; empty if it can do it."""
    if type(operation) not in KINDS:
        return f"an operation of kind {type(operation).__name__}, for which ovxlib has no node"
    for number in (*operation.inputs, operation.output):
        tensor = program.tensors[number]
        if len(tensor.shape) > _MAX_AXES:
            return f"the tensor {tensor.name!r} with {len(tensor.shape)} axes; ovxlib takes up to {_MAX_AXES}"
        if not tensor.elements:
            return f"the tensor {tensor.name!r} without elements"
        # Measured with ovxlib 1.2.30: an int8 tensor between a conversion and a clamp is read
        # wrongly, or the driver leaves the clamp to the host, which no binary can hold.
        if tensor.dtype != "uint8":
            return f"the tensor {tensor.name!r} of {tensor.dtype}, which the driver confuses between nodes; uint8 is expected"
    return KINDS[type(operation)][0](operation, program, chip)


def add(making: Making, operation: Operation) -> None:
    """Add the nodes of an operation that is not refused."""
    KINDS[type(operation)][1](making, operation)
