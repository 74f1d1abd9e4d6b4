"""The bits of one element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dovetail import DType


def element_bits(dtype: DType, value: Any) -> int:
    """Return an element as an unsigned number.

    A value of another type is converted by the rule of `Cast`.
    """
    if dtype is DType.BFLOAT16:
        if math.isnan(value):
            return 0x7FC0
        bits = int(np.float32(value).view(np.uint32))  # a float32 that was bfloat16 rounds to itself
        return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    if dtype is DType.BOOL:
        return int(value != 0)
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return int.from_bytes(np.asarray(value).astype(dtype.numpy).tobytes(), "little")
    whole = int(value) if math.isfinite(value) else 0
    return whole & ((1 << dtype.bits) - 1)
