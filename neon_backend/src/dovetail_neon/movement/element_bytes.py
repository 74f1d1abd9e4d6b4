"""The bytes of one element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dovetail import DType


def element_bytes(dtype: DType, value: Any) -> bytes:
    """Return an element as bytes; a value of another type is converted by the rule of `Cast`."""
    if dtype is DType.BFLOAT16:
        if math.isnan(value):
            return b"\xc0\x7f"
        bits = int(np.float32(value).view(np.uint32))  # a float32 that was bfloat16 rounds to itself
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).to_bytes(2, "little")
    if dtype is DType.BOOL:
        return bytes([value != 0])
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return np.asarray(value).astype(dtype.numpy).tobytes()
    whole = int(value) if math.isfinite(value) else 0
    return (whole & ((1 << dtype.bits) - 1)).to_bytes(dtype.itemsize, "little")
