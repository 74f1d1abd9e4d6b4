"""Functions of real numbers, in float64: what tables of 256 bytes are filled with."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, erfc, pi, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail.layers import ActivationFunction, UnaryOperation

Array = npt.NDArray[Any]
_erf = np.vectorize(erf, [np.float64])
_erfc = np.vectorize(erfc, [np.float64])


def _softplus(x: Array) -> Array:
    return np.asarray(np.logaddexp(0.0, x))


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x >= 0, x, alpha * np.expm1(np.minimum(x, 0.0)))


def _sigmoid(x: Array) -> Array:
    return np.asarray(np.exp(-np.logaddexp(0.0, -x)))


def _gelu_tanh(x: Array) -> Array:
    """x / 2 * (1 + tanh(u)) as x * sigmoid(2 u): the sum would cancel far below zero."""
    return np.asarray(x * _sigmoid(sqrt(8 / pi) * (x + 0.044715 * x**3)))


_ACTIVATIONS: dict[ActivationFunction, Callable[[Array, float, float], Array]] = {
    ActivationFunction.LINEAR: lambda x, a, b: a * x + b,
    ActivationFunction.RELU: lambda x, a, b: np.maximum(x, 0.0),
    ActivationFunction.BOUNDED_RELU: lambda x, a, b: np.minimum(a, np.maximum(b, x)),
    ActivationFunction.LEAKY_RELU: lambda x, a, b: np.where(x >= 0, x, a * x),
    ActivationFunction.THRESHOLDED_RELU: lambda x, a, b: np.where(x > a, x, 0.0),
    ActivationFunction.ELU: lambda x, a, b: _elu(x, a),
    ActivationFunction.SELU: lambda x, a, b: b * _elu(x, a),
    ActivationFunction.CELU: lambda x, a, b: np.maximum(x, 0.0) + np.minimum(a * np.expm1(x / a), 0.0),
    ActivationFunction.SIGMOID: lambda x, a, b: _sigmoid(x),
    ActivationFunction.TANH: lambda x, a, b: np.tanh(x),
    ActivationFunction.HARD_SIGMOID: lambda x, a, b: np.clip(a * x + b, 0.0, 1.0),
    ActivationFunction.HARD_SWISH: lambda x, a, b: x * np.clip(x / 6 + 0.5, 0.0, 1.0),
    ActivationFunction.SWISH: lambda x, a, b: x * _sigmoid(a * x),
    ActivationFunction.GELU: lambda x, a, b: x / 2 * _erfc(-x / sqrt(2)),
    ActivationFunction.GELU_TANH: lambda x, a, b: _gelu_tanh(x),
    ActivationFunction.SOFTPLUS: lambda x, a, b: _softplus(x),
    ActivationFunction.SOFTSIGN: lambda x, a, b: x / (1 + np.abs(x)),
    ActivationFunction.MISH: lambda x, a, b: x * np.tanh(_softplus(x)),
    ActivationFunction.SHRINK: lambda x, a, b: np.where(x < -a, x + b, np.where(x > a, x - b, 0.0)),
}
_UNARY: dict[UnaryOperation, Callable[[Array], Array]] = {
    UnaryOperation.NEG: np.negative,
    UnaryOperation.RSQRT: lambda x: 1.0 / np.sqrt(x),
    UnaryOperation.ERF: _erf,
    UnaryOperation.ROUND: np.rint,
    UnaryOperation.ASIN: np.arcsin,
    UnaryOperation.ACOS: np.arccos,
    UnaryOperation.ATAN: np.arctan,
    UnaryOperation.ASINH: np.arcsinh,
    UnaryOperation.ACOSH: np.arccosh,
    UnaryOperation.ATANH: np.arctanh,
}
"""Those that NumPy calls otherwise."""


def activated(function: ActivationFunction, alpha: float, beta: float, x: Array) -> Array:
    """Return an activation of real numbers."""
    with np.errstate(all="ignore"):
        return _ACTIVATIONS[function](x, alpha, beta)


def unary(operation: UnaryOperation, x: Array) -> Array:
    """Return a function of real numbers."""
    with np.errstate(all="ignore"):
        return np.asarray((_UNARY.get(operation) or getattr(np, operation.value))(x))
