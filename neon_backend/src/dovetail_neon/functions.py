"""Functions of elements: from the names that layers use to the codes of csrc/interface/activation.h and elementwise.h."""

from __future__ import annotations

import math

from dovetail import Descriptor
from dovetail.layers import Activation, ActivationFunction, ElementwiseUnary

from .kinds import IDENTITY, Function

_CODES = {
    name: code
    for code, name in enumerate(
        (
            *("identity", "clamp", "linear", "leaky_relu", "thresholded_relu", "elu", "selu", "celu", "sigmoid", "tanh"),
            *("hard_sigmoid", "hard_swish", "swish", "gelu", "gelu_tanh", "softplus", "softsign", "mish", "shrink"),
            *("abs", "neg", "sqrt", "rsqrt", "reciprocal", "exp", "log", "erf", "floor", "ceil", "round", "sign"),
            *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"),
        )
    )
}

OPERATIONS = ("add", "sub", "mul", "div", "maximum", "minimum", "squared_difference", "pow", "mod", "fmod", "prelu")
"""Functions of two elements, in the order of csrc/interface/elementwise.h."""


def function_of(activation: ActivationFunction | str | None, alpha: float = 0.0, beta: float = 0.0) -> Function | None:
    """Return the function of an activation; None if no kernel has it."""
    if activation is None:
        return IDENTITY
    if activation == "relu":
        return Function(_CODES["clamp"], 0.0, math.inf)
    if activation == "bounded_relu":
        return Function(_CODES["clamp"], beta, alpha)
    code = _CODES.get(str(activation))
    return None if code is None else Function(code, alpha, beta)


def function_of_layer(descriptor: Descriptor) -> Function | None:
    """Return the function that a layer of one input applies to each element; None if no kernel has it."""
    if isinstance(descriptor, Activation):
        return function_of(descriptor.function, descriptor.alpha, descriptor.beta)
    if isinstance(descriptor, ElementwiseUnary):
        code = _CODES.get(descriptor.operation.value)
        return None if code is None else Function(code)
    return None
