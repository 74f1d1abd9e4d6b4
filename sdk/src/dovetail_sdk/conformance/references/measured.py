"""Numbers in float64 beside a bound on how far a kernel's may be from them, step by step.

What goes through a layer many times, as the states of a recurrent one do, has no bound in closed
form: each operation here passes on what its operands may be off by, and adds its own rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dovetail import DType
from dovetail.layers import RecurrentFunction

from ..cases import Array
from .fused import softplus
from .precision import SMALLEST_NORMAL, UNIT
from .tolerances import gamma

HOPELESS = 1e6
"""A bound that says nothing; it is finite, so that zeros times it stay zeros."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Numbers, and by how much a kernel's may differ from each.

    Attributes:
        value: In float64.
        error: Of the same shape.
    """

    value: Array
    error: Array

    @classmethod
    def exact(cls, value: Array) -> Measured:
        """Take numbers that every kernel has alike."""
        return cls(value, np.zeros(value.shape))


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Operations of kernels for one element type: float64 of float64, else at least float32.

    Attributes:
        dtype: Of the tensors.
    """

    dtype: DType

    @property
    def unit(self) -> float:
        """A unit in the last place of what kernels compute in, relative."""
        return UNIT[DType.FLOAT64 if self.dtype is DType.FLOAT64 else DType.FLOAT32]

    def sums(self, *terms: tuple[Array, Measured]) -> Measured:
        """Sum up matrices [rows, n] times numbers [n], in any order (Higham, 4.2)."""
        count = sum(matrix.shape[1] for matrix, _ in terms) + 1
        value = sum(matrix @ numbers.value for matrix, numbers in terms)
        magnitude = sum(np.abs(matrix) @ np.abs(numbers.value) for matrix, numbers in terms)
        passed_on = sum(np.abs(matrix) @ numbers.error for matrix, numbers in terms)
        return Measured(np.asarray(value), np.asarray(passed_on + gamma(count, self.dtype) * magnitude))

    def product(self, a: Measured, b: Measured) -> Measured:
        """Multiply element by element."""
        value = a.value * b.value
        error = np.abs(a.value) * b.error + np.abs(b.value) * a.error + a.error * b.error
        return Measured(value, error + self.unit * np.abs(value))

    def total(self, a: Measured, b: Measured) -> Measured:
        """Add element by element."""
        value = a.value + b.value
        return Measured(value, a.error + b.error + self.unit * np.abs(value))

    def rest_to_one(self, a: Measured) -> Measured:
        """Subtract from 1."""
        return Measured(1 - a.value, a.error + self.unit * np.abs(1 - a.value))

    def clipped(self, a: Measured, limit: float | None) -> Measured:
        """Cut off to [-limit, limit]."""
        return a if limit is None else Measured(np.clip(a.value, -limit, limit), a.error)

    def normalized(self, a: Measured, scale: Array, epsilon: float) -> Measured:
        """Subtract the mean, divide by sqrt(variance + epsilon), and scale.

        The bound is `HOPELESS` where the variance is too small for the numbers' errors.
        """
        if not a.value.size:
            return a
        count, off = a.value.size, float(a.error.max())
        away = a.value - a.value.mean()
        variance = float(np.mean(away * away)) + epsilon
        mean_error = off + gamma(count + 1, self.dtype) * float(np.mean(np.abs(a.value)))
        away_error = off + mean_error
        squares = float(np.mean(2 * np.abs(away) * away_error + away_error**2))
        squares += 2 * gamma(count + 4, self.dtype) * float(np.mean(a.value * a.value))
        if squares > variance / 4:
            return Measured(away / math.sqrt(variance) * scale, np.full(count, HOPELESS))
        result = away / math.sqrt(variance)
        # 1 / sqrt(1 - t) - 1 is below t for t up to 1/4.
        error = away_error / math.sqrt(variance) * 1.2 + np.abs(result) * (squares / variance + 6 * self.unit)
        return Measured(result * scale, error * np.abs(scale))

    def applied(self, a: Measured, function: RecurrentFunction, alpha: float, beta: float) -> Measured:
        """Apply a function, which errs by a few units itself (see `activations.FUNCTIONS`)."""
        value = np.asarray(FUNCTIONS[function](a.value, alpha, beta))
        error = a.error * slope(function, alpha, beta)
        if function is RecurrentFunction.THRESHOLDED_RELU:  # which jumps
            error = error + np.where(np.abs(a.value - alpha) <= a.error, abs(alpha), 0.0)
        return Measured(value, error + self.unit * (6 * np.abs(value) + 4))

    def stored(self, a: Measured) -> Measured:
        """Round to the tensors' type, not necessarily to nearest."""
        return Measured(a.value, a.error + UNIT[self.dtype] * np.abs(a.value) + SMALLEST_NORMAL[self.dtype])


