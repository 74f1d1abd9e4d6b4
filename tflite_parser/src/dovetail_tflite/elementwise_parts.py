"""Elementwise layers that are parts of an operator, each with the name of its part."""

from __future__ import annotations

from dovetail.graph.layer import OutputSlot
from dovetail.layers import (
    BinaryOperation,
    Comparison,
    ComparisonOperation,
    ElementwiseBinary,
    ElementwiseUnary,
    UnaryOperation,
)

from .call import Call


def combined(call: Call, operation: BinaryOperation, a: OutputSlot, b: OutputSlot, part: str) -> OutputSlot:
    """Add a layer of two operands."""
    return call.add(ElementwiseBinary(operation=operation), a, b, part=part)


def applied(call: Call, operation: UnaryOperation, x: OutputSlot, part: str) -> OutputSlot:
    """Add a layer of one operand."""
    return call.add(ElementwiseUnary(operation=operation), x, part=part)


def compared(call: Call, operation: ComparisonOperation, a: OutputSlot, b: OutputSlot, part: str) -> OutputSlot:
    """Add a comparison of two operands."""
    return call.add(Comparison(operation=operation), a, b, part=part)
