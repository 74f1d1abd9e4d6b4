"""What the vendor's driver folds into neighbours, so that it takes no time of its own."""

from __future__ import annotations

import math

from ..chips import Chip
from ..program import (
    Binary,
    Concat,
    Convolution,
    FullyConnected,
    Function,
    Operation,
    Pad,
    Pooling,
    Program,
    Requantize,
    Reshape,
)
from .convolutions import Way, layer_of, way_of
from .links import links
from .pairs import adds_by_products, swish_of


def is_folded(operation: Operation, program: Program, chip: Chip) -> bool:
    """Say whether an operation is part of the one before or behind it."""
    match operation:
        case Reshape():
            return not copies(operation, program)
        case Requantize():
            return is_clamp_fused(operation, program) and _is_product(_maker_for(operation, program), program, chip)
        case Pooling():
            return _halves_pixels(operation, program) and _is_convolution(_maker_for(operation, program), program, chip)
        case Pad():
            return _is_border_of_convolution(operation, program, chip)
        case Function():
            reader = links(program).only_reader(operation.output)
            return isinstance(reader, Binary) and swish_of(reader, program) is operation
        case Concat():
            return not any(copies_of_input(operation, number, program, chip) for number in operation.inputs)
        case _:
            return False


def copies(operation: Reshape, program: Program) -> bool:
    """Say whether a reshape joins an output of the program with an input or another output."""
    found = links(program)
    source = found.root(operation.inputs[0])
    return operation.output in program.outputs and (source in program.inputs or source in program.outputs)


def is_clamp_fused(operation: Operation, program: Program) -> bool:
    """Say whether the bounds of a result cost nothing behind a product: none, or a ReLU's."""
    written = program.tensors[operation.output]
    low, high = written.limits
    bounds = getattr(operation, "low", low), getattr(operation, "high", high)
    return bounds in ((low, high), (written.zero_point, high))


def is_clamped(operation: Operation, program: Program) -> bool:
    """Say whether a result has bounds within its element type."""
    low, high = program.tensors[operation.output].limits
    return (getattr(operation, "low", low), getattr(operation, "high", high)) != (low, high)


def copies_of_input(operation: Concat, number: int, program: Program, chip: Chip) -> int:
    """Return how often the tensor processor moves an input of a concatenation.

    Along the outermost axis what is computed is written into its place. Inputs of the program are
    copied. Along other axes all are copied twice, and so are inputs of other quantization.
    """
    found = links(program)
    read, written = program.tensors[number], program.tensors[operation.output]
    is_outermost = math.prod(written.shape[: operation.axis]) == 1
    is_alike = (read.scale, read.zero_point) == (written.scale, written.zero_point)
    is_in_place = found.is_computed(number) and found.only_reader(number) is operation
    if not is_outermost or not (is_alike or found.is_computed(number)):
        return 2
    if is_in_place and (is_alike or _is_product(found.makers.get(number), program, chip)):
        return 0
    return 1


def follower(operation: Operation, program: Program, chip: Chip) -> Operation | None:
    """Return the operation that is folded into a product, and writes instead of it."""
    reader = links(program).only_reader(operation.output)
    return reader if isinstance(reader, Requantize | Pooling) and is_folded(reader, program, chip) else None


def border_of(operation: Convolution, program: Program, chip: Chip) -> Pad | None:
    """Return the padding that is folded into a convolution."""
    maker = links(program).makers.get(operation.inputs[0])
    return maker if isinstance(maker, Pad) and is_folded(maker, program, chip) else None


def _maker_for(operation: Operation, program: Program) -> Operation | None:
    """Return the operation that writes what another alone reads."""
    found = links(program)
    return found.makers.get(operation.inputs[0]) if found.only_reader(operation.inputs[0]) is operation else None


def _is_product(operation: Operation | None, program: Program, chip: Chip) -> bool:
    """Say whether an operation ends with one of the convolution engine that scales its results."""
    if isinstance(operation, FullyConnected):
        return not operation.weights.is_per_channel and program.tensors[operation.output].shape[0] == 1
    if isinstance(operation, Binary):
        return adds_by_products(operation, program)
    return isinstance(operation, Convolution) and way_of(layer_of(operation, program), chip) not in (Way.SPLIT, Way.SHADER)


def _is_convolution(operation: Operation | None, program: Program, chip: Chip) -> bool:
    if not isinstance(operation, Convolution) or operation.groups > 1 or not is_clamp_fused(operation, program):
        return False
    return way_of(layer_of(operation, program), chip) is Way.DIRECT


def _halves_pixels(operation: Pooling, program: Program) -> bool:
    """Say whether a pooling takes the greatest of each two by two pixels."""
    sizes = program.tensors[operation.inputs[0]].shape[2:]
    is_two = operation.function == "max" and operation.size == operation.stride == (2, 2)
    return is_two and not any(operation.padding) and all(size % 2 == 0 for size in sizes) and not is_clamped(operation, program)


def _is_border_of_convolution(operation: Pad, program: Program, chip: Chip) -> bool:
    """Say whether a padding puts zeros around images for one convolution, which does so itself."""
    reader, read = links(program).only_reader(operation.output), program.tensors[operation.inputs[0]]
    if not isinstance(reader, Convolution) or reader.is_depthwise or any((*operation.before[:-2], *operation.after[:-2])):
        return False
    is_zero = operation.value == read.zero_point == program.tensors[operation.output].zero_point
    return is_zero and way_of(layer_of(reader, program), chip) is Way.DIRECT
