"""Bounds on the error of one element, in units of the last place of its type."""

from __future__ import annotations

from dovetail import DType

from ..cases import Tolerance

UNIT = {DType.FLOAT64: 2.0**-52, DType.FLOAT32: 2.0**-23, DType.FLOAT16: 2.0**-10, DType.BFLOAT16: 2.0**-7}
"""Distance from 1 to the next number: a unit in the last place is at most this, relatively."""

SMALLEST_NORMAL = {DType.FLOAT64: 2.0**-1022, DType.FLOAT32: 2.0**-126, DType.FLOAT16: 2.0**-14, DType.BFLOAT16: 2.0**-126}
"""Devices may give zero for what is smaller."""


def units(dtype: DType, count: float, reason: str, *, around: float = 0.0) -> Tolerance:
    """Allow `count` units of the result, and zero for what is subnormal.

    Args:
        dtype: Of the result, a float.
        count: Units in the last place, relative to the result.
        reason: The arithmetic.
        around: Units in the last place of 1.0 besides, for results that are differences of numbers
            of about that size.
    """
    return Tolerance(count * UNIT[dtype], around * UNIT[dtype] + SMALLEST_NORMAL[dtype], reason)
