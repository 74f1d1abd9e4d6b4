"""Functions of elements, as expressions in OpenCL C."""

from __future__ import annotations

import math

from dovetail import DType
from dovetail.layers import ActivationFunction, BinaryOperation, ComparisonOperation, UnaryOperation

from ..kernels import TYPES

_ACTIVATIONS = {
    "linear": "({alpha} * ({v}) + {beta})",
    "relu": "relu({v})",
    "bounded_relu": "bounded({v}, {beta}, {alpha})",
    "leaky_relu": "leaky_relu({v}, {alpha})",
    "thresholded_relu": "thresholded_relu({v}, {alpha})",
    "elu": "elu({v}, {alpha})",
    "selu": "selu({v}, {alpha}, {beta})",
    "celu": "celu({v}, {alpha})",
    "sigmoid": "sigmoid_of({v})",
    "tanh": "tanh_of({v})",
    "hard_sigmoid": "bounded({alpha} * ({v}) + {beta}, 0.0f, 1.0f)",
    "hard_swish": "hard_swish({v})",
    "swish": "swish({v}, {alpha})",
    "gelu": "gelu({v})",
    "gelu_tanh": "gelu_tanh({v})",
    "softplus": "softplus_of({v})",
    "softsign": "softsign({v})",
    "mish": "mish({v})",
    "shrink": "shrink({v}, {alpha}, {beta})",
}
_UNARY = {
    "abs": "fabs(v)",
    "neg": "(-(v))",
    "reciprocal": "(1.0f / (v))",
    "rsqrt": "(1.0f / sqrt(v))",
    "round": "rint(v)",
    "sign": "sign_of(v)",
    "exp": "exp_of(v)",
    "log": "log_of(v)",
    "erf": "erf_of(v)",
    "sin": "sin_of(v)",
    "cos": "cos_of(v)",
    "tan": "tan_of(v)",
    "is_nan": "(isnan(v) != 0)",
    "is_inf": "(isinf(v) != 0)",
    "is_positive_inf": "((v) == INFINITY)",
    "is_negative_inf": "((v) == -INFINITY)",
    "logical_not": "(!(v))",
}
_UNARY_OF_INTEGERS = {
    "neg": "(0 - (v))",
    "abs": "((v) < 0 ? 0 - (v) : (v))",
    "sign": "(((v) > 0) - ((v) < 0))",
    "bitwise_not": "(~(v))",
    **dict.fromkeys(("floor", "ceil", "round"), "(v)"),
}
_BINARY = {
    "add": "((v) + (w))",
    "sub": "((v) - (w))",
    "mul": "((v) * (w))",
    "div": "((v) / (w))",
    "maximum": "largest(v, w)",
    "minimum": "smallest(v, w)",
    "pow": "pow(v, w)",
    "mod": "modulo(v, w)",
    "fmod": "fmod(v, w)",
    "squared_difference": "(((v) - (w)) * ((v) - (w)))",
    "logical_and": "((v) && (w))",
    "logical_or": "((v) || (w))",
    "logical_xor": "(!(v) != !(w))",
}
_BINARY_OF_INTEGERS = {
    "add": "((v) + (w))",
    "sub": "((v) - (w))",
    "mul": "((v) * (w))",
    "maximum": "max(v, w)",
    "minimum": "min(v, w)",
    "div": "divided(v, w)",
    "mod": "modulo_of(v, w)",
    "fmod": "remainder_of(v, w)",
    "pow": "power_of(({wide})(v), ({wide})(w))",
    "squared_difference": "(((v) - (w)) * ((v) - (w)))",
    "bitwise_and": "((v) & (w))",
    "bitwise_or": "((v) | (w))",
    "bitwise_xor": "((v) ^ (w))",
    "shift_left": "shifted_left((ulong)(v), (ulong)(w))",
    "shift_right": "shifted_right(({wide})(v), ({wide})(w))",
}
"""Of `wide` integers: those of 64 bits."""
_BINARY_OF_BOOLS = {
    "bitwise_and": "((v) & (w))",
    "bitwise_or": "((v) | (w))",
    "bitwise_xor": "((v) ^ (w))",
    "maximum": "((v) | (w))",
    "minimum": "((v) & (w))",
}
_COMPARISONS = {
    "equal": "==",
    "not_equal": "!=",
    "greater": ">",
    "greater_or_equal": ">=",
    "less": "<",
    "less_or_equal": "<=",
}


