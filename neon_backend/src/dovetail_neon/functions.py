"""Functions of one element: from the names that layers use to the codes of csrc/interface/activation.h."""

from __future__ import annotations

import math

from dovetail.layers import ActivationFunction

from .kinds import IDENTITY, Function

CLAMP, LEAKY_RELU, SIGMOID, HARD_SIGMOID, SWISH, HARD_SWISH, GELU = 1, 2, 6, 7, 9, 10, 11


OPERATIONS = ("add", "sub", "mul", "div", "maximum", "minimum", "squared_difference")
"""Functions of two elements, in the order of csrc/interface/elementwise.h."""


def function_of(activation: ActivationFunction | str | None, alpha: float = 0.0, beta: float = 0.0) -> Function | None:
    """Return the function of an activation; None if no kernel has it."""
    match activation:
        case None:
            return IDENTITY
        case "relu":
            return Function(CLAMP, 0.0, math.inf)
        case "bounded_relu":
            return Function(CLAMP, beta, alpha)
        case "leaky_relu":
            return Function(LEAKY_RELU, alpha)
        case "sigmoid":
            return Function(SIGMOID)
        case "hard_sigmoid":
            return Function(HARD_SIGMOID, alpha, beta)
        case "hard_swish":
            return Function(HARD_SWISH)
    return None
