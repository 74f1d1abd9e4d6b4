"""Functions of one element: from what layers name them to what kernels apply."""

from __future__ import annotations

import math

from dovetail import Descriptor
from dovetail.ground.records import NamedTuple
from dovetail.layers import Activation, ActivationFunction, ElementwiseUnary

from .codes import FUNCTIONS


class Function(NamedTuple):
    """A function of one element that is applied to results; `code` is one of `codes.FUNCTIONS`."""

    code: int = FUNCTIONS["identity"]
    a: float = 0.0
    b: float = 0.0


IDENTITY = Function()


def function_of(activation: ActivationFunction | str | None, alpha: float = 0.0, beta: float = 0.0) -> Function | None:
    """Return the function of an activation; None if no kernel has it."""
    if activation is None:
        return IDENTITY
    if activation == "relu":
        return Function(FUNCTIONS["clamp"], 0.0, math.inf)
    if activation == "bounded_relu":
        return Function(FUNCTIONS["clamp"], beta, alpha)
    code = FUNCTIONS.get(str(activation))
    return None if code is None else Function(code, alpha, beta)


def function_of_layer(descriptor: Descriptor) -> Function | None:
    """Return the function that a layer of one input applies per element; None without a kernel."""
    if isinstance(descriptor, Activation):
        return function_of(descriptor.function, descriptor.alpha, descriptor.beta)
    if isinstance(descriptor, ElementwiseUnary):
        code = FUNCTIONS.get(descriptor.operation.value)
        return None if code is None else Function(code)
    return None
