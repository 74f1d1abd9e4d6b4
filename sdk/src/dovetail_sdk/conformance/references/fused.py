"""Activations that layers apply to their result before it is stored, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from dovetail import DType, Quantization
from dovetail.layers import ActivationFunction

from ..cases import Array, Tolerance
from .precision import units


def erf(x: Array) -> Array:
    """Error function of every element."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x) if x.size else x)


PARAMETERS: Mapping[ActivationFunction | None, tuple[float, float]] = {
    None: (0.0, 0.0),
    ActivationFunction.RELU: (0.0, 0.0),
    ActivationFunction.BOUNDED_RELU: (6.0, -1.0),
    ActivationFunction.LEAKY_RELU: (0.125, 0.0),
    ActivationFunction.HARD_SWISH: (0.0, 0.0),
    ActivationFunction.HARD_SIGMOID: (0.25, 0.5),
    ActivationFunction.SIGMOID: (0.0, 0.0),
    ActivationFunction.TANH: (0.0, 0.0),
    ActivationFunction.ELU: (1.5, 0.0),
    ActivationFunction.SWISH: (1.0, 0.0),
    ActivationFunction.GELU: (0.0, 0.0),
    ActivationFunction.GELU_TANH: (0.0, 0.0),
}
"""Alpha and beta that are tried, by function."""

_FUNCTIONS: Mapping[ActivationFunction | None, Callable[[Array, float, float], Array]] = {
    None: lambda x, alpha, beta: x,
    ActivationFunction.RELU: lambda x, alpha, beta: np.maximum(x, 0),
    ActivationFunction.BOUNDED_RELU: lambda x, alpha, beta: np.minimum(alpha, np.maximum(beta, x)),
    ActivationFunction.LEAKY_RELU: lambda x, alpha, beta: np.where(x >= 0, x, alpha * x),
    ActivationFunction.HARD_SWISH: lambda x, alpha, beta: x * np.clip(x / 6 + 0.5, 0, 1),
    ActivationFunction.HARD_SIGMOID: lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    ActivationFunction.SIGMOID: lambda x, alpha, beta: 1 / (1 + np.exp(-x)),
    ActivationFunction.TANH: lambda x, alpha, beta: np.tanh(x),
    ActivationFunction.ELU: lambda x, alpha, beta: np.where(x >= 0, x, alpha * np.expm1(np.minimum(x, 0))),
    ActivationFunction.SWISH: lambda x, alpha, beta: x / (1 + np.exp(-alpha * x)),
    ActivationFunction.GELU: lambda x, alpha, beta: x / 2 * (1 + erf(x / math.sqrt(2))),
    ActivationFunction.GELU_TANH: lambda x, alpha, beta: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}
CLAMPS = (None, ActivationFunction.RELU, ActivationFunction.BOUNDED_RELU)
"""Activations that only limit a result; integers and quantized tensors have no others."""


def activated(x: Array, function: ActivationFunction | None) -> Array:
    """Apply a function with its `PARAMETERS`; a clamp of integers stays in their type."""
    alpha, beta = PARAMETERS[function]
    if x.dtype.kind not in "iu" or function is None:
        return _FUNCTIONS[function](x, alpha, beta)
    minimum = 0.0 if function is ActivationFunction.RELU else beta
    low = max(int(minimum), int(np.iinfo(x.dtype).min))
    high = int(np.iinfo(x.dtype).max) if function is ActivationFunction.RELU else int(alpha)
    return np.clip(x, x.dtype.type(low), x.dtype.type(high))


def fused_tolerance(plain: Tolerance, function: ActivationFunction | None, dtype: DType) -> Tolerance:
    """Widen the tolerance of a result of at most 8 by what an activation adds."""
    if function in CLAMPS or not dtype.is_float:
        return plain
    return units(
        dtype,
        4,
        "a result of at most 8 may be rounded before the activation (4 units of 1.0, times its slope of at most 1.5), and the "
        "activation errs by a few units itself",
        around=8,
    )


def clamp(function: ActivationFunction | None, quantization: Quantization) -> tuple[float, float]:
    """Return the least and the greatest integer that a clamp of a quantized result lets through, before rounding."""
    scale, zero = quantization.scale[0], quantization.zero_point[0]
    alpha, beta = PARAMETERS[function]
    low = {None: -math.inf, ActivationFunction.RELU: float(zero)}.get(function, zero + beta / scale)
    high = zero + alpha / scale if function is ActivationFunction.BOUNDED_RELU else math.inf
    return low, high
