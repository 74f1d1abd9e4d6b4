"""The numbers by which the NPU scales, as the vendor's simulator forms them.

Each was found by comparing results with the simulator's, bit for bit; README.md says over how many.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..program import Tensor

Reals = npt.NDArray[np.float64]


class Factor(NamedTuple):
    """A real factor: mantissa * 2^-shift."""

    mantissa: int
    shift: int


def factor(ratio: np.float32, fraction_bits: int) -> Factor:
    """Return a positive factor, its mantissa truncated.

    Args:
        ratio: In float32, as the driver forms it.
        fraction_bits: Of the mantissa, its leading one apart; 23 keep all of a float32.
    """
    if not math.isfinite(ratio):  # it saturates all but zero
        return Factor(1 << 30, 0)
    fraction, exponent = math.frexp(float(ratio))
    mantissa = math.floor(fraction * 2.0 ** (fraction_bits + 1))
    shift = fraction_bits + 1 - exponent
    while shift < 0:  # of factors beyond 2^24, which saturate every result
        mantissa, shift = min(mantissa * 2, 1 << 30), shift + 1
    return Factor(mantissa, shift)


class SumWeights(NamedTuple):
    """A sum or difference of two tensors as a convolution of two channels.

    Attributes:
        first, second: Weights, less their zero point.
        scale: Of the weights.
        bias: Which makes up for reading both tensors with the first's zero point.
    """

    first: int
    second: int
    scale: float
    bias: int


def weights_of_sum(a: Tensor, b: Tensor, sign: int) -> SumWeights:
    """Return the weights by which the driver adds two tensors: 1 and the ratio of scales."""
    one, first, second = np.float32(1), np.float32(a.scale), np.float32(b.scale)
    ratio = np.float32(second / first)
    scale = np.float32((one + ratio if sign < 0 else max(one, ratio)) / np.float32(255))
    wide, exact = float(scale), float(ratio)
    zero = _byte(exact / wide) if sign < 0 else 0
    bias = np.float32(np.float32(sign * (a.zero_point - b.zero_point)) * second) / np.float32(first * scale)
    return SumWeights(_byte(1 / wide, zero) - zero, _byte(sign * exact / wide, zero) - zero, wide, round(float(bias)))


def _byte(value: float, zero: int = 0) -> int:
    return min(max(round(value) + zero, 0), 255)


def tensor_float(values: Reals | float) -> Reals:
    """Round to the floats of the tensor processor: 15 bits of fraction, ties to even."""
    fraction, exponent = np.frexp(np.asarray(values, np.float64))
    return np.asarray(np.ldexp(np.rint(fraction * 65536.0), exponent - 16))


def quotient(first: float, second: float) -> float:
    """Return first / second, both rounded to float32."""
    return float(np.float32(first)) / float(np.float32(second))


def product_ratio(first: float, second: float, result: float) -> np.float32:
    """Return first * second / result, each step rounded to float32."""
    with np.errstate(over="ignore", under="ignore"):
        return np.float32(np.float32(np.float32(first) * np.float32(second)) / np.float32(result))
