"""Random tensors of every element type, edge values first, and their elements as real numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dovetail import DType

from ..cases import Array

ALL = tuple(DType)
FLOATS = tuple(dtype for dtype in DType if dtype.is_float)
INTEGERS = tuple(dtype for dtype in DType if dtype.is_integer)
NUMBERS = (*FLOATS, *INTEGERS)
_SPECIAL = (0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 3.0)


def stored(values: npt.ArrayLike, dtype: DType) -> Array:
    """Store numbers that the type holds exactly; bfloat16 as its bits, cut off toward zero."""
    if dtype is DType.BFLOAT16:
        single = np.asarray(values, np.float32)
        return np.asarray(single.view(np.uint32) >> np.uint32(16), np.uint16)
    return np.asarray(values).astype(dtype.numpy)


def reals(array: Array, dtype: DType) -> Array:
    """Return floats as float64, exactly; bfloat16 from its bits."""
    if dtype is DType.BFLOAT16:
        return np.asarray(array.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def limits(dtype: DType) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    bounds = np.iinfo(dtype.numpy)
    return int(bounds.min), int(bounds.max)


def led_by(first: Array, rest: Array) -> Array:
    """Replace the first elements of `rest`, as far as there are any, by edge values."""
    flat = rest.reshape(-1).copy()
    count = min(first.size, flat.size)
    flat[:count] = first[:count]
    return flat.reshape(rest.shape)


def uniform(dtype: DType, shape: Sequence[int], rng: np.random.Generator, low: float = -4.0, high: float = 4.0) -> Array:
    """Floats spread evenly over an interval."""
    return stored(rng.uniform(low, high, tuple(shape)), dtype)


def whole(dtype: DType, shape: Sequence[int], rng: np.random.Generator, low: int = -8, high: int = 8) -> Array:
    """Make whole numbers of an interval, led by both ends; negatives become 0 in unsigned types."""
    if dtype is DType.BOOL:
        return truth(shape, rng)
    low = low if dtype.is_signed else max(low, 0)
    high = max(low, high)
    storage = np.uint64 if dtype is DType.UINT64 else np.int64
    values = rng.integers(low, high, tuple(shape), storage, endpoint=True)
    return stored(led_by(np.asarray([low, high], storage), values), dtype)


def truth(shape: Sequence[int], rng: np.random.Generator) -> Array:
    """Both truth values."""
    return np.asarray(rng.integers(0, 2, tuple(shape)), np.bool_)


def special(dtype: DType, shape: Sequence[int], rng: np.random.Generator) -> Array:
    """Make floats: mostly zeros of both signs, infinities, NaN, or numbers that any type holds."""
    return stored(rng.choice(np.asarray(_SPECIAL), tuple(shape)), dtype)


def anything(dtype: DType, shape: Sequence[int], rng: np.random.Generator) -> Array:
    """Make whatever a tensor may hold, for kinds that only move elements.

    Integers have the whole range, floats all extremes.

    No NaN with a payload and no subnormal: a kernel that moves floats through registers may quieten
    or flush them.
    """
    if dtype is DType.BOOL:
        return truth(shape, rng)
    if dtype.is_integer:
        minimum, maximum = limits(dtype)
        return led_by(
            np.asarray([maximum, minimum, 0, 1], dtype.numpy),
            rng.integers(minimum, maximum, tuple(shape), dtype.numpy, endpoint=True),
        )
    plain = stored(rng.standard_normal(tuple(shape)) * 8, dtype)
    return led_by(stored([np.inf, 0.0, -np.inf, np.nan, -1.0], dtype), plain)


RANKED = ("plain", "equal", "special")


def ranked(dtype: DType, shape: Sequence[int], values: str, rng: np.random.Generator) -> Array | None:
    """Make elements to order as `RANKED` names: many ties if `equal`; None for special integers."""
    if values == "special":
        return special(dtype, shape, rng) if dtype.is_float else None
    if values == "equal":
        return stored(rng.integers(0, 2, tuple(shape)) * 3, dtype)
    return uniform(dtype, shape, rng) if dtype.is_float else anything(dtype, shape, rng)
