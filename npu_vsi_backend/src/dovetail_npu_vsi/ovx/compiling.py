"""A program becomes a binary, in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import VsiError
from .nodes import add, refusal
from .nodes.making import Making

if TYPE_CHECKING:
    from ..chips import Chip
    from ..driver import Report
    from ..program import Program

# An operation takes at most this many nodes, and tensors besides its output: weights and bias, an
# input with a border, and two on the way to a clamp with their bounds; and a conversion of each of
# its inputs.
_NODES, _TENSORS = 4, 7


def compiled(program: Program, chip: Chip, report: Report) -> bytes:
    """Return the binary of a program; ovxlib has been opened.

    Raises:
        VsiError: ovxlib lacks something, or failed.
    """
    from .graph import Graph

    for operation in program.operations:
        why = refusal(operation, program, chip)
        if why:
            raise VsiError(f"{operation.name!r} asks for {why}")
    inputs = sum(len(operation.inputs) for operation in program.operations)
    graph = Graph(len(program.tensors) + _TENSORS * len(program.operations) + inputs, _NODES * len(program.operations) + inputs)
    making = Making(program, graph, chip)
    for at, operation in enumerate(program.operations):
        graph.begin(at)
        add(making, operation)
    report(0.1, "the graph is made")
    numbers = [[making.number(number) for number in group] for group in (program.inputs, program.outputs)]
    binary: bytes = graph.binary(*numbers)
    return binary
