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


def softplus(x: Array) -> Array:
    """Logarithm of 1 + e^x, without overflow."""
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


PARAMETERS: Mapping[ActivationFunction | None, tuple[float, float]] = {
    **dict.fromkeys((None, *ActivationFunction), (0.0, 0.0)),
    ActivationFunction.BOUNDED_RELU: (6.0, -1.0),
    ActivationFunction.LEAKY_RELU: (0.125, 0.0),
    ActivationFunction.HARD_SIGMOID: (0.25, 0.5),
    ActivationFunction.ELU: (1.5, 0.0),
    ActivationFunction.SWISH: (1.0, 0.0),
    ActivationFunction.LINEAR: (1.5, -0.25),
    ActivationFunction.THRESHOLDED_RELU: (0.75, 0.0),
    ActivationFunction.SELU: (1.67326319217681884765625, 1.05070102214813232421875),
    ActivationFunction.CELU: (0.75, 0.0),
    ActivationFunction.SHRINK: (0.5, 0.5),
}
"""Alpha and beta that are tried, by function.

Shrink has no jump with these; of a threshold see `parameters_for`."""
_MIN_ROOM = 16.0
"""Least distance of a result from a threshold, in its errors, so that rounding crosses none."""


def parameters_for(function: ActivationFunction | None, x: Array, error: float) -> tuple[float, float] | None:
    """Return alpha and beta of a function of results; None if no threshold has room between them.

    Args:
        function: The function.
        x: The results before it is applied, in float64.
        error: By how much one of them may be off.
    """
    if function is not ActivationFunction.THRESHOLDED_RELU:
        return PARAMETERS[function]
    values = np.unique(np.concatenate([np.zeros(1), x[np.isfinite(x) & (x > 0)].reshape(-1)]))
    if len(values) < 2:
        return PARAMETERS[function]
    widest = int(np.argmax(np.diff(values)))
    low, high = values[widest : widest + 2]
    return None if high - low < _MIN_ROOM * error else (float(np.float32((low + high) / 2)), 0.0)


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
    ActivationFunction.LINEAR: lambda x, alpha, beta: alpha * x + beta,
    ActivationFunction.THRESHOLDED_RELU: lambda x, alpha, beta: np.where(x > alpha, x, 0.0),
    ActivationFunction.SELU: lambda x, alpha, beta: beta * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
    ActivationFunction.CELU: lambda x, alpha, beta: (
        np.maximum(x, 0) + np.minimum(0, alpha * np.expm1(np.minimum(x, 0) / alpha))
    ),
    ActivationFunction.SOFTPLUS: lambda x, alpha, beta: softplus(x),
    ActivationFunction.SOFTSIGN: lambda x, alpha, beta: x / (1 + np.abs(x)),
    ActivationFunction.MISH: lambda x, alpha, beta: x * np.tanh(softplus(x)),
    ActivationFunction.SHRINK: lambda x, alpha, beta: np.where(x < -alpha, x + beta, np.where(x > alpha, x - beta, 0.0)),
}
CLAMPS = (None, ActivationFunction.RELU, ActivationFunction.BOUNDED_RELU)
"""Activations that only limit a result; integers and quantized tensors have no others."""


def activated(x: Array, function: ActivationFunction | None, parameters: tuple[float, float] | None = None) -> Array:
    """Apply a function, by default with its `PARAMETERS`; a clamp of integers keeps their type."""
    alpha, beta = parameters or PARAMETERS[function]
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
        "a result of at most 8 may be rounded before the activation (4 units of 1.0, times its slope of at most 1.8), and the "
        "activation errs by a few units itself",
        around=8,
    )


def clamp(function: ActivationFunction | None, quantization: Quantization) -> tuple[float, float]:
    """Return the least and greatest integer that a quantized clamp passes, before rounding."""
    scale, zero = quantization.scale[0], quantization.zero_point[0]
    alpha, beta = PARAMETERS[function]
    low = {None: -math.inf, ActivationFunction.RELU: float(zero)}.get(function, zero + beta / scale)
    high = zero + alpha / scale if function is ActivationFunction.BOUNDED_RELU else math.inf
    return low, high
