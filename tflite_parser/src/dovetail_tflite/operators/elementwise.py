"""Arithmetic with broadcast, functions of one element, casts."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from dovetail.graph.layer import OutputSlot
from dovetail.layers import (
    Activation,
    ActivationFunction,
    BinaryOperation,
    Cast,
    Comparison,
    ComparisonOperation,
    ElementwiseBinary,
    ElementwiseUnary,
    UnaryOperation,
    Where,
)

from ..call import Call
from ..elementwise_parts import applied, combined, compared
from ..registry import operator
from ..tables import add_table, has_table, inverse_roots, magnitudes, roots
from ..words import Reals, are_words, exponentials, tabulated

_ARITHMETIC = {
    "ADD": BinaryOperation.ADD,
    "SUB": BinaryOperation.SUB,
    "MUL": BinaryOperation.MUL,
}
_OF_REALS = {
    "DIV": BinaryOperation.DIV,
    "FLOOR_MOD": BinaryOperation.MOD,
    "POW": BinaryOperation.POW,
    "SQUARED_DIFFERENCE": BinaryOperation.SQUARED_DIFFERENCE,
}
_ORDERS = {"MAXIMUM": BinaryOperation.MAXIMUM, "MINIMUM": BinaryOperation.MINIMUM}
_BITS = {"BITWISE_XOR": BinaryOperation.BITWISE_XOR, "RIGHT_SHIFT": BinaryOperation.SHIFT_RIGHT}
_UNARY = {
    "NEG": UnaryOperation.NEG,
    "SIN": UnaryOperation.SIN,
    "COS": UnaryOperation.COS,
    "FLOOR": UnaryOperation.FLOOR,
    "CEIL": UnaryOperation.CEIL,
    "ROUND": UnaryOperation.ROUND,
    "SIGN": UnaryOperation.SIGN,
}
_OF_POSITIVES = {"LOG": UnaryOperation.LOG, "RSQRT": UnaryOperation.RSQRT}


# -- two operands ----------------------------------------------------------------------------------


@operator(*_ARITHMETIC, newest=7)
def arithmetic(call: Call) -> OutputSlot:
    """Translate a sum, a difference or a product."""
    descriptor = ElementwiseBinary(operation=_ARITHMETIC[call.op], **call.fused())
    return call.add_fixed(descriptor, call.input(0), call.input(1))


@operator("DIV", newest=2)
def division(call: Call) -> OutputSlot:
    """Translate a quotient; that of integers is cut off."""
    descriptor = ElementwiseBinary(operation=BinaryOperation.DIV, **call.fused())
    return call.add_real(descriptor, call.input(0), call.input(1))


@operator("FLOOR_MOD", "POW", "SQUARED_DIFFERENCE", newest=2)
def combination(call: Call) -> OutputSlot:
    """Translate a function of two elements that has no fixed point."""
    return call.add_real(ElementwiseBinary(operation=_OF_REALS[call.op]), call.input(0), call.input(1))


@operator(*_ORDERS, newest=4)
def order(call: Call) -> OutputSlot:
    """Translate the larger or the smaller of two elements."""
    a, b = call.input(0), call.input(1)
    build = call.add if call.share_quantization(a, b) else call.add_real
    return build(ElementwiseBinary(operation=_ORDERS[call.op]), a, b)


@operator(*_BITS)
def bits(call: Call) -> OutputSlot:
    """Translate a function of the bits of integers."""
    a, b = call.input(0), call.input(1)
    for slot in (a, b):
        if call.dtype_of(slot).is_float:
            raise call.malformed(f"reads {call.dtype_of(slot)}, expected integers")
    return call.add(ElementwiseBinary(operation=_BITS[call.op]), a, b)


@operator("FLOOR_DIV", newest=3)
def floor_division(call: Call) -> OutputSlot:
    """Translate a quotient rounded down."""
    a, b = call.real(call.input(0)), call.real(call.input(1))
    quotient = combined(call, BinaryOperation.DIV, a, b, "quotient")
    if call.dtype_of(a).is_float:
        return call.add_real(ElementwiseUnary(operation=UnaryOperation.FLOOR), quotient)
    # What was cut off is missing where the remainder has the sign of the dividend alone.
    down, cut = (combined(call, op, a, b, op.value) for op in (BinaryOperation.MOD, BinaryOperation.FMOD))
    differs = call.add(Comparison(operation=ComparisonOperation.NOT_EQUAL), down, cut, part="differs")
    missing = call.add(Cast(dtype=call.dtype_of(a)), differs, part="missing")
    return call.add(ElementwiseBinary(operation=BinaryOperation.SUB), quotient, missing)


@operator("ADD_N")
def sum_of_all(call: Call) -> OutputSlot:
    """Translate the sum of any number of tensors, from left to right."""
    total, *others = [call.real(slot) for slot in call.all_inputs()]
    for index, other in enumerate(others, 1):
        total = combined(call, BinaryOperation.ADD, total, other, str(index))
    return total if call.outputs[0].quantization is None else call.quantized(total)


@operator("ATAN2")
def angle(call: Call) -> OutputSlot:
    """Translate the angle of a point (second input, first input).

    The ratio of the smaller coordinate to the larger one gives it within an eighth of the circle,
    without overflow; comparisons tell which.
    """
    y, x = call.input(0), call.input(1)
    call.require_floats(y, x)
    high, wide = (applied(call, UnaryOperation.ABS, slot, part) for slot, part in ((y, "height"), (x, "width")))
    small = combined(call, BinaryOperation.MINIMUM, high, wide, "small")
    large = combined(call, BinaryOperation.MAXIMUM, high, wide, "large")
    ratio = combined(call, BinaryOperation.DIV, small, large, "quotient")
    # Of two infinities or two zeros the quotient is no number.
    one, zero = call.scalar(1.0, y, "one"), call.scalar(0.0, y, "zero")
    same = compared(call, ComparisonOperation.EQUAL, small, large, "same")
    ratio = call.add(Where(), same, one, ratio, part="ratio")
    nothing = compared(call, ComparisonOperation.EQUAL, large, zero, "nothing")
    ratio = call.add(Where(), nothing, zero, ratio, part="defined")
    turned = applied(call, UnaryOperation.ATAN, ratio, "eighth")
    steep = compared(call, ComparisonOperation.GREATER, high, wide, "steep")
    turned = _mirrored(call, turned, math.pi / 2, steep, "quarter")
    turned = _mirrored(call, turned, math.pi, _is_negative(call, x, zero, "left"), "half")
    below = _is_negative(call, y, zero, "below")
    return call.add(Where(), below, applied(call, UnaryOperation.NEG, turned, "mirrored"), turned)


def _mirrored(call: Call, turned: OutputSlot, whole: float, where: OutputSlot, part: str) -> OutputSlot:
    """Return whole - turned in some places, and turned in the others."""
    rest = combined(call, BinaryOperation.SUB, call.scalar(whole, turned, f"{part}_turn"), turned, f"{part}_rest")
    return call.add(Where(), where, rest, turned, part=part)


def _is_negative(call: Call, x: OutputSlot, zero: OutputSlot, part: str) -> OutputSlot:
    """Tell which elements have a minus sign; the zeros that have one become minus infinity."""
    inverse = applied(call, UnaryOperation.RECIPROCAL, x, f"{part}_inverse")
    is_zero = compared(call, ComparisonOperation.EQUAL, x, zero, f"{part}_zero")
    signed = call.add(Where(), is_zero, inverse, x, part=f"{part}_sign")
    return compared(call, ComparisonOperation.LESS, signed, zero, part)


# -- one operand -----------------------------------------------------------------------------------


@operator(*_UNARY, newest=5)
def unary(call: Call) -> OutputSlot:
    """Translate a function of one element."""
    return call.add_fixed(ElementwiseUnary(operation=_UNARY[call.op]), call.input(0))


@operator("ABS", newest=5)
def magnitude(call: Call) -> OutputSlot:
    """Translate the magnitude."""
    x = call.input(0)
    if has_table(call, x):
        return add_table(call, x, magnitudes(call, x))
    return call.add_real(ElementwiseUnary(operation=UnaryOperation.ABS), x)


@operator("SQRT", newest=2)
def root(call: Call) -> OutputSlot:
    """Translate the square root."""
    x = call.input(0)
    if has_table(call, x):
        return add_table(call, x, roots(call, x))
    return call.add_real(ElementwiseUnary(operation=UnaryOperation.SQRT), x)


@operator("EXP", newest=2)
def exponential(call: Call) -> OutputSlot:
    """Translate the exponential function."""
    x = call.input(0)
    mine, theirs = call.quantization_of(x), call.outputs[0].quantization
    if mine is not None and theirs is not None and are_words(call, x):
        return add_table(call, x, tabulated(exponentials, mine, theirs))
    return call.add_fixed(ElementwiseUnary(operation=UnaryOperation.EXP), x)


@operator(*_OF_POSITIVES, newest=3)
def unary_of_positives(call: Call) -> OutputSlot:
    """Translate a function of positive numbers; integers that stand for others count as zero."""
    x = call.input(0)
    mine, theirs = call.quantization_of(x), call.outputs[0].quantization
    if mine is not None and theirs is not None and are_words(call, x):
        return add_table(call, x, tabulated(partial(_of_positives, call.op, theirs.scale[0]), mine, theirs))
    if call.op == "RSQRT" and has_table(call, x):
        return add_table(call, x, inverse_roots(call, x))
    if mine is not None:
        x = call.applied(Activation(function=ActivationFunction.RELU), x, "positive")
    return call.add_fixed(ElementwiseUnary(operation=_OF_POSITIVES[call.op]), x)


def _of_positives(op: str, scale: float, x: Reals) -> Reals:
    """Compute a function whose limit at zero, the range of 16 bits of a scale, holds below, too."""
    limit, known = (-0x8000 if op == "LOG" else 0x7FFF) * scale, np.where(x > 0, x, 1)
    found = np.log(known.astype(np.float64)).astype(x.dtype) if op == "LOG" else 1 / np.sqrt(known)
    return np.where(x > 0, found, x.dtype.type(limit))


@operator("SQUARE")
def square(call: Call) -> OutputSlot:
    """Translate the product of an element with itself."""
    x = call.input(0)
    return call.add_fixed(ElementwiseBinary(operation=BinaryOperation.MUL), x, x)


@operator("CAST", newest=8)
def cast(call: Call) -> OutputSlot:
    """Translate a conversion of integers as they are, or of other numbers."""
    return call.add(Cast(dtype=call.outputs[0].dtype), call.input(0))
