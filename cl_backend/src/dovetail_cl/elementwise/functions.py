"""Functions of elements, as expressions in OpenCL C."""

from __future__ import annotations

from dovetail import DType
from dovetail.layers import ActivationFunction, BinaryOperation, ComparisonOperation, UnaryOperation

SOURCE = "elementwise/functions.cl"
"""What the expressions call."""

_A, _B = "{alpha}", "{beta}"
_ACTIVATIONS = {
    "linear": f"({_A} * (v) + {_B})",
    "relu": "((v) < 0 ? 0 : (v))",
    "bounded_relu": f"bounded(v, {_B}, {_A})",
    "leaky_relu": f"((v) >= 0 ? (v) : {_A} * (v))",
    "thresholded_relu": f"((v) <= {_A} ? 0 : (v))",
    "elu": f"((v) >= 0 ? (v) : {_A} * expm1(v))",
    "selu": f"({_B} * ((v) > 0 ? (v) : {_A} * expm1(v)))",
    "celu": f"((v) > 0 ? (v) : {_A} * expm1((v) / {_A}))",
    "sigmoid": "(1.0f / (1.0f + exp(-(v))))",
    "tanh": "tanh(v)",
    "hard_sigmoid": f"bounded({_A} * (v) + {_B}, 0.0f, 1.0f)",
    "hard_swish": "((v) * bounded((v) / 6.0f + 0.5f, 0.0f, 1.0f))",
    "swish": f"((v) / (1.0f + exp(-{_A} * (v))))",
    "gelu": "gelu_of(v)",
    "gelu_tanh": "gelu_tanh_of(v)",
    "softplus": "softplus(v)",
    "softsign": "((v) / (1.0f + fabs(v)))",
    "mish": "((v) * tanh(softplus(v)))",
    "shrink": f"((v) < -{_A} ? (v) + {_B} : (v) > {_A} ? (v) - {_B} : isnan(v) ? (v) : 0.0f)",
}
_UNARY = {
    "abs": "fabs(v)",
    "neg": "(-(v))",
    "reciprocal": "(1.0f / (v))",
    "rsqrt": "(1.0f / sqrt(v))",
    "round": "rint(v)",
    "sign": "sign_of(v)",
    "is_nan": "(isnan(v) != 0)",
    "is_inf": "(isinf(v) != 0)",
    "is_positive_inf": "((v) == INFINITY)",
    "is_negative_inf": "((v) == -INFINITY)",
    "logical_not": "(!(v))",
}
_UNARY_OF_INTEGERS = {"neg": "(0 - (v))", "abs": "((v) < 0 ? 0 - (v) : (v))", "sign": "(((v) > 0) - ((v) < 0))"}
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
}
_COMPARISONS = {
    "equal": "==",
    "not_equal": "!=",
    "greater": ">",
    "greater_or_equal": ">=",
    "less": "<",
    "less_or_equal": "<=",
}


def literal(value: float) -> str:
    """Return a number as a float of OpenCL C."""
    if value != value:
        return "NAN"
    if value in (float("inf"), float("-inf")):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    return f"({float(value).hex()}f)"


def activation(function: ActivationFunction | None, alpha: float, beta: float, value: str = "v") -> str:
    """Return an activation of a value; None: the value."""
    if function is None:
        return value
    text = _ACTIVATIONS[function.value].format(alpha=literal(alpha), beta=literal(beta))
    return text.replace("(v)", f"({value})").replace("(v,", f"({value},")


def unary(operation: UnaryOperation, dtype: DType) -> str:
    """Return a function of `v`."""
    if dtype.is_integer:
        return _UNARY_OF_INTEGERS[operation.value]
    return _UNARY.get(operation.value, f"{operation.value}(v)")


def binary(operation: BinaryOperation, dtype: DType) -> str:
    """Return a function of `v` and `w`."""
    return (_BINARY_OF_INTEGERS if dtype.is_integer else _BINARY)[operation.value]


def comparison(operation: ComparisonOperation) -> str:
    """Return a comparison of `v` and `w`."""
    return f"((v) {_COMPARISONS[operation.value]} (w))"
