"""Fixed point, as TensorFlow Lite's reference kernels compute with it.

Sources: tensorflow/lite/kernels/internal/common.h (MultiplyByQuantizedMultiplier, which rounds
twice; DownScaleInt32ToInt16Multiplier), quantization_util.cc (QuantizeMultiplier) and
gemmlowp/fixedpoint (SaturatingRoundingDoublingHighMul, RoundingDivideByPOT).
"""

from __future__ import annotations

import math

from dovetail.ground.records import NamedTuple

_LEAST, _MOST = -(1 << 31), (1 << 31) - 1
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
    """Return a factor in fixed point; one so small that nothing times it is 1/2 becomes zero."""
    fraction, shift = math.frexp(factor)
    multiplier = int(math.copysign(math.floor(abs(fraction) * (1 << 31) + 0.5), fraction))
    if multiplier == 1 << 31:
        multiplier, shift = multiplier // 2, shift + 1
    return Scaling(0, 0) if multiplier == 0 or shift < -31 else Scaling(multiplier, shift)


def scaling_within(factor: float) -> Scaling:
    """Return a factor that shifts by 31 bits at most; what is greater saturates results anyhow."""
    return scaling(min(factor, 2.0**31 - 1))


def scaled(x: int, by: Scaling) -> int:
    """Return x times a factor, rounded to nearest in 31 bits and once more in those that stay."""
    wide = ((x << max(by.shift, 0)) + (1 << 31)) % (1 << 32) - (1 << 31)
    if wide == by.multiplier == _LEAST:
        return power_of_two(_MOST, max(-by.shift, 0))
    product = wide * by.multiplier
    product += 1 << 30 if product >= 0 else 1 - (1 << 30)
    return power_of_two(_toward_zero(product, 31), max(-by.shift, 0))


def power_of_two(x: int, exponent: int) -> int:
    """x / 2^exponent, rounded to nearest, halves away from zero."""
    mask = (1 << exponent) - 1
    return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0))


def high_half(a: int, b: int, *, rounds: bool) -> int:
    """Return the high half of 2 * a * b, of 16 bits each: rounded to nearest, or toward zero."""
    if a == b == _LEAST_HALF:
        return _MOST_HALF
    product = a * b
    if rounds:
        product += 1 << 14 if product >= 0 else 1 - (1 << 14)
    return _toward_zero(product, 15)


def shifted_half(x: int, amount: int) -> int:
    """x * 2^amount, saturated to 16 bits."""
    return max(_LEAST_HALF, min(_MOST_HALF, x << amount))


def _toward_zero(x: int, bits: int) -> int:
    return -(-x >> bits) if x < 0 else x >> bits
