"""Fixed point as TensorFlow Lite's reference kernels compute with it, on arrays of integers.

Sources: tensorflow/lite/kernels/internal/common.h (MultiplyByQuantizedMultiplier, which rounds
twice; DownScaleInt32ToInt16Multiplier), quantization_util.cc (QuantizeMultiplier) and
gemmlowp/fixedpoint (SaturatingRoundingDoublingHighMul, RoundingDivideByPOT).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ..ground.records import NamedTuple

Integers = npt.NDArray[np.int64]
_LEAST_HALF, _MOST_HALF = -(1 << 15), (1 << 15) - 1


class Scaling(NamedTuple):
    """A real factor: multiplier * 2^(shift - 31), the multiplier of 31 bits or zero."""

    multiplier: int
    shift: int

    @property
    def half(self) -> int:
        """The multiplier in 16 bits."""
        return _MOST_HALF if self.multiplier >= 0x7FFF7FFF else (self.multiplier + (1 << 15)) >> 16


def scaling(factor: float) -> Scaling:
    """Return a finite factor in fixed point; zero if nothing of 32 bits times it is 1/2."""
    fraction, shift = math.frexp(factor)
    multiplier = int(math.copysign(math.floor(abs(fraction) * (1 << 31) + 0.5), fraction))
    if abs(multiplier) == 1 << 31:
        multiplier, shift = multiplier // 2, shift + 1
    return Scaling(0, 0) if multiplier == 0 or shift < -31 else Scaling(multiplier, shift)


def scaling_within(factor: float) -> Scaling:
    """Return a factor that shifts by 31 bits at most; what is greater saturates results anyhow."""
    return scaling(min(factor, 2.0**31 - 1))


def scaled(x: Integers, by: Scaling) -> Integers:
    """Return x times a factor, rounded to 31 bits and once more to an integer.

    What is shifted to the left, by 31 bits at most, saturates at 32.
    """
    wide = np.clip(x << max(by.shift, 0), -(1 << 31), (1 << 31) - 1)
    product = wide * by.multiplier
    product += np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    return power_of_two(_toward_zero(product, 31), max(-by.shift, 0))


def power_of_two(x: Integers, exponent: int) -> Integers:
    """x / 2^exponent, rounded to nearest, halves away from zero."""
    mask = (1 << exponent) - 1
    return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0))


def high_half(a: Integers, b: Integers | int, *, rounds: bool) -> Integers:
    """Return the high half of 2 * a * b, of 16 bits each: rounded to nearest, or toward zero."""
    product = a * b
    if rounds:
        product += np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    return np.minimum(_toward_zero(product, 15), _MOST_HALF)  # only the square of -2^15 exceeds it


def shifted_half(x: Integers, amount: int) -> Integers:
    """x * 2^amount, saturated to 16 bits."""
    return np.asarray(np.clip(x << amount, _LEAST_HALF, _MOST_HALF))


def _toward_zero(x: Integers, bits: int) -> Integers:
    return np.asarray(np.sign(x) * (np.abs(x) >> bits))
