"""Windows that become one number: maximum, average, norm; and how exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dovetail import DataLayout, DType, Quantization
from dovetail.layers import PoolingFunction

from ..cases import EXACT, Array, Bits, Tolerance
from . import samples
from .precision import SMALLEST_NORMAL, UNIT
from .products import operand, sum_tolerance

ONE_STEP = Tolerance(0.0, 1.0, "an average of integers may be rounded either way, and a reciprocal may fall beside a tie: 1")
_POWER_UNITS = {16: 4.0, 32: 16.0, 64: 16.0}


def pooled(
    windows: Array,
    inside: Array,
    function: PoolingFunction,
    divisor: Array,
    p: int,
    zero: Array | int = 0,
    of: DType | None = None,
) -> Array:
    """Reduce the last two axes.

    Args:
        windows: What windows see, float64 or integers.
        inside: True for elements of the image; the others are padding.
        function: What a window becomes.
        divisor: Count of elements that an average is taken over, per window.
        p: Exponent of a norm.
        zero: Integer that stands for 0: padding counts as it.
        of: An integer type; its averages are rounded, halves away from `zero` or from 0.
    """
    if function is PoolingFunction.MAX:
        minimum = -np.inf if windows.dtype.kind == "f" else np.iinfo(windows.dtype).min
        return np.asarray(np.where(inside, windows, windows.dtype.type(minimum)).max(axis=(-2, -1)))
    zero = np.asarray(zero)
    wide = np.where(inside, windows.astype(np.float64) - zero[..., None, None], 0.0)
    if function is PoolingFunction.AVERAGE:
        average = wide.sum(axis=(-2, -1)) / divisor + zero
        if of is None:
            return np.asarray(average)
        return np.asarray(np.copysign(np.floor(np.abs(average) + 0.5), average), of.numpy)
    return np.asarray((np.abs(wide) ** p).sum(axis=(-2, -1)) ** (1 / p))


def pooling_input(function: PoolingFunction, dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Floats far from 0 for sums, anything for a maximum."""
    if dtype.is_integer:
        minimum, maximum = samples.limits(dtype)
        return rng.integers(minimum, maximum, shape, dtype.numpy, endpoint=True)
    x = operand(dtype, shape, rng)
    if function is PoolingFunction.MAX:
        return samples.led_by(samples.stored([-np.inf, -0.5, np.inf], dtype), x)
    return x


def pooling_tolerance(function: PoolingFunction, dtype: DType, terms: int, p: int, greatest: float) -> Tolerance:
    """Allow what a correct kernel may err by.

    Args:
        function: What a window becomes.
        dtype: Of the result.
        terms: Elements of a window.
        p: Exponent of a norm.
        greatest: Largest sum of magnitudes over the count: that of the average's terms.
    """
    if function is PoolingFunction.MAX:
        return EXACT
    if dtype.is_integer:
        return ONE_STEP
    if function is PoolingFunction.AVERAGE:
        plain = sum_tolerance(terms + 2, greatest, dtype)
        return Tolerance(
            plain.relative, plain.absolute, f"{plain.reason}; a division, or a product with the reciprocal, adds 2"
        )
    rounding = 2.0**-53 if dtype is DType.FLOAT64 else 2.0**-24
    powers = _POWER_UNITS[dtype.bits] if p > 2 else 3.0
    # A sum of positive terms errs relative to itself, and its root by a p-th of that.
    relative = (min(terms + p, 6 * math.sqrt(terms + p)) * rounding) + powers * UNIT[dtype] * (1 + 1 / p)
    reason = f"{terms} positive terms, each a power within {powers:g} units (OpenCL C), summed, and a root within as many"
    return Tolerance(relative, SMALLEST_NORMAL[dtype], reason)


def pooling_bits(expected: Array) -> dict[str, Bits]:
    """Return the bits of averages of integers: LiteRT rounds halves away from zero."""
    return {"litert": Bits(expected)} if expected.dtype.kind in "iu" else {}


POOLED_QUANTIZATIONS = ("per_tensor", "none", "per_axis")
"""What 8-bit integers may stand for; with scales of their own, channels."""
POOLED: Mapping[str, Sequence[Any]] = {
    "function": tuple(PoolingFunction),
    "channels": (4, 1, 3, 8, 17),
    "p": (2, 1, 3),
    "layout": tuple(DataLayout),
    "quantization": POOLED_QUANTIZATIONS,
}
"""Parameters of pooling, whatever its windows are."""
WITHOUT_NORM: Mapping[str, str] = {"*: p below 1": "a norm of an exponent below 1 is none"}


def quantization_of(how: str, dtype: DType, channels: int, axis: int) -> Quantization | None:
    """Return the quantization that pooling keeps, given the count of channels and their axis."""
    zero = 17 if dtype is DType.INT8 else 140
    if how == "none":
        return None
    if how == "per_axis":
        numbers = range(channels)
        return Quantization.per_axis([0.1 + 0.01 * i for i in numbers], [zero - 3 * i % 11 for i in numbers], axis=axis)
    return Quantization.per_tensor(float(np.float32(0.1)), zero)


def zeros_of(quantization: Quantization | None, axes: int) -> Array:
    """Return the zero points of averages [N, C, ...] with so many axes behind the channels."""
    if quantization is None:
        return np.zeros((), np.float64)
    zeros = np.asarray(quantization.zero_point, np.float64)
    return zeros.reshape(-1, *(1,) * axes) if quantization.is_per_axis else zeros.reshape(())


def judged(function: PoolingFunction, dtype: DType, how: str) -> bool:
    """Tell whether the kind says what the function gives for the type.

    Integers have maxima, some have averages, none norms.
    """
    if dtype.is_float:
        return how == "none"
    if function is PoolingFunction.AVERAGE:
        return how != "none" or dtype is DType.INT16
    return function is PoolingFunction.MAX
