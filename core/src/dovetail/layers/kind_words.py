"""What layers of the core's kinds compute, in words for people."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

from ..graph.layer import Layer

_SPOKEN = {
    "relu": "ReLU",
    "leaky_relu": "leaky ReLU",
    "thresholded_relu": "thresholded ReLU",
    "elu": "ELU",
    "selu": "SELU",
    "celu": "CELU",
    "gelu": "GELU",
    "gelu_tanh": "GELU (tanh)",
    "add": "addition",
    "sub": "subtraction",
    "mul": "multiplication",
    "div": "division",
    "pow": "power",
    "neg": "negation",
    "abs": "absolute value",
    "sqrt": "square root",
    "rsqrt": "reciprocal square root",
    "exp": "exponential",
    "log": "logarithm",
    "erf": "error function",
}
_NAMES = {
    "Convolution2d": "convolution",
    "DepthwiseConvolution2d": "depthwise convolution",
    "TransposeConvolution2d": "transposed convolution",
    "MatMul": "matrix product",
    "LpNormalization": "Lp normalization",
    "Lstm": "LSTM",
    "Gru": "GRU",
    "Rnn": "RNN",
    "QuantizedLstm": "LSTM in integers",
    "QuantizedSvdf": "SVDF in integers",
    "Prelu": "PReLU",
    "TopK": "top k",
}
_REDUCTIONS = {"max": "maximum", "min": "minimum"}


def kind_in_words(layer: Layer) -> str:
    """Say what a layer computes by its kind and attributes: "convolution 3x3 of stride 2 + ReLU6".

    A kind that the core does not know is its name in words.
    """
    descriptor = layer.descriptor
    activation = getattr(descriptor, "activation", None)
    function = activation and _activation(
        activation, getattr(descriptor, "activation_alpha", 0.0), getattr(descriptor, "activation_beta", 0.0)
    )
    return " + ".join(filter(None, (_named(layer, descriptor), function)))


def _named(layer: Layer, descriptor: Any) -> str:
    name = descriptor.kind.rpartition(".")[2]
    words = _NAMES.get(name) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower()
    function = _value(getattr(descriptor, "operation", None) or getattr(descriptor, "function", None))
    match descriptor.kind.removeprefix("dovetail."):
        case "Activation":
            return _activation(function, descriptor.alpha, descriptor.beta)
        case "ElementwiseUnary" | "ElementwiseBinary" | "Comparison":
            return _spoken(function)
        case "Reduce" | "ArgMinMax":
            return f"{'position of the ' if name == 'ArgMinMax' else ''}{_REDUCTIONS.get(function) or _spoken(function)}"
        case "Pooling2d" | "GlobalPooling":
            words = f"{function} pooling"
            return (
                f"{words} of the whole image" if name == "GlobalPooling" else f"{words} {_window(descriptor, descriptor.size)}"
            )
        case "Convolution2d" | "DepthwiseConvolution2d" | "TransposeConvolution2d":
            weights = layer.input_infos[1]
            window = "" if weights is None or weights.rank != 4 else f" {_window(descriptor, descriptor.kernel_size(weights))}"
            groups = getattr(descriptor, "groups", 1)
            return f"{words}{window}{f' in {groups} groups' if groups > 1 else ''}"
        case "Cast":
            return f"cast to {descriptor.dtype}"
    return words


def _window(descriptor: Any, size: tuple[int, ...]) -> str:
    words = "x".join(map(str, size))
    for what in ("stride", "dilation"):
        steps = getattr(descriptor, what, None) or ()
        if any(step != 1 for step in steps):
            words += f" of {what} {'x'.join(map(str, dict.fromkeys(steps)))}"
    return words


def _activation(function: Any, alpha: float, beta: float) -> str:
    name = _value(function)
    if name == "bounded_relu":
        return f"ReLU{alpha:g}" if beta == 0 else f"clamp to {beta:g} and {alpha:g}"
    return _spoken(name)


def _spoken(name: str) -> str:
    return _SPOKEN.get(name, name.replace("_", " "))


def _value(member: Any) -> str:
    return str(member.value if isinstance(member, Enum) else member)
