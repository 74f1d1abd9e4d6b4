"""Arithmetic with broadcast, functions of one element, casts."""

from __future__ import annotations

from dovetail import DType
from dovetail.graph.layer import OutputSlot
from dovetail.layers import BinaryOperation, UnaryOperation

from ..node import Node
from ..registry import builtin
from ..unsupported import Unsupported

UNARY = {
    "Abs": UnaryOperation.ABS,
    "Neg": UnaryOperation.NEG,
    "Sqrt": UnaryOperation.SQRT,
    "Reciprocal": UnaryOperation.RECIPROCAL,
    "Exp": UnaryOperation.EXP,
    "Log": UnaryOperation.LOG,
    "Erf": UnaryOperation.ERF,
    "Sin": UnaryOperation.SIN,
    "Cos": UnaryOperation.COS,
    "Tan": UnaryOperation.TAN,
    "Asin": UnaryOperation.ASIN,
    "Acos": UnaryOperation.ACOS,
    "Atan": UnaryOperation.ATAN,
    "Sinh": UnaryOperation.SINH,
    "Cosh": UnaryOperation.COSH,
    "Asinh": UnaryOperation.ASINH,
    "Acosh": UnaryOperation.ACOSH,
    "Atanh": UnaryOperation.ATANH,
    "Floor": UnaryOperation.FLOOR,
    "Ceil": UnaryOperation.CEIL,
    "Round": UnaryOperation.ROUND,
    "Sign": UnaryOperation.SIGN,
    "BitwiseNot": UnaryOperation.BITWISE_NOT,
    "IsNaN": UnaryOperation.IS_NAN,
}
"""Functions of one element, by operator."""

BINARY = {
    "Add": BinaryOperation.ADD,
    "Sub": BinaryOperation.SUB,
    "Mul": BinaryOperation.MUL,
    "Div": BinaryOperation.DIV,
    "Pow": BinaryOperation.POW,
    "BitwiseAnd": BinaryOperation.BITWISE_AND,
    "BitwiseOr": BinaryOperation.BITWISE_OR,
    "BitwiseXor": BinaryOperation.BITWISE_XOR,
}
"""Functions of two elements, by operator."""

_VARIADIC = {
    "Sum": BinaryOperation.ADD,
    "Mean": BinaryOperation.ADD,
    "Max": BinaryOperation.MAXIMUM,
    "Min": BinaryOperation.MINIMUM,
}


@builtin(*UNARY, ignored=["consumed_inputs"])
def unary(node: Node) -> OutputSlot:
    """Translate a function of one element."""
    return node.network.unary(node.input(0), UNARY[node.op], name=node.label())


@builtin("IsInf")
def is_inf(node: Node) -> OutputSlot:
    """Translate IsInf, of both signs or of one."""
    negative, positive = node.flag("detect_negative", True), node.flag("detect_positive", True)
    x, net = node.input(0), node.network
    if not negative and not positive:
        return net.fill(net.shape_of(x, name=node.label("shape")), False, DType.BOOL, name=node.label())
    one_sided = UnaryOperation.IS_NEGATIVE_INF if negative else UnaryOperation.IS_POSITIVE_INF
    return net.unary(x, UnaryOperation.IS_INF if negative and positive else one_sided, name=node.label())


@builtin(*BINARY, since=7, ignored=["consumed_inputs"])
def binary(node: Node) -> OutputSlot:
    """Translate a function of two elements with NumPy's broadcast."""
    return node.network.binary(node.input(0), node.input(1), BINARY[node.op], name=node.label())


@builtin("Add", "Sub", "Mul", "Div", "Pow", ignored=["consumed_inputs"])
def binary_1(node: Node) -> OutputSlot:
    """Translate a function of two elements whose broadcast is asked for by attributes."""
    return node.network.binary(node.input(0), legacy_operand(node), BINARY[node.op], name=node.label())


def legacy_operand(node: Node) -> OutputSlot:
    """Return the second operand, shaped so that NumPy's broadcast obeys `broadcast` and `axis`."""
    a, b = node.input(0), node.input(1)
    if not node.flag("broadcast") or not node.has("axis"):
        node.ignore("axis")
        return b
    axis = node.integer("axis")
    rank = node.known_rank(a, "the second operand is aligned at an axis of the first")
    own = node.known_rank(b, "the second operand is aligned at an axis of the first")
    trailing = rank - (axis % rank if rank else 0) - own
    if trailing < 0:
        raise node.malformed(f"aligns an operand of rank {own} at axis {axis} of one of rank {rank}")
    return node.network.expand_dims(b, range(own, own + trailing), name=node.label("aligned")) if trailing else b


@builtin(*_VARIADIC, ignored=["consumed_inputs"])
def variadic(node: Node) -> OutputSlot:
    """Translate a sum, mean, maximum or minimum of any number of tensors, from left to right."""
    inputs = node.inputs
    if not inputs:
        raise node.malformed("has no inputs")
    mean = node.op == "Mean" and len(inputs) > 1
    total = inputs[0]
    for index, other in enumerate(inputs[1:], 1):
        last = index == len(inputs) - 1 and not mean
        total = node.network.binary(total, other, _VARIADIC[node.op], name=node.label("" if last else f"{index}"))
    if not mean:
        return total
    return node.network.division(total, node.scalar(len(inputs), total, "count"), name=node.label())


@builtin("Mod")
def mod(node: Node) -> OutputSlot:
    """Translate the remainder, signed like the divisor or like the dividend."""
    operation = BinaryOperation.FMOD if node.flag("fmod") else BinaryOperation.MOD
    return node.network.binary(node.input(0), node.input(1), operation, name=node.label())


@builtin("BitShift")
def bit_shift(node: Node) -> OutputSlot:
    """Translate a shift of bits."""
    left = node.choice("direction", "", ["LEFT", "RIGHT"]) == "LEFT"
    operation = BinaryOperation.SHIFT_LEFT if left else BinaryOperation.SHIFT_RIGHT
    return node.network.binary(node.input(0), node.input(1), operation, name=node.label())


# `saturate` and `round_mode` speak of float8 alone, which is refused by its type.
@builtin("Cast", since=6, ignored=["saturate", "round_mode"])
def cast(node: Node) -> OutputSlot:
    """Translate a conversion to a given element type."""
    return node.network.cast(node.input(0), node.dtype_attribute("to"), name=node.label())


@builtin("CastLike", ignored=["saturate", "round_mode"])
def cast_like(node: Node) -> OutputSlot:
    """Translate a conversion to the element type of another tensor."""
    return node.network.cast(node.input(0), node.dtype(1), name=node.label())


@builtin("Identity", ignored=["consumed_inputs"])
def identity(node: Node) -> OutputSlot:
    """Pass the input on; no layer is needed."""
    return node.input(0)


@builtin("Dropout", ignored=["ratio", "seed", "consumed_inputs", "is_test"])
def dropout(node: Node) -> list[OutputSlot]:
    """Pass the input on, as inference does; the mask keeps everything."""
    x = node.input(0)
    if node.optional(2) is not None and node.number(2) is not False:
        raise Unsupported("training mode is on, or not known while parsing", attribute="training_mode")
    if not node.wants(1):
        return [x]
    shape = node.network.shape_of(x, name=node.label("shape"))
    # Until operator set 10 the mask has the type of the data.
    dtype = DType.BOOL if node.opset >= 10 else node.dtype()
    return [x, node.network.fill(shape, 1.0 if dtype.is_float else True, dtype, name=node.label("mask"))]
