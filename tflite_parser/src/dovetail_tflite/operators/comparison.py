"""Comparisons, logic, choice."""

from __future__ import annotations

from dovetail.graph.layer import OutputSlot
from dovetail.layers import (
    BinaryOperation,
    Comparison,
    ComparisonOperation,
    ElementwiseBinary,
    ElementwiseUnary,
    ExpandDims,
    UnaryOperation,
    Where,
)

from ..call import Call
from ..registry import operator

_COMPARISONS = {
    "EQUAL": ComparisonOperation.EQUAL,
    "NOT_EQUAL": ComparisonOperation.NOT_EQUAL,
    "GREATER": ComparisonOperation.GREATER,
    "GREATER_EQUAL": ComparisonOperation.GREATER_OR_EQUAL,
    "LESS": ComparisonOperation.LESS,
    "LESS_EQUAL": ComparisonOperation.LESS_OR_EQUAL,
}
_LOGIC = {"LOGICAL_AND": BinaryOperation.LOGICAL_AND, "LOGICAL_OR": BinaryOperation.LOGICAL_OR}


@operator(*_COMPARISONS, newest=5)
def comparison(call: Call) -> OutputSlot:
    """Translate a comparison; integers of different scales are compared as real numbers."""
    a, b, descriptor = call.input(0), call.input(1), Comparison(operation=_COMPARISONS[call.op])
    same = call.quantization_of(a) == call.quantization_of(b)
    return (call.add if same else call.add_real)(descriptor, a, b)


@operator(*_LOGIC)
def logic(call: Call) -> OutputSlot:
    """Translate and, or."""
    return call.add(ElementwiseBinary(operation=_LOGIC[call.op]), call.input(0), call.input(1))


@operator("LOGICAL_NOT")
def negation(call: Call) -> OutputSlot:
    """Translate not."""
    return call.add(ElementwiseUnary(operation=UnaryOperation.LOGICAL_NOT), call.input(0))


@operator("SELECT", newest=4)
def select(call: Call) -> OutputSlot:
    """Translate the choice between two tensors, or between their rows."""
    condition, rank = call.input(0), call.rank_of(call.input(1))
    if call.rank_of(condition) == 1 and rank > 1:  # which counts along the first axis
        condition = call.add(ExpandDims(axes=tuple(range(1, rank))), condition, part="rows")
    return _chosen(call, condition)


@operator("SELECT_V2", newest=2)
def select_v2(call: Call) -> OutputSlot:
    """Translate the choice between two tensors with broadcast."""
    return _chosen(call, call.input(0))


def _chosen(call: Call, condition: OutputSlot) -> OutputSlot:
    a, b = call.input(1), call.input(2)
    return (call.add if call.share_quantization(a, b) else call.add_real)(Where(), condition, a, b)
