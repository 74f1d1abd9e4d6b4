"""Softmax of quantized bytes in fixed point, as TensorFlow Lite's reference kernel computes it.

Sources: tensorflow/lite/kernels/internal/reference/softmax.h, quantization_util.cc
(PreprocessSoftmaxScaling, CalculateInputRadius), common.h (GetReciprocal), gemmlowp/fixedpoint.
"""

from __future__ import annotations

import math

import numpy as np

from ..cases import Array

_FRACTIONS = 1 << 31
_POWERS_OF_E = tuple(round(math.exp(-(2.0 ** (bit - 2))) * _FRACTIONS) for bit in range(7))


def litert_softmax(x: Array, scale: float, axis: int) -> Array:
    """Return multiples of 1/256, up to 256, of integers of this scale; none where sums are > 511.

    Such a sum makes the kernel itself stop: its results are given as zero.
    """
    if not x.size:
        return x.astype(np.int64)
    mantissa, exponent = math.frexp(min(scale * (1 << 26), _FRACTIONS - 1.0))
    below = (x.max(axis=axis, keepdims=True) - x).astype(np.int64)
    fits = below <= (31 << 26) >> exponent
    shifted = -np.where(fits, below, 0) << exponent
    powers = np.where(fits, exponential(product(shifted, math.floor(mantissa * _FRACTIONS + 0.5))), 0)
    total = ((powers + (1 << 11)) >> 12).sum(axis=axis, keepdims=True)
    found = np.zeros_like(powers)
    for index in np.ndindex(total.shape):
        line = tuple(slice(None) if place == axis % x.ndim else one for place, one in enumerate(index))
        inverse, bits = reciprocal(int(total[index]))
        if bits <= 8:
            found[line] = (product(powers[line], inverse) + (1 << (22 + bits))) >> (23 + bits)
    return found


def product(a: Array, b: Array | int) -> Array:
    """Multiply by a fraction of 31 bits; rounded to nearest, halves up."""
    doubled: Array = a * b + (1 << 30)
    return np.asarray(doubled >> 31)


def exponential(x: Array) -> Array:
    """Return e^x of multiples of 2^-26 that are at most 0, in multiples of 2^-31."""
    quarter = 1 << 24
    rest = (x & (quarter - 1)) - quarter
    t = (rest << 5) + (1 << 28)
    second = product(t, t)
    fourth = product(second, second)
    thirds = product(((fourth + 2) >> 2) + product(second, t), round(_FRACTIONS / 3))
    near = round(math.exp(-0.125) * _FRACTIONS)
    found = near + product(t + ((thirds + second + 1) >> 1), near)
    for bit, power in enumerate(_POWERS_OF_E):
        found = np.where((rest - x) & (quarter << bit), product(found, power), found)
    return np.where(x == 0, _FRACTIONS - 1, found)


def reciprocal(total: int) -> tuple[int, int]:
    """Return 2^bits / total of multiples of 2^-19, in multiples of 2^-31, and the bits."""
    zeros = 32 - total.bit_length()
    half = (total << zeros) >> 1
    found = round(48 / 17 * (1 << 29)) + _high(half, -round(32 / 17 * (1 << 29)))
    for _ in range(3):
        found += 4 * _high(found, (1 << 29) - _high(half, found))
    return min(2 * found, _FRACTIONS - 1), 12 - zeros


def _high(a: int, b: int) -> int:
    return (a * b + (1 << 30)) >> 31