def mathematics(width: int = 1) -> str:
    """Return the source of powers of e and the like, of vectors of so many floats."""
    return f"elementwise/mathematics.cl:float{width}:int{width}" if width > 1 else "elementwise/mathematics.cl:float:int"


def vector_source(width: int = 1) -> str:
    """Return what the expressions call, of vectors of so many floats."""
    own = mathematics(width)
    return f"{own} {own.replace('mathematics', 'functions')}"


SOURCE = vector_source()
"""What the expressions call, of floats."""
DOUBLES = "elementwise/doubles.cl elementwise/functions.cl:double:long"
"""The same, of doubles."""
INTEGERS = "elementwise/integers.cl"
"""The same, of integers; and what casts call. It stands behind one of the others."""


def literal(value: float) -> str:
    """Return a number as OpenCL C, in the type that real numbers are computed in."""
    if value != value:
        return "NAN"
    if value in (float("inf"), float("-inf")):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    return f"REAL({float(value).hex()})" if value >= 0 else f"(-REAL({float(-value).hex()}))"


def activation(function: ActivationFunction | None, alpha: float, beta: float, value: str = "v") -> str:
    """Return an activation of a value; None: the value."""
    if function is None:
        return value
    return _ACTIVATIONS[function.value].format(v=value, alpha=literal(alpha), beta=literal(beta))


def unary(operation: UnaryOperation, dtype: DType) -> str:
    """Return a function of `v`."""
    if dtype.is_integer:
        return _UNARY_OF_INTEGERS[operation.value]
    return _UNARY.get(operation.value, f"{operation.value}(v)")


def binary(operation: BinaryOperation, dtype: DType) -> str:
    """Return a function of `v` and `w`."""
    if dtype.is_integer:
        return _BINARY_OF_INTEGERS[operation.value].replace("{wide}", "long" if dtype.is_signed else "ulong")
    if dtype is DType.BOOL:
        return _BINARY_OF_BOOLS.get(operation.value) or _BINARY[operation.value]
    return _BINARY[operation.value]


def cast(source: DType, target: DType) -> str:
    """Return a cast of `v`."""
    if target is DType.BOOL:
        return "((v) != 0)"
    if target.is_integer:
        return "whole_of(v)" if source.is_float else "(v)"
    if target not in (DType.FLOAT16, DType.BFLOAT16) or source.bits < 32 or source is DType.FLOAT32:
        return "(v)"
    return "odd_float(v)" if source is DType.FLOAT64 else f"odd_float(({'long' if source.is_signed else 'ulong'})(v))"


def clamp_of_integers(function: ActivationFunction, alpha: float, beta: float, dtype: DType, value: str = "v") -> str:
    """Return an activation of integers, which wrap before."""
    low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
    high = low + (1 << dtype.bits) - 1
    if function is ActivationFunction.RELU:
        least, most = max(low, 0), high
    else:
        least = high if beta > high else max(low, math.ceil(beta)) if beta > low else low
        most = low if alpha < low else min(high, math.floor(alpha)) if alpha < high else high
    kept = TYPES[dtype]
    bounds = ", ".join(f"({kept}){_whole(one)}" for one in (least, most))
    return f"bounded_whole(({kept})({value}), {bounds})"


def _whole(value: int) -> str:
    return f"({value}UL)" if value >= 0 else f"(0 - {-value}UL)"


def comparison(operation: ComparisonOperation) -> str:
    """Return a comparison of `v` and `w`."""
    return f"((v) {_COMPARISONS[operation.value]} (w))"
