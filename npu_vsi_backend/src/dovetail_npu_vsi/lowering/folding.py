"""Fold operations of a program into each other where the vendor's compiler does so, too.

What is folded is rounded once, not twice. So a program says what is computed, whichever driver
compiles it.
"""

from __future__ import annotations

from dataclasses import replace

from ..engines import adds_by_products
from ..program import Binary, Convolution, FullyConnected, Function, Operation, Program, Requantize


def folded(program: Program) -> Program:
    """Return a program without the operations that others can do at no cost."""
    operations = list(program.operations)
    for operation in program.operations:
        if isinstance(operation, Requantize):
            _fold_into_product(operation, operations, program)
        elif isinstance(operation, Binary) and operation.function == "multiply":
            _fold_gate(operation, operations, program)
    return _renumbered(program, operations)


def _fold_into_product(operation: Requantize, operations: list[Operation], program: Program) -> None:
    """Have a product write what it is requantized to, a ReLU's bounds included."""
    number = operation.inputs[0]
    product = _maker(number, operations)
    if not isinstance(product, Convolution | FullyConnected | Binary) or not _is_read_once(number, operations, program):
        return
    if isinstance(product, Binary) and not adds_by_products(product, program):
        return
    written = program.tensors[operation.output]
    is_clamped = (product.low, product.high) != program.tensors[number].limits
    if is_clamped or (operation.low, operation.high) not in (written.limits, (written.zero_point, written.limits[1])):
        return
    sources = tuple(dict.fromkeys((*product.sources, *operation.sources)))
    made = replace(product, output=operation.output, low=operation.low, high=operation.high, sources=sources)
    operations[operations.index(product)] = made
    operations.remove(operation)


def _fold_gate(operation: Binary, operations: list[Operation], program: Program) -> None:
    """Make one function of x times sigmoid(x)."""
    for gate, x in (operation.inputs, operation.inputs[::-1]):
        sigmoid = _maker(gate, operations)
        if not isinstance(sigmoid, Function) or sigmoid.function != "sigmoid" or sigmoid.inputs != (x,):
            continue
        if (
            _is_read_once(gate, operations, program)
            and (operation.low, operation.high) == program.tensors[operation.output].limits
        ):
            made = Function(
                name=operation.name,
                inputs=(x,),
                output=operation.output,
                sources=tuple(dict.fromkeys((*sigmoid.sources, *operation.sources))),
                function="swish",
                alpha=1.0,
                beta=0.0,
            )
            operations[operations.index(operation)] = made
            operations.remove(sigmoid)
            return


def _maker(number: int, operations: list[Operation]) -> Operation | None:
    return next((operation for operation in operations if operation.output == number), None)


def _is_read_once(number: int, operations: list[Operation], program: Program) -> bool:
    readers = [operation for operation in operations for read in operation.inputs if read == number]
    return len(readers) == 1 and number not in program.outputs


def _renumbered(program: Program, operations: list[Operation]) -> Program:
    """Return a program of some operations, without the tensors that none of them has."""
    used = {*program.inputs, *program.outputs}.union(*((*one.inputs, one.output) for one in operations))
    numbers = {number: index for index, number in enumerate(sorted(used))}
    return Program(
        program.name,
        tuple(program.tensors[number] for number in sorted(used)),
        tuple(
            replace(one, inputs=tuple(numbers[read] for read in one.inputs), output=numbers[one.output]) for one in operations
        ),
        tuple(numbers[number] for number in program.inputs),
        tuple(numbers[number] for number in program.outputs),
    )
