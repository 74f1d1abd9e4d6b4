"""Error bounds of results that many elements go into, from the arithmetic of accumulating.

A sum of n terms, formed in any order with unit roundoff u, is off by at most gamma(n) * sum
|terms|, gamma(n) = n u / (1 - n u) (Higham, Accuracy and Stability of Numerical Algorithms, 2nd
ed., 4.2). A kernel of 16-bit floats accumulates in float32.
"""

from __future__ import annotations

from dovetail import DType

from ..cases import Tolerance
from .precision import SMALLEST_NORMAL, UNIT


def gamma(count: int, dtype: DType) -> float:
    """Bound the relative error of `count` roundings in the least accumulator of this float type."""
    roundoff = 2.0**-53 if dtype is DType.FLOAT64 else 2.0**-24
    return count * roundoff / (1 - count * roundoff)


def accumulated(dtype: DType, roundings: int, magnitude: float, *, extra: float = 0.0, what: str = "a sum") -> Tolerance:
    """Allow what rounding does to a sum.

    Args:
        dtype: Of the result, a float.
        roundings: That a term may go through, one for each addition, multiplication or conversion.
        magnitude: Greatest sum of |terms| of any element of the result.
        extra: Absolute error from elsewhere.
        what: Of the reason.
    """
    reason = (
        f"{what}: each term is rounded at most {roundings} times, which moves the result by at most gamma({roundings}) = "
        f"{gamma(roundings, dtype):.2g} times the sum of |terms|, {magnitude:.3g}; one unit in the last place for storing it"
    )
    return Tolerance(UNIT[dtype], gamma(roundings, dtype) * magnitude + extra + SMALLEST_NORMAL[dtype], reason)


def proportional(dtype: DType, roundings: int, reason: str, *, extra: float = 0.0) -> Tolerance:
    """Allow `roundings` relative to the result, one ulp to store it, and `extra`, absolute."""
    text = f"{reason}: gamma({roundings}) of the result, and one unit in the last place for storing it"
    return Tolerance(UNIT[dtype] + gamma(roundings, dtype), extra + SMALLEST_NORMAL[dtype], text)
