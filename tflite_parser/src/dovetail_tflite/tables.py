"""Functions of one quantized element of 8 or 16 bits, as tables of all their results.

A layer looks results up. So every backend gives the very integers of TensorFlow Lite's kernels,
where those of the real function, rounded once, would be a step away from some of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import DType
from dovetail.graph.layer import OutputSlot
from dovetail.layers import Cast, Gather

from .call import Call
from .fixed_point import Whole, multiplied

_MOST_BITS = 16
_FAR = 1 << 17
"""Beyond every integer of 16 bits."""
_PLACES = 20
"""Binary places of the inverse of a root."""


def has_table(call: Call, x: OutputSlot) -> bool:
    """Tell whether a slot and the result are quantized, by one scale each, and short enough."""
    stated = [(call.dtype_of(x), call.quantization_of(x)), (call.outputs[0].dtype, call.outputs[0].quantization)]
    return all(dtype.is_integer and dtype.bits <= _MOST_BITS and how is not None and how.axis is None for dtype, how in stated)


def add_table(call: Call, x: OutputSlot, table: Whole) -> OutputSlot:
    """Look up the result of each element.

    Args:
        call: The operator.
        x: Integers of 8 or 16 bits.
        table: Results of all integers of that type from the least one on; clamped to the type of
            the operator's result.
    """
    position = call.add(Cast(dtype=DType.INT32), x, part="position")
    stated = call.outputs[0]
    results = np.clip(table, *stated.dtype.limits).astype(stated.dtype.numpy)
    results = np.roll(results, call.dtype_of(x).limits[0])  # negative positions count from the end
    call.check_affordable(results.size, "its table", results.itemsize)
    held = call.network.constant(results, call.label("table"), quantization=stated.quantization, copy=False)
    return call.add(Gather(axis=0), held, position)


def table_of(call: Call, table: npt.NDArray[Any], part: str) -> OutputSlot:
    """Add a table of plain integers."""
    call.check_affordable(table.size, "its table", table.itemsize)
    return call.network.constant(table, call.label(part), copy=False)


def rescaled(call: Call, x: OutputSlot, slope: float = 1.0) -> Whole:
    """Return x for each integer of a slot's type where it is positive, else slope * x.

    Source: reference_ops::QuantizeLeakyRelu, whose factors are formed in float32.
    """
    mine, theirs, zero = _scales(call, x)
    value = _centered(call, x)
    with np.errstate(over="ignore"):  # a factor that is infinite is refused where it is used
        below = float(np.float32(mine) * np.float32(slope) / np.float32(theirs))
    above = multiplied(value, _ratio(mine, theirs))
    negative = multiplied(value, abs(below)) * (-1 if below < 0 else 1)
    return np.where(value >= 0, above, negative) + zero


def clamped(call: Call, x: OutputSlot, least: float, most: float) -> Whole:
    """Return each integer of a slot's type within limits (QuantizedReluX of lite/kernels)."""
    _, theirs, zero = _scales(call, x)
    low, high = (math.inf if math.isinf(limit) else zero + math.floor(limit / theirs + 0.5) for limit in (least, most))
    found: Whole = np.clip(rescaled(call, x), low, high).astype(np.int64)
    return found


def requantized(call: Call, x: OutputSlot) -> Whole:
    """Return each integer of a slot's type by the result's scale (reference_ops::Requantize)."""
    mine, theirs, zero = _scales(call, x)
    return multiplied(_centered(call, x), mine / theirs) + zero


def magnitudes(call: Call, x: OutputSlot) -> Whole:
    """Return the magnitude of each integer of a slot's type (AbsEvalQuantized)."""
    mine, theirs, zero = _scales(call, x)
    return multiplied(np.abs(_centered(call, x)), _ratio(mine, theirs)) + zero


def roots(call: Call, x: OutputSlot) -> Whole:
    """Return the root of each integer of a slot's type, cut off (SqrtEvalQuantized)."""
    mine, theirs, zero = _scales(call, x)
    with np.errstate(over="ignore"):
        numbers = np.sqrt(np.float32(mine) * np.maximum(_centered(call, x), 0).astype(np.float32)) / np.float32(theirs)
    found: Whole = np.trunc(np.minimum(numbers, _FAR)).astype(np.int64) + zero
    return found


def inverse_roots(call: Call, x: OutputSlot) -> Whole:
    """Return the inverse of the root of each integer of a slot's type (RsqrtEvalQuantized).

    The inverse of the root of the integer itself is rounded to 20 binary places first. Those that
    have none give the greatest integer.
    """
    mine, theirs, zero = _scales(call, x)
    value = _centered(call, x)
    with np.errstate(over="ignore", divide="ignore"):
        factor = float(np.float32(1) / (np.sqrt(np.float32(mine)) * np.float32(theirs)))
    places = np.floor((1 << _PLACES) / np.sqrt(np.maximum(value, 1)) + 0.5).astype(np.int64)
    return np.where(value > 0, multiplied(places, math.ldexp(factor, -_PLACES)) + zero, _FAR)


def _ratio(mine: float, theirs: float) -> float:
    """Return the quotient of two scales as float32 has it."""
    with np.errstate(over="ignore"):
        return float(np.float32(mine) / np.float32(theirs))


def _scales(call: Call, x: OutputSlot) -> tuple[float, float, int]:
    """Return the scale of a slot, and scale and zero point of the result."""
    mine, theirs = call.quantization_of(x), call.outputs[0].quantization
    assert mine is not None
    assert theirs is not None
    mine.check(call.dtype_of(x))
    theirs.check(call.outputs[0].dtype)
    return mine.scale[0], theirs.scale[0], theirs.zero_point[0]


def _centered(call: Call, x: OutputSlot) -> Whole:
    """Return every integer of a slot's type less its zero point."""
    quantization, (low, high) = call.quantization_of(x), call.dtype_of(x).limits
    assert quantization is not None
    return np.arange(low, high + 1, dtype=np.int64) - quantization.zero_point[0]
