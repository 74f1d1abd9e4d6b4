"""Arithmetic with broadcast, functions of one element, comparisons, choice, casts."""

from __future__ import annotations

import numpy as np

from dovetail.graph.element_types import DType
from dovetail.layers import (
    BinaryOperation,
    Cast,
    Comparison,
    ComparisonOperation,
    Conditional,
    ElementwiseBinary,
    ElementwiseUnary,
    UnaryOperation,
    Where,
)

from ...operators.elementwise import BINARY, UNARY
from ...operators.logic import COMPARISONS, LOGIC
from ..rules import Saying, says
from ..unexportable import Unexportable
from .activation import activated

_UNARY = {operation: operator for operator, operation in UNARY.items()} | {UnaryOperation.LOGICAL_NOT: "Not"}
_BINARY = {operation: operator for operator, operation in (BINARY | LOGIC).items()} | {
    BinaryOperation.MAXIMUM: "Max",
    BinaryOperation.MINIMUM: "Min",
}
_COMPARISONS = {operation: operator for operator, operation in COMPARISONS.items()}
_ROUNDING = (UnaryOperation.FLOOR, UnaryOperation.CEIL, UnaryOperation.ROUND)
_OF_BOOLS = {
    BinaryOperation.BITWISE_AND: BinaryOperation.LOGICAL_AND,
    BinaryOperation.BITWISE_OR: BinaryOperation.LOGICAL_OR,
    BinaryOperation.BITWISE_XOR: BinaryOperation.LOGICAL_XOR,
    BinaryOperation.MAXIMUM: BinaryOperation.LOGICAL_OR,
    BinaryOperation.MINIMUM: BinaryOperation.LOGICAL_AND,
}
_DIVIDING = (BinaryOperation.DIV, BinaryOperation.MOD, BinaryOperation.FMOD)


@says(ElementwiseUnary)
def unary(say: Saying) -> str:
    """Say a function of one element."""
    x, operation, dtype = say.input(), say.descriptor.operation, say.dtype
    if operation in _ROUNDING and dtype.is_integer:
        return x
    match operation:
        case UnaryOperation.RSQRT:
            return say.op("Reciprocal", say.op("Sqrt", x))
        case UnaryOperation.IS_INF:
            return say.op("IsInf", x)
        case UnaryOperation.IS_POSITIVE_INF:
            return say.op("IsInf", x, detect_negative=0)
        case UnaryOperation.IS_NEGATIVE_INF:
            return say.op("IsInf", x, detect_positive=0)
    return say.op(_UNARY[operation], x)


@says(ElementwiseBinary)
def binary(say: Saying) -> str:
    """Say a function of two elements."""
    return activated(say, _binary(say))


def _binary(say: Saying) -> str:
    a, b = say.inputs
    operation, dtype = say.descriptor.operation, say.dtype
    if dtype is DType.BOOL:
        operation = _OF_BOOLS.get(operation, operation)
    if operation in _DIVIDING and dtype.is_integer:
        _require_divisor(say)
    match operation:
        case BinaryOperation.SQUARED_DIFFERENCE:
            difference = say.op("Sub", a, b)
            return say.op("Mul", difference, difference)
        case BinaryOperation.FMOD:
            return say.op("Mod", a, b, fmod=1)
        case BinaryOperation.MOD:
            return say.op("Mod", a, b) if dtype.is_integer else _floored_remainder(say, a, b)
        case BinaryOperation.SHIFT_LEFT | BinaryOperation.SHIFT_RIGHT:
            return _shifted(say, a, b, operation is BinaryOperation.SHIFT_LEFT)
    return say.op(_BINARY[operation], a, b)


def _require_divisor(say: Saying) -> None:
    """Refuse integer divisors that may crash runtimes.

    Dovetail defines a division by zero, ONNX does not.
    """
    divisor = say.value_of(1)
    if divisor is None or not divisor.all():
        raise Unexportable("integers divided by zero give 0 here and are undefined in ONNX: only a constant divisor is taken")


def _floored_remainder(say: Saying, a: str, b: str) -> str:
    """Return the remainder with the sign of the divisor.

    ONNX's remainder of floats has the sign of the dividend; if the signs differ, it is moved by the
    divisor.
    """
    remainder, zero = say.op("Mod", a, b, fmod=1), say.scalar(0)
    negative = say.op("Xor", say.op("Less", remainder, zero), say.op("Less", b, zero))
    moved = say.op("And", negative, say.op("Not", say.op("Equal", remainder, zero)))
    return say.op("Where", moved, say.op("Add", remainder, b), remainder)


def _shifted(say: Saying, a: str, b: str, left: bool) -> str:
    count, bits = say.value_of(1), say.dtype.bits
    if count is None or (np.asarray(count) >= bits).any():
        raise Unexportable(
            f"a shift by {bits} bits or more gives 0 here and is undefined in ONNX: only constants below are taken"
        )
    return say.op("BitShift", a, b, direction="LEFT" if left else "RIGHT")


@says(Comparison)
def comparison(say: Saying) -> str:
    """Say a comparison."""
    a, b = say.inputs
    if say.descriptor.operation is ComparisonOperation.NOT_EQUAL:
        return say.op("Not", say.op("Equal", a, b))
    return say.op(_COMPARISONS[say.descriptor.operation], a, b)


@says(Where)
def where(say: Saying) -> str:
    """Say the choice between two tensors."""
    return say.op("Where", *say.inputs)


@says(Conditional)
def conditional(say: Saying) -> str:
    """Say the choice of one element, both branches being computed."""
    condition, then, other = say.inputs
    one = say.op("Reshape", condition, say.integers([]))
    return say.op("Where", one, then, other)


@says(Cast)
def cast(say: Saying) -> str:
    """Say a conversion."""
    return say.cast(say.input(), say.descriptor.dtype)
