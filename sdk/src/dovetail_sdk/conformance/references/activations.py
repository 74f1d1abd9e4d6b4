"""Every activation function in float64, with its parameters and how exactly it is computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from dovetail import DType
from dovetail.layers import ActivationFunction

from ..cases import EXACT, Array, Tolerance
from .fused import PARAMETERS, activated
from .precision import units


def _fused(function: ActivationFunction) -> Callable[[Array], Array]:
    return lambda x: activated(x, function)


@dataclass(frozen=True, slots=True)
class Function:
    """An activation with fixed parameters.

    Attributes:
        of: In float64.
        count: Units in the last place that are allowed; 0 if the result is a number of the type.
        around: Units of 1.0 besides: of an intermediate result that a difference or a product with
            x leaves over.
        alpha, beta: The parameters.
        ends: True if the function is continuous at the infinities and formulas give what it tends
            to.
    """

    of: Callable[[Array], Array]
    count: float = 0.0
    around: float = 0.0
    alpha: float = 0.0
    beta: float = 0.0
    ends: bool = False

    def tolerance(self, dtype: DType) -> Tolerance:
        """Allow a few units for the elementary functions and for each rounding."""
        if not self.count:
            return EXACT
        # Kernels of 16-bit floats compute in float32, or look up what is off by a few units.
        count, around = (min(self.count, 4.0), min(self.around, 2.0)) if dtype.bits == 16 else (self.count, self.around)
        reason = f"elementary functions within 3 to 5 units (OpenCL C) and a rounding a step: {count:g} units"
        if around:
            reason += f"; {around:g} units of 1.0 where a difference leaves little"
        return units(dtype, count, reason, around=around)


def _of_fused(function: ActivationFunction, count: float, around: float, *, ends: bool = False) -> Function:
    return Function(_fused(function), count, around, *PARAMETERS[function], ends=ends)


FUNCTIONS: Mapping[ActivationFunction, Function] = {
    ActivationFunction.LINEAR: _of_fused(ActivationFunction.LINEAR, 1, 4, ends=True),
    ActivationFunction.RELU: _of_fused(ActivationFunction.RELU, 0, 0, ends=True),
    ActivationFunction.BOUNDED_RELU: _of_fused(ActivationFunction.BOUNDED_RELU, 0, 0, ends=True),
    ActivationFunction.LEAKY_RELU: _of_fused(ActivationFunction.LEAKY_RELU, 1, 0, ends=True),
    ActivationFunction.THRESHOLDED_RELU: Function(lambda x: np.where(x > 0.75, x, 0.0), alpha=0.75, ends=True),
    ActivationFunction.ELU: _of_fused(ActivationFunction.ELU, 4, 4, ends=True),
    ActivationFunction.SELU: _of_fused(ActivationFunction.SELU, 4, 4, ends=True),
    ActivationFunction.CELU: _of_fused(ActivationFunction.CELU, 4, 4, ends=True),
    ActivationFunction.SIGMOID: _of_fused(ActivationFunction.SIGMOID, 6, 2, ends=True),
    ActivationFunction.TANH: _of_fused(ActivationFunction.TANH, 5, 4, ends=True),
    ActivationFunction.HARD_SIGMOID: _of_fused(ActivationFunction.HARD_SIGMOID, 1, 2, ends=True),
    ActivationFunction.HARD_SWISH: _of_fused(ActivationFunction.HARD_SWISH, 3, 4),
    ActivationFunction.SWISH: _of_fused(ActivationFunction.SWISH, 6, 4),
    ActivationFunction.GELU: _of_fused(ActivationFunction.GELU, 6, 8),
    ActivationFunction.GELU_TANH: _of_fused(ActivationFunction.GELU_TANH, 6, 8),
    ActivationFunction.SOFTPLUS: _of_fused(ActivationFunction.SOFTPLUS, 6, 4, ends=True),
    ActivationFunction.SOFTSIGN: _of_fused(ActivationFunction.SOFTSIGN, 4, 0),
    ActivationFunction.MISH: _of_fused(ActivationFunction.MISH, 8, 8),
    ActivationFunction.SHRINK: Function(
        lambda x: np.where(x < -0.5, x + 0.25, np.where(x > 0.5, x - 0.25, 0.0)), 1, 0, 0.5, 0.25, ends=True
    ),
}
"""Thresholds are numbers of every type, so that both sides of them are tried."""

SUBTLE = (-4.0, -0.75, -0.5, -0.25, -0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 3.0, -3.0, 6.0, 7.0)
"""Arguments at the thresholds and beyond the clamps."""
INFINITE = (-math.inf, math.inf)
GREAT = (-60.0, 60.0, -20.0, 20.0)
"""Arguments of which the exponential still is a float16's neighbour of 0 or beyond it."""
