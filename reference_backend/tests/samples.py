"""Random arrays of every element type."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from dovetail import DType


def dtype(label: str) -> np.dtype:
    """NumPy dtype of an element type, bfloat16 included."""
    return np.dtype(ml_dtypes.bfloat16) if label == "bfloat16" else DType.of(label).numpy


def array(label: str, shape, seed: int = 0, scale: float = 3.0) -> np.ndarray:
    """Floats: normal of this scale. Integers: the whole range. bool: both."""
    rng = np.random.default_rng(seed)
    kind = DType.of(label)
    if kind is DType.BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if kind.is_float:
        return np.asarray(rng.standard_normal(shape) * scale).astype(dtype(label))
    limits = np.iinfo(kind.numpy)
    return rng.integers(limits.min, limits.max, shape, kind.numpy, endpoint=True)


def random(shape, dtype, seed: int = 0) -> np.ndarray:
    """Floats: standard normal. Integers: the whole range."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return rng.standard_normal(shape).astype(dtype)


def small(label: str, shape, seed: int = 0, maximum: int = 9) -> np.ndarray:
    """Small whole numbers, exact in every type; negative ones where the type has them."""
    rng = np.random.default_rng(seed)
    kind = DType.of(label)
    if kind is DType.BOOL:
        return array(label, shape, seed)
    return np.asarray(rng.integers(-maximum if kind.is_signed else 0, maximum, shape, endpoint=True)).astype(dtype(label))


def wrapped(value: int, label: str) -> int:
    """The integer modulo 2^bits, in the range of the type."""
    kind = DType.of(label)
    value %= 1 << kind.bits
    return value - (1 << kind.bits) if kind.is_signed and value >> (kind.bits - 1) else value


def same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal dtype, shape and bytes."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == np.ascontiguousarray(expected).tobytes()


def rounded_equal(found: np.ndarray, exact: np.ndarray, ulps: int = 1) -> None:
    """Assert equality to a float64 result rounded to the dtype of `found`, within `ulps` units.

    One unit: the float64 functions of NumPy and of libm may differ in theirs, on either side of a
    tie.
    """
    assert found.shape == exact.shape
    wanted = exact.astype(found.dtype)
    close = (found == wanted) | (np.isnan(found.astype(np.float64)) & np.isnan(exact))
    finite = np.isfinite(wanted.astype(np.float64)) & np.isfinite(found.astype(np.float64))
    # NumPy knows no spacing of bfloat16; the magnitude times epsilon is between one and two units.
    magnitude = np.abs(np.where(finite, wanted.astype(np.float64), 0.0))
    epsilon = float(ml_dtypes.finfo(found.dtype).eps)
    spacing = np.maximum(magnitude * epsilon, float(ml_dtypes.finfo(found.dtype).smallest_subnormal))
    with np.errstate(invalid="ignore"):
        close |= finite & (np.abs(found.astype(np.float64) - wanted.astype(np.float64)) <= ulps * spacing)
    bad = np.argwhere(~close)
    assert close.all(), f"at {bad[:3].tolist()}: found {found[~close][:3]}, expected {wanted[~close][:3]}"
