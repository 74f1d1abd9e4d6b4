"""Compare what came out with what must come out."""

from __future__ import annotations

import numpy as np

from dovetail import DType

from .cases import Array, Tolerance


def mismatch(got: Array, expected: Array, tolerance: Tolerance, dtype: DType) -> str:
    """Say where an output is off the expected one by more than its tolerance; empty if nowhere.

    Args:
        got: The output; bfloat16 as uint16 bits.
        expected: Of the same shape; of the same element type, or wider if it was computed in
            float64. A finite value that the output's type cannot hold may come out as an infinity
            of its sign, or as the largest finite value.
        tolerance: absolute + relative * |expected|; NaN and infinities must be equal. (0, 0) asks
            for the nearest value of the type.
        dtype: Element type of the output.
    """
    if got.shape != expected.shape:
        return f"shape {list(got.shape)}, expected {list(expected.shape)}"
    if got.dtype != dtype.numpy:
        return f"element type {got.dtype}, expected {dtype}"
    if not got.size:
        return ""
    if dtype is DType.BOOL and got.view(np.uint8).max() > 1:
        return f"a bool is stored as the byte {int(got.view(np.uint8).max())}; it must be 0 or 1"
    wrong = _wrong_floats(got, expected, tolerance, dtype) if dtype.is_float else _wrong_whole(got, expected, tolerance)
    if not wrong.any():
        return ""
    shown_got, shown_expected = readable(got, dtype), readable(expected, dtype)
    distance = _distance(shown_got, shown_expected)
    index = tuple(int(i) for i in np.unravel_index(np.argmax(np.where(wrong, distance, -1.0)), got.shape))
    bound = tolerance.absolute + tolerance.relative * abs(float(shown_expected[index]))
    allowed = f"{bound:.3g} ({tolerance.reason})" if np.isfinite(bound) else f"none ({tolerance.reason})"
    return (
        f"{int(wrong.sum())} of {got.size} elements are wrong, worst at {list(index)}: got {shown_got[index]!s}, "
        f"expected {shown_expected[index]!s}, allowed difference {allowed}"
    )


def readable(array: Array, dtype: DType) -> Array:
    """Return values for people and for arithmetic: bits of bfloat16 as float32."""
    return from_bfloat16(array) if dtype is DType.BFLOAT16 and array.dtype == np.uint16 else array


def widened(result: Array) -> Array:
    """Return a result in float64, also where it holds what NumPy would warn of: nobody wrote it."""
    with np.errstate(invalid="ignore"):
        return np.asarray(result.astype(np.float64))


def from_bfloat16(bits: Array) -> Array:
    """Return bfloat16 bits as float32, which holds each of them exactly."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def to_bfloat16(values: Array) -> Array:
    """Round to the nearest bfloat16, ties to even; returns bits. A NaN stays one."""
    wide = np.asarray(values, np.float64)
    single = wide.astype(np.float32)
    # Rounding twice would be wrong at ties: float32 first rounds to odd, as in Boldo and Melquiond
    # 2008.
    bits = single.view(np.uint32).copy()
    inexact = (single.astype(np.float64) != wide) & np.isfinite(single)
    too_far = inexact & (np.abs(single.astype(np.float64)) > np.abs(wide))
    bits[too_far] -= np.uint32(1)
    bits[inexact] |= np.uint32(1)
    rounded = (bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(wide), 0x7FC0, rounded).astype(np.uint16)


def _nearest(expected: Array, dtype: DType) -> Array:
    """Return expected values rounded to a float type, in float64."""
    if dtype is DType.BFLOAT16:
        return from_bfloat16(expected if expected.dtype == np.uint16 else to_bfloat16(expected)).astype(np.float64)
    with np.errstate(over="ignore"):
        return expected.astype(dtype.numpy).astype(np.float64)


def _wrong_floats(got: Array, expected: Array, tolerance: Tolerance, dtype: DType) -> Array:
    found = widened(readable(got, dtype))
    nearest = _nearest(expected, dtype)
    wanted = nearest if expected.dtype == np.uint16 else expected.astype(np.float64)
    same = (found == nearest) | (np.isnan(found) & np.isnan(wanted))
    if tolerance.is_exact:
        return np.asarray(~same)
    with np.errstate(all="ignore"):
        close = np.abs(found - wanted) <= tolerance.absolute + tolerance.relative * np.abs(wanted)
    close &= np.isfinite(wanted) & np.isfinite(found)
    overflows = np.isfinite(wanted) & ~np.isfinite(nearest)
    largest = _largest(dtype)
    at_the_end = overflows & (np.abs(found) >= largest) & (np.sign(found) == np.sign(wanted))
    return np.asarray(~(same | close | at_the_end))


def _largest(dtype: DType) -> float:
    if dtype is DType.BFLOAT16:
        return float(from_bfloat16(np.array([0x7F7F], np.uint16))[0])
    return float(np.finfo(dtype.numpy).max)


def _wrong_whole(got: Array, expected: Array, tolerance: Tolerance) -> Array:
    if tolerance.is_exact:
        return np.asarray(got != expected)
    distance = _distance(got, expected)
    return np.asarray(distance > tolerance.absolute + tolerance.relative * np.abs(expected.astype(np.float64)))


def _distance(got: Array, expected: Array) -> Array:
    """Return |got - expected| in float64; what cannot be subtracted counts as infinitely far."""
    if got.dtype.kind in "iu" and got.dtype == expected.dtype:
        # Exact also beyond 2^53: the difference of two integers fits the unsigned type.
        unsigned = np.dtype(f"u{got.dtype.itemsize}")
        high, low = np.maximum(got, expected), np.minimum(got, expected)
        with np.errstate(over="ignore"):  # NumPy warns of scalars that wrap, as they must for numbers of both signs
            return np.asarray(high.astype(unsigned) - low.astype(unsigned), np.float64)
    with np.errstate(all="ignore"):
        distance = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    return np.asarray(np.where(np.isnan(distance), np.inf, distance))
