"""Functions of one element, clipping, and softmax."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dovetail import DType
from dovetail.graph.layer import OutputSlot
from dovetail.layers import ActivationFunction

from ..node import Node
from ..registry import builtin

_FLOAT32_MAX = float(np.finfo(np.float32).max)
_BFLOAT16_MAX = float.fromhex("0x1.fep127")

_PLAIN = {
    "Relu": ActivationFunction.RELU,
    "Sigmoid": ActivationFunction.SIGMOID,
    "Tanh": ActivationFunction.TANH,
    "HardSwish": ActivationFunction.HARD_SWISH,
    "Softplus": ActivationFunction.SOFTPLUS,
    "Softsign": ActivationFunction.SOFTSIGN,
    "Mish": ActivationFunction.MISH,
}

# Function, then attribute and default for alpha and beta.
_Parameter = tuple[str, float]
_PARAMETRIC: dict[str, tuple[ActivationFunction, _Parameter, _Parameter | None]] = {
    "Elu": (ActivationFunction.ELU, ("alpha", 1.0), None),
    "Celu": (ActivationFunction.CELU, ("alpha", 1.0), None),
    "LeakyRelu": (ActivationFunction.LEAKY_RELU, ("alpha", 0.01), None),
    "ThresholdedRelu": (ActivationFunction.THRESHOLDED_RELU, ("alpha", 1.0), None),
    "Swish": (ActivationFunction.SWISH, ("alpha", 1.0), None),
    "HardSigmoid": (ActivationFunction.HARD_SIGMOID, ("alpha", 0.2), ("beta", 0.5)),
    "Selu": (ActivationFunction.SELU, ("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875)),
    "Shrink": (ActivationFunction.SHRINK, ("lambd", 0.5), ("bias", 0.0)),
}


@builtin(*_PLAIN, ignored=["consumed_inputs"])
def plain(node: Node) -> OutputSlot:
    """Translate an activation without parameters."""
    return node.network.activation(node.input(0), _PLAIN[node.op], name=node.label())


@builtin(*_PARAMETRIC, ignored=["consumed_inputs"])
def parametric(node: Node) -> OutputSlot:
    """Translate an activation with alpha, or alpha and beta."""
    function, first, second = _PARAMETRIC[node.op]
    beta = 0.0 if second is None else node.floating(*second)
    return node.network.activation(node.input(0), function, node.floating(*first), beta, name=node.label())


@builtin("Gelu")
def gelu(node: Node) -> OutputSlot:
    """Translate Gelu, exact or by tanh."""
    tanh = node.choice("approximate", "none", ["none", "tanh"]) == "tanh"
    return node.network.gelu(node.input(0), approximate=tanh, name=node.label())


@builtin("PRelu", since=7)
def prelu(node: Node) -> OutputSlot:
    """Translate PRelu, whose slope broadcasts to the input."""
    return node.network.prelu(node.input(0), node.input(1), name=node.label())


@builtin("PRelu", ignored=["consumed_inputs"])
def prelu_1(node: Node) -> OutputSlot:
    """Translate PRelu whose slope is one per channel."""
    x, slope = node.input(0), node.input(1)
    if node.size_of(slope, 0) == 1:
        return node.network.prelu(x, slope, name=node.label())
    trailing = node.known_rank(x, "the slope lies along axis 1") - 2
    if trailing > 0:
        slope = node.network.expand_dims(slope, range(1, trailing + 1), name=node.label("slope"))
    return node.network.prelu(x, slope, name=node.label())


@builtin("Clip", since=11)
def clip(node: Node) -> OutputSlot:
    """Translate Clip; constant bounds of floats make it an activation.

    A bound that is left out is the largest finite number.
    """
    x, dtype, slots = node.input(0), node.dtype(), (node.optional(1), node.optional(2))
    bounds = [None if slot is None else node.number(index) for index, slot in enumerate(slots, 1)]
    if dtype.is_float:
        limit = _BFLOAT16_MAX if dtype is DType.BFLOAT16 else float(np.finfo(dtype.numpy).max)
        minimum, maximum = (
            end if slot is None else bound for slot, bound, end in zip(slots, bounds, (-limit, limit), strict=True)
        )
        if minimum is not None and maximum is not None and not (math.isnan(minimum) or math.isnan(maximum)):
            return _bounded(node, float(minimum), float(maximum))
        slots = (slots[0] or node.scalar(-limit, x, "lowest"), slots[1] or node.scalar(limit, x, "highest"))
    # An activation computes in floats: integers keep their exact bounds as a maximum and a minimum.
    if slots[0] is not None:
        x = node.network.maximum(x, slots[0], name=node.label("least" if slots[1] is not None else ""))
    return x if slots[1] is None else node.network.minimum(x, slots[1], name=node.label())


@builtin("Clip", ignored=["consumed_inputs"])
def clip_1(node: Node) -> OutputSlot:
    """Translate Clip whose bounds are attributes."""
    return _bounded(node, node.floating("min", -_FLOAT32_MAX), node.floating("max", _FLOAT32_MAX))


def _bounded(node: Node, minimum: float, maximum: float) -> OutputSlot:
    """Add min(most, max(least, x)). An infinite number is clamped by every bound that is none."""
    x = node.input(0)
    if minimum == -math.inf and maximum == math.inf:
        return x
    if minimum == 0 and maximum == math.inf:
        return node.network.relu(x, name=node.label())
    return node.network.activation(x, ActivationFunction.BOUNDED_RELU, maximum, minimum, name=node.label())


@builtin("Softmax", "LogSoftmax", since=13)
def softmax(node: Node) -> OutputSlot:
    """Translate softmax along one axis."""
    return _softmax(node, node.input(0), node.integer("axis", -1), node.label())


@builtin("Softmax", "LogSoftmax")
def softmax_1(node: Node) -> OutputSlot:
    """Translate softmax over all axes from `axis` on: the input counts as a matrix."""
    return _over_matrix(node, _softmax)


def _softmax(node: Node, x: OutputSlot, axis: int, name: str) -> OutputSlot:
    build = node.network.log_softmax if node.op == "LogSoftmax" else node.network.softmax
    return build(x, axis, name=name)


@builtin("Hardmax", since=13)
def hardmax(node: Node) -> OutputSlot:
    """Translate Hardmax: one at the first largest element along an axis, zero elsewhere."""
    return _hardmax(node, node.input(0), node.integer("axis", -1), node.label())


@builtin("Hardmax")
def hardmax_1(node: Node) -> OutputSlot:
    """Translate Hardmax over all axes from `axis` on."""
    return _over_matrix(node, _hardmax)


def _hardmax(node: Node, x: OutputSlot, axis: int, name: str) -> OutputSlot:
    net, dtype = node.network, node.dtype()
    depth = net.shape_of(x, axis, None if axis == -1 else axis + 1, name=node.label("depth"))
    best = net.arg_min_max(x, "max", axis, name=node.label("best"))
    values = np.asarray([0, 0x3F80], np.uint16) if dtype is DType.BFLOAT16 else np.asarray([0, 1], dtype.numpy)
    off_on = net.constant(values, node.label("values"), dtype=dtype)
    return net.one_hot(best, depth, off_on, axis, name=name)


def _over_matrix(node: Node, build: Callable[[Node, OutputSlot, int, str], OutputSlot]) -> OutputSlot:
    """Apply a function of one axis to the input as a matrix: axes before `axis`, and from it on."""
    x, axis = node.input(0), node.integer("axis", 1)
    rank = node.rank_of(x)
    if axis == -1 or axis == (rank or 0) - 1:
        return build(node, x, axis, node.label())
    matrix = node.network.flatten(x, axis, name=node.label("matrix"))
    shape = node.network.shape_of(x, name=node.label("shape"))
    return node.network.reshape(build(node, matrix, 1, node.label("rows")), shape, name=node.label())
