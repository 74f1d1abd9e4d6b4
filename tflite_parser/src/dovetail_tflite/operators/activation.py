"""Functions of one element with a name of their own, and softmax."""

from __future__ import annotations

import math

from dovetail.graph.layer import OutputSlot
from dovetail.layers import Activation, ActivationFunction, Prelu, Softmax

from ..call import Call
from ..registry import operator
from ..tables import add_table, clamped, rescaled
from ..words import add_softmax, are_words, erf_gelu, sigmoid_table, tabulated, tanh_gelu, tanh_table

_CLAMPS = {
    "RELU": Activation(function=ActivationFunction.RELU),
    "RELU6": Activation(function=ActivationFunction.BOUNDED_RELU, alpha=6.0, beta=0.0),
    "RELU_N1_TO_1": Activation(function=ActivationFunction.BOUNDED_RELU, alpha=1.0, beta=-1.0),
    "RELU_0_TO_1": Activation(function=ActivationFunction.BOUNDED_RELU, alpha=1.0, beta=0.0),
}
_CURVES = {
    "ELU": Activation(function=ActivationFunction.ELU, alpha=1.0),
    "HARD_SWISH": Activation(function=ActivationFunction.HARD_SWISH),
}


@operator(*_CLAMPS, newest=3)
def clamp(call: Call) -> OutputSlot:
    """Translate a function that cuts off what lies outside of a range."""
    x, descriptor = call.input(0), _CLAMPS[call.op]
    if are_words(call, x):
        most = descriptor.alpha if descriptor.function is ActivationFunction.BOUNDED_RELU else math.inf
        return add_table(call, x, clamped(call, x, descriptor.beta, most))
    return call.add_fixed(descriptor, x)


@operator(*_CURVES, newest=3)
def curve(call: Call) -> OutputSlot:
    """Translate a function without options."""
    return call.add_fixed(_CURVES[call.op], call.input(0))


@operator("LOGISTIC", "TANH", newest=3)
def saturation(call: Call) -> OutputSlot:
    """Translate a function that tells whether an element is large."""
    x, is_tanh = call.input(0), call.op == "TANH"
    quantization = call.quantization_of(x)
    if quantization is not None and are_words(call, x):
        return add_table(call, x, (tanh_table if is_tanh else sigmoid_table)(quantization.scale[0]))
    return call.add_fixed(Activation(function=ActivationFunction.TANH if is_tanh else ActivationFunction.SIGMOID), x)


@operator("LEAKY_RELU", newest=2)
def leaky_relu(call: Call) -> OutputSlot:
    """Translate a function with one slope below zero."""
    x, alpha = call.input(0), call.option("alpha")
    if are_words(call, x) and math.isfinite(alpha):
        return add_table(call, x, rescaled(call, x, alpha))
    return call.add_fixed(Activation(function=ActivationFunction.LEAKY_RELU, alpha=alpha), x)


@operator("GELU", newest=3)
def gelu(call: Call) -> OutputSlot:
    """Translate a Gaussian error linear unit, exact or by tanh."""
    by_tanh = call.has_options() and call.option("approximate")
    x = call.input(0)
    mine, theirs = call.quantization_of(x), call.outputs[0].quantization
    if mine is not None and theirs is not None and are_words(call, x):
        return add_table(call, x, tabulated(tanh_gelu if by_tanh else erf_gelu, mine, theirs))
    function = ActivationFunction.GELU_TANH if by_tanh else ActivationFunction.GELU
    return call.add_fixed(Activation(function=function), x)


@operator("PRELU")
def prelu(call: Call) -> OutputSlot:
    """Translate a function whose slope below zero is a tensor."""
    return call.add_fixed(Prelu(), call.input(0), call.input(1))


@operator("SOFTMAX", newest=3)
def softmax(call: Call) -> OutputSlot:
    """Translate softmax along the last axis."""
    x, beta = call.input(0), call.option("beta")
    if not math.isfinite(beta):
        raise call.malformed(f"has beta {beta}")
    if beta > 0 and are_words(call, x):
        return add_softmax(call, x, beta)
    return call.add_fixed(Softmax(axis=-1, beta=beta), x)


@operator("LOG_SOFTMAX", newest=2)
def log_softmax(call: Call) -> OutputSlot:
    """Translate the logarithm of softmax along the last axis."""
    return call.add_real(Softmax(axis=-1, log=True), call.input(0))
