"""Products of plain integers that do not overflow: what overflow gives is left open."""

from __future__ import annotations

import math

import numpy as np

from dovetail import DType

from ..cases import Array
from . import samples


def whole_operand(dtype: DType, shape: tuple[int, ...], terms: int, rng: np.random.Generator) -> Array | None:
    """Return non-zero integers of which so many products fit their type; None if too many."""
    maximum = math.isqrt(samples.limits(dtype)[1] // (terms + 1))
    if maximum < 1:
        return None
    magnitude = rng.integers(1, maximum, shape, np.int64, endpoint=True)
    sign = rng.choice([-1, 1], shape) if dtype.is_signed else 1
    return np.asarray(magnitude * sign, dtype.numpy)


def summed(product: Array, dtype: DType) -> Array:
    """Store exact sums."""
    minimum, maximum = samples.limits(dtype)
    if product.size and not minimum <= int(product.min()) <= int(product.max()) <= maximum:
        raise OverflowError(f"a sum does not fit {dtype}")
    return product.astype(dtype.numpy)
