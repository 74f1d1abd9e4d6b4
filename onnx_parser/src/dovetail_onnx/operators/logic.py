"""Comparisons, logic, choice."""

from __future__ import annotations

from dovetail.graph.layer import OutputSlot
from dovetail.layers import BinaryOperation, ComparisonOperation, UnaryOperation

from ..node import Node
from ..registry import builtin
from .elementwise import legacy_operand

COMPARISONS = {
    "Equal": ComparisonOperation.EQUAL,
    "Greater": ComparisonOperation.GREATER,
    "GreaterOrEqual": ComparisonOperation.GREATER_OR_EQUAL,
    "Less": ComparisonOperation.LESS,
    "LessOrEqual": ComparisonOperation.LESS_OR_EQUAL,
}
"""Comparisons, by operator."""
LOGIC = {"And": BinaryOperation.LOGICAL_AND, "Or": BinaryOperation.LOGICAL_OR, "Xor": BinaryOperation.LOGICAL_XOR}
"""Functions of two bools, by operator."""


@builtin(*COMPARISONS, since=7)
def comparison(node: Node) -> OutputSlot:
    """Translate a comparison."""
    return node.network.comparison(node.input(0), node.input(1), COMPARISONS[node.op], name=node.label())


@builtin("Equal", "Greater", "Less")
def comparison_1(node: Node) -> OutputSlot:
    """Translate a comparison whose broadcast is asked for by attributes."""
    return node.network.comparison(node.input(0), legacy_operand(node), COMPARISONS[node.op], name=node.label())


@builtin(*LOGIC, since=7)
def logic(node: Node) -> OutputSlot:
    """Translate and, or, exclusive or."""
    return node.network.binary(node.input(0), node.input(1), LOGIC[node.op], name=node.label())


@builtin(*LOGIC)
def logic_1(node: Node) -> OutputSlot:
    """Translate and, or, exclusive or, whose broadcast is asked for by attributes."""
    return node.network.binary(node.input(0), legacy_operand(node), LOGIC[node.op], name=node.label())


@builtin("Not")
def negation(node: Node) -> OutputSlot:
    """Translate not."""
    return node.network.unary(node.input(0), UnaryOperation.LOGICAL_NOT, name=node.label())


@builtin("Where")
def where(node: Node) -> OutputSlot:
    """Translate the choice between two tensors."""
    return node.network.where(node.input(0), node.input(1), node.input(2), name=node.label())