FUNCTIONS: Mapping[RecurrentFunction, Callable[[Array, float, float], Array]] = {
    RecurrentFunction.LINEAR: lambda x, alpha, beta: alpha * x + beta,
    RecurrentFunction.RELU: lambda x, alpha, beta: np.maximum(x, 0),
    RecurrentFunction.BOUNDED_RELU: lambda x, alpha, beta: np.minimum(alpha, np.maximum(beta, x)),
    RecurrentFunction.LEAKY_RELU: lambda x, alpha, beta: np.where(x >= 0, x, alpha * x),
    RecurrentFunction.THRESHOLDED_RELU: lambda x, alpha, beta: np.where(x > alpha, x, 0.0),
    RecurrentFunction.ELU: lambda x, alpha, beta: np.where(x >= 0, x, alpha * np.expm1(np.minimum(x, 0))),
    RecurrentFunction.SIGMOID: lambda x, alpha, beta: 1 / (1 + np.exp(-x)),
    RecurrentFunction.TANH: lambda x, alpha, beta: np.tanh(x),
    RecurrentFunction.SCALED_TANH: lambda x, alpha, beta: alpha * np.tanh(beta * x),
    RecurrentFunction.HARD_SIGMOID: lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    RecurrentFunction.SOFTPLUS: lambda x, alpha, beta: softplus(x),
    RecurrentFunction.SOFTSIGN: lambda x, alpha, beta: x / (1 + np.abs(x)),
}
"""The functions, in float64."""

PARAMETERS: Mapping[RecurrentFunction, tuple[float, float]] = {
    **dict.fromkeys(RecurrentFunction, (0.0, 0.0)),
    RecurrentFunction.LINEAR: (0.5, 0.25),
    RecurrentFunction.BOUNDED_RELU: (0.5, -0.25),
    RecurrentFunction.LEAKY_RELU: (0.125, 0.0),
    RecurrentFunction.THRESHOLDED_RELU: (0.25, 0.0),
    RecurrentFunction.ELU: (0.75, 0.0),
    RecurrentFunction.SCALED_TANH: (0.75, 0.5),
    RecurrentFunction.HARD_SIGMOID: (0.25, 0.5),
}
"""Alpha and beta that are tried, by function."""


def slope(function: RecurrentFunction, alpha: float, beta: float) -> float:
    """Return the greatest slope of a function, jumps apart."""
    slopes = {
        RecurrentFunction.LINEAR: abs(alpha),
        RecurrentFunction.SIGMOID: 0.25,
        RecurrentFunction.HARD_SIGMOID: abs(alpha),
        RecurrentFunction.SCALED_TANH: abs(alpha * beta),
        RecurrentFunction.LEAKY_RELU: max(1.0, abs(alpha)),
        RecurrentFunction.ELU: max(1.0, abs(alpha)),
    }
    return slopes.get(function, 1.0)


def stacked(rows: Sequence[Measured], width: int) -> Measured:
    """Put rows of a width on top of one another; there may be none."""
    shape = (len(rows), width)
    values, errors = [row.value for row in rows], [row.error for row in rows]
    return Measured(np.asarray(values, np.float64).reshape(shape), np.asarray(errors, np.float64).reshape(shape))
