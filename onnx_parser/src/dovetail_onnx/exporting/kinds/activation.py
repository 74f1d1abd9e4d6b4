"""Functions of one element, and softmax."""

from __future__ import annotations

from typing import Any

from dovetail.graph.element_types import DType
from dovetail.layers import Activation, ActivationFunction, Prelu, Softmax

from ..rules import Saying, says
from ..unexportable import Unexportable

_PLAIN = {
    ActivationFunction.SIGMOID: "Sigmoid",
    ActivationFunction.TANH: "Tanh",
    ActivationFunction.HARD_SWISH: "HardSwish",
    ActivationFunction.SOFTPLUS: "Softplus",
    ActivationFunction.SOFTSIGN: "Softsign",
    ActivationFunction.MISH: "Mish",
}
# Operator, and its attributes for alpha and beta.
_PARAMETRIC = {
    ActivationFunction.ELU: ("Elu", "alpha", ""),
    ActivationFunction.LEAKY_RELU: ("LeakyRelu", "alpha", ""),
    ActivationFunction.THRESHOLDED_RELU: ("ThresholdedRelu", "alpha", ""),
    ActivationFunction.HARD_SIGMOID: ("HardSigmoid", "alpha", "beta"),
    ActivationFunction.SELU: ("Selu", "alpha", "gamma"),
    ActivationFunction.SHRINK: ("Shrink", "lambd", "bias"),
}


@says(Activation)
def activation(say: Saying) -> str:
    """Say an activation."""
    return function_of(say, say.input(), say.descriptor.function, say.descriptor.alpha, say.descriptor.beta)


def activated(say: Saying, value: str) -> str:
    """Apply the activation that is fused into a layer."""
    fused = say.descriptor
    if fused.activation is None:
        return value
    return function_of(say, value, fused.activation, fused.activation_alpha, fused.activation_beta)


def function_of(say: Saying, x: str, function: ActivationFunction, alpha: float, beta: float) -> str:
    """Say a function of a value; `ActivationFunction` says what alpha and beta mean."""
    dtype = say.dtype_of(x)
    if function in _PLAIN:
        return say.op(_PLAIN[function], x)
    if function in _PARAMETRIC:
        operator, first, second = _PARAMETRIC[function]
        attributes: dict[str, Any] = {first: float(alpha)} | ({second: float(beta)} if second else {})
        return say.op(operator, x, **attributes)
    match function:
        case ActivationFunction.RELU:
            return x if dtype.is_integer and not dtype.is_signed else say.op("Relu", x)
        case ActivationFunction.BOUNDED_RELU:
            return _bounded(say, x, alpha, beta)
        case ActivationFunction.LINEAR:
            scaled = x if alpha == 1 else say.op("Mul", x, say.scalar(alpha, dtype))
            return scaled if beta == 0 else say.op("Add", scaled, say.scalar(beta, dtype))
        case ActivationFunction.SWISH:
            scaled = x if alpha == 1 else say.op("Mul", x, say.scalar(alpha, dtype))
            return say.op("Mul", x, say.op("Sigmoid", scaled))
        case ActivationFunction.CELU:
            return _celu(say, x, alpha)
        case ActivationFunction.GELU:
            return say.op("Gelu", x)
        case ActivationFunction.GELU_TANH:
            return say.op("Gelu", x, approximate="tanh")
    raise Unexportable(f"there is no operator for the function {function}")


def _bounded(say: Saying, x: str, high: float, low: float) -> str:
    dtype = say.dtype_of(x)
    if dtype.is_integer:
        least, most = dtype.limits
        if not (high == int(high) and low == int(low) and least <= low <= most and least <= high <= most):
            raise Unexportable(f"the bounds {low} and {high} are no numbers of {dtype}")
    return say.op("Clip", x, say.scalar(low, dtype), say.scalar(high, dtype))


def _celu(say: Saying, x: str, alpha: float) -> str:
    dtype = say.dtype_of(x)
    if dtype is DType.FLOAT32:
        return say.op("Celu", x, alpha=float(alpha))
    zero, one, factor = (say.scalar(value, dtype) for value in (0, 1, alpha))
    below = say.op("Mul", factor, say.op("Sub", say.op("Exp", say.op("Div", x, factor)), one))
    return say.op("Add", say.op("Max", zero, x), say.op("Min", zero, below))


@says(Prelu)
def prelu(say: Saying) -> str:
    """Say a slope for negative numbers."""
    return say.op("PRelu", say.input(0), say.input(1))


@says(Softmax)
def softmax(say: Saying) -> str:
    """Say softmax, or its logarithm."""
    x, beta = say.input(), say.descriptor.beta
    scaled = x if beta == 1 else say.op("Mul", x, say.scalar(beta))
    return say.op("LogSoftmax" if say.descriptor.log else "Softmax", scaled, axis=say.descriptor.axis)
