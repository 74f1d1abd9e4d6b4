"""Functions of quantized words of 16 bits, by the tables that TensorFlow Lite defines them by.

A function of one word becomes a table of all 65536 results, which a layer looks up; softmax becomes
layers of plain integers. So every backend gives the very words of TensorFlow Lite's kernels, which
are some steps away from the real function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import DType, Quantization
from dovetail.graph.layer import OutputSlot
from dovetail.layers import (
    BinaryOperation,
    Cast,
    Comparison,
    ComparisonOperation,
    Gather,
    Reduce,
    ReduceFunction,
)

from .call import Call
from .elementwise_parts import combined
from .fixed_point import Whole, multiplied, number, raised
from .tables import table_of

Reals = npt.NDArray[Any]

_LEAST, _GREATEST = -(1 << 15), (1 << 15) - 1
_ALL = np.arange(_LEAST, _GREATEST + 1, dtype=np.int64)
"""Every word, in the order of its result in a table."""
_FAR = 2.0**40
"""Beyond every word, and still a number that can be computed with."""
_STEPS = 512
"""Intervals that a function is interpolated in."""


def are_words(call: Call, x: OutputSlot) -> bool:
    """Tell whether a slot and the result are words around zero that stand for real numbers."""
    stated = [(call.dtype_of(x), call.quantization_of(x)), (call.outputs[0].dtype, call.outputs[0].quantization)]
    return all(
        dtype is DType.INT16 and how is not None and how.axis is None and how.zero_point == (0,) for dtype, how in stated
    )


def tabulated(function: Callable[[Reals], Reals], mine: Quantization, theirs: Quantization) -> Whole:
    """Return the results of a function that is interpolated (LUTPopulate of lite/kernels).

    Args:
        function: From float32 to float32, rounded once: where NumPy's functions of float32 are off
            by a bit, a sample may be off by a step, and with it what is interpolated from it.
        mine: Of what it reads.
        theirs: Of its result.
    """
    samples = _samples(function, np.float32(mine.scale[0]), mine.zero_point[0], np.float32(theirs.scale[0]))
    return _interpolated(samples)


def exponentials(x: Reals) -> Reals:
    """Return the exponential function of float32."""
    return np.exp(x.astype(np.float64)).astype(np.float32)


def erf_gelu(x: Reals) -> Reals:
    """Return the Gaussian error linear unit of float32 (reference_ops::GeluTransform)."""
    places = (x * -np.float32(math.sqrt(0.5))).tolist()
    return np.float32(0.5) * x * np.asarray([math.erfc(place) for place in places], np.float32)


def tanh_gelu(x: Reals) -> Reals:
    """Return its approximation by tanh (reference_ops::GeluTransformApproximate)."""
    slope, cubic = np.float32(math.sqrt(2 / math.pi)), np.float32(0.044715)
    places = slope * (x + cubic * x * x * x)
    return np.float32(0.5) * x * (1 + np.tanh(places.astype(np.float64)).astype(np.float32))


def sigmoid_table(scale: float) -> Whole:
    """Return the results of the logistic function, in multiples of 2^-15."""
    x = _multiples(scale, (0,))
    high, low = np.abs(x) >> 9, np.abs(x) & 0x1FF
    a, b = _sigmoids(high)
    result = np.where(high >= 255, 0x7FFF << 10, (a << 9) + low * (b - a))
    result = np.where(x >= 0, result + (1 << 9), (1 << 25) - result + (1 << 9) - 1)
    return result >> 10


def tanh_table(scale: float) -> Whole:
    """Return the results of the hyperbolic tangent, in multiples of 2^-15."""
    x = _multiples(scale, (0, 1))
    high, low = np.abs(x) >> 8, np.abs(x) & 0xFF
    a, b = _sigmoids(high)
    result = np.where(high >= 255, 0xFFFF << 8, (a << 8) + low * (b - a))
    result = np.where(x >= 0, result - (1 << 23) + (1 << 7), -result + (1 << 23) + (1 << 7) - 1)
    return result >> 8


def add_softmax(call: Call, x: OutputSlot, beta: float) -> OutputSlot:
    """Add softmax along the last axis (reference_ops::SoftmaxInt16)."""
    quantization = call.quantization_of(x)
    assert quantization is not None
    words = call.add(Cast(dtype=DType.INT32), x, part="word")
    largest = _reduced(call, words, ReduceFunction.MAX, "largest")
    below = combined(call, BinaryOperation.SUB, words, largest, "below")
    power = _looked_up(call, _powers(quantization.scale[0] * beta), raised(call, below, 0xFFFF, "place"), "power")
    total = _reduced(call, power, ReduceFunction.SUM, "total")
    # The bits of the total beyond 15, which it has at least nearly.
    limits = call.network.constant(1 << np.arange(15, 31, dtype=np.int32), call.label("limits"))
    reached = call.add(Comparison(operation=ComparisonOperation.GREATER_OR_EQUAL), total, limits, part="reached")
    bits = _reduced(call, call.add(Cast(dtype=DType.INT32), reached, part="ones"), ReduceFunction.SUM, "bits")
    inverse = _inverse(call, total, bits)
    product = combined(call, BinaryOperation.MUL, power, inverse, "product")
    ones = number(call, 1, DType.INT32, "one")
    half = combined(call, BinaryOperation.SHIFT_LEFT, ones, raised(call, bits, 13, "half_place"), "half")
    rounded = combined(call, BinaryOperation.ADD, product, half, "rounded")
    result = combined(call, BinaryOperation.SHIFT_RIGHT, rounded, raised(call, bits, 14, "unit_place"), "quotient")
    most = number(call, _GREATEST, DType.INT32, "most")
    return call.add(Cast(dtype=DType.INT16), combined(call, BinaryOperation.MINIMUM, result, most, "cut"))


def _inverse(call: Call, total: OutputSlot, bits: OutputSlot) -> OutputSlot:
    """Look up 1 / total, in multiples of a power of two that depends on the bits of it."""
    wide = call.add(Cast(dtype=DType.INT64), total, part="wide_total")
    room = combined(call, BinaryOperation.SUB, number(call, 16, DType.INT32, "most_bits"), bits, "room")
    room = call.add(Cast(dtype=DType.INT64), room, part="wide_room")
    full = combined(call, BinaryOperation.SHIFT_LEFT, wide, room, "full")
    full = raised(call, full, 1 << 13, "full_rounded")
    places = number(call, 14, DType.INT64, "places")
    mantissa = combined(call, BinaryOperation.SHIFT_RIGHT, full, places, "mantissa")
    last = number(call, 0xFFFF, DType.INT64, "last")
    index = combined(call, BinaryOperation.MINIMUM, raised(call, mantissa, -(1 << 16), "rest"), last, "index")
    step = np.float64(1.0) / 0xFFFF
    table = _interpolated(_samples(lambda x: 1 / (1 + x), step, _LEAST, 2 * step))
    return _looked_up(call, table, index, "inverse")


def _powers(scale: float) -> Whole:
    """Return exp(scale * x) for x from -65535 to 0, in multiples of 2^-15."""
    step = np.float64(10.0) / 0xFFFF
    table = _interpolated(_samples(np.exp, step, _GREATEST, np.float64(2.0) / 0xFFFF))
    below = np.arange(-0xFFFF, 1, dtype=np.int64)
    scaled = multiplied(below, scale / float(step)) + _GREATEST
    return table[np.clip(scaled, _LEAST, _GREATEST) - _LEAST]


def _reduced(call: Call, x: OutputSlot, function: ReduceFunction, part: str) -> OutputSlot:
    return call.add(Reduce(function=function, axes=(-1,), keep_dims=True), x, part=part)


def _looked_up(call: Call, table: Whole, index: OutputSlot, part: str) -> OutputSlot:
    return call.add(Gather(axis=0), table_of(call, table.astype(np.int32), f"{part}_table"), index, part=part)


# -- tables ----------------------------------------------------------------------------------------


def _samples(function: Callable[[Reals], Reals], scale: Any, zero: int, result_scale: Any) -> Whole:
    """Sample a function at the ends of the intervals, shifted to be right in between, too."""
    real = type(scale)
    first, last = scale * real(_LEAST - zero), scale * real(_GREATEST - zero)
    step = (last - first) / real(_STEPS)
    inverse = real(1 << 16) / (result_scale * real(_GREATEST) - result_scale * real(_LEAST))
    starts = first + np.arange(_STEPS, dtype=real) * step
    nexts = first + np.arange(1, _STEPS + 1, dtype=real) * step
    places = (starts, starts + step / 2, nexts, np.asarray([last]))
    with np.errstate(all="ignore"):  # of functions that grow beyond all that counts
        at_start, at_half, at_next, at_end = (np.clip(function(x) * inverse, -_FAR, _FAR) for x in places)
    start = _rounded(at_start)
    error = _rounded((at_next + start) / 2) - _rounded(at_half)
    values = np.nan_to_num(np.concatenate([start - _rounded(error / 2), _rounded(at_end)]))
    found: Whole = np.clip(values, _LEAST, _GREATEST).astype(np.int64)
    return found


def _rounded(x: Reals) -> Reals:
    """Round halves away from zero."""
    found: Reals = np.copysign(np.floor(np.abs(x) + np.asarray(0.5, x.dtype)), x)
    return found


def _interpolated(samples: Whole) -> Whole:
    index, offset = (_ALL - _LEAST) >> 7, _ALL & 0x7F
    slope = (samples[index + 1] - samples[index]).astype(np.int16).astype(np.int64)
    found: Whole = (samples[index] + ((slope * offset + 64) >> 7)).astype(np.int16).astype(np.int64)
    return found


def _multiples(scale: float, exponents: tuple[int, ...]) -> Whole:
    """Return every word in multiples of 1 / (3 * 2^12); scales of these exponents are exact."""
    fraction, exponent = math.frexp(scale)
    if fraction == 0.5 and exponent + 11 in exponents:
        found: Whole = _ALL * (3 << (exponent + 11))
        return found
    factor, shift = scale * 4096.0 * 3.0, 0
    while factor <= _GREATEST / 2 and shift <= 30:
        factor, shift = 2 * factor, shift + 1
    return (_ALL * int(min(factor, 2.0**31)) + ((1 << shift) >> 1)) >> shift


def _sigmoids(index: Whole) -> tuple[Whole, Whole]:
    """Return samples of the logistic function at index / 24 and at the next, in multiples of 2^-16.

    They are off by half of what interpolation between them is off, so that neither is wrong by
    much; from the last one on the result is one.
    """
    halves = 65536 / (1 + np.exp(-np.arange(513) / 48))
    ends, middles = halves[::2], halves[1::2]
    error = middles - (ends[:-1] + ends[1:]) / 2
    known = np.floor(ends[:-1] + error / 2 + 0.5).astype(np.int64)
    known[-1] = 65535
    index = np.minimum(index, 254)
    return known[index], known[index + 1]
