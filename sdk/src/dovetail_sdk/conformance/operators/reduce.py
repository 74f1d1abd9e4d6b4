"""Reduce: many elements become one, along axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dovetail import DType, Quantization
from dovetail.layers import Reduce, ReduceFunction

from ..cases import EXACT, Array, Case, Feed, Operator, Parameters, Tolerance
from ..references import samples
from ..references.quantized_elementwise import ONE_QUANTUM, quantized, real
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import layer_case
from ..references.tolerances import accumulated, gamma, proportional

Line = Sequence[Any]


def _log_sum_exp(line: Line) -> float:
    """Sum powers of e, none of which overflows, relative to the greatest."""
    greatest = max(line, default=-math.inf)
    return greatest + math.log(math.fsum(math.exp(x - greatest) for x in line)) if line else -math.inf


def _extreme(pick: Callable[..., float], neutral: float) -> Callable[[Line], float]:
    return lambda line: math.nan if any(map(math.isnan, line)) else pick(line, default=neutral)


REAL: Mapping[ReduceFunction, Callable[[Line], float]] = {
    ReduceFunction.SUM: math.fsum,
    ReduceFunction.MEAN: lambda line: math.fsum(line) / len(line),
    ReduceFunction.MAX: _extreme(max, -math.inf),
    ReduceFunction.MIN: _extreme(min, math.inf),
    ReduceFunction.PROD: math.prod,
    ReduceFunction.L1: lambda line: math.fsum(map(abs, line)),
    ReduceFunction.L2: lambda line: math.sqrt(math.fsum(x * x for x in line)),
    ReduceFunction.SUM_SQUARE: lambda line: math.fsum(x * x for x in line),
    ReduceFunction.LOG_SUM: lambda line: math.log(math.fsum(line)) if line else -math.inf,
    ReduceFunction.LOG_SUM_EXP: _log_sum_exp,
}
"""Of one line of real numbers, each sum rounded once."""

WHOLE: Mapping[ReduceFunction, Callable[[Line], int]] = {
    ReduceFunction.SUM: sum,
    ReduceFunction.MEAN: lambda line: math.trunc(sum(line) / len(line)),
    ReduceFunction.PROD: math.prod,
    ReduceFunction.L1: lambda line: sum(map(abs, line)),
    ReduceFunction.L2: lambda line: math.isqrt(sum(x * x for x in line)),
    ReduceFunction.SUM_SQUARE: lambda line: sum(x * x for x in line),
    ReduceFunction.LOG_SUM: lambda line: math.trunc(math.log(sum(line))),
    ReduceFunction.LOG_SUM_EXP: lambda line: math.trunc(_log_sum_exp(line)),
}
"""Of one line of integers, before it wraps."""
_EXTREMES = (ReduceFunction.MAX, ReduceFunction.MIN)
_QUANTIZED = (ReduceFunction.SUM, ReduceFunction.MEAN, *_EXTREMES)
_RING = (ReduceFunction.SUM, ReduceFunction.PROD, ReduceFunction.L1, ReduceFunction.SUM_SQUARE)
"""Functions of integers that wrap modulo 2^bits whatever the type of the sum."""
_NO_NEUTRAL = (ReduceFunction.MEAN,)
_TRUNCATED = Tolerance(0.0, 1.0, "the logarithm is truncated: an error of any size may carry it over a whole number")


def lines_of(x: Array, axes: Sequence[int]) -> tuple[tuple[int, ...], list[list[Any]]]:
    """Return the shape that is left and, in order, what is reduced to each of its elements."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    shape = tuple(x.shape[axis] for axis in kept)
    moved = x.transpose(*kept, *axes)
    return shape, [moved[place].reshape(-1).tolist() for place in np.ndindex(shape)]


def wrapped(value: int, dtype: DType) -> int:
    """Return the integer of a type that is equal to a value modulo 2^bits."""
    value %= 1 << dtype.bits
    return value - (1 << dtype.bits) if dtype.is_signed and value >> (dtype.bits - 1) else value


def _extreme_whole(function: ReduceFunction, dtype: DType) -> Callable[[Line], int]:
    low, high = (0, 1) if dtype is DType.BOOL else samples.limits(dtype)
    return (lambda line: max(line, default=low)) if function is ReduceFunction.MAX else (lambda line: min(line, default=high))


def _tolerance(function: ReduceFunction, dtype: DType, lines: list[list[float]]) -> Tolerance:
    """Bound what accumulation in any order does, by the terms of the longest line."""
    count = max((len(line) for line in lines), default=0)
    total = max((math.fsum(map(abs, line)) for line in lines), default=0.0)
    if function in _EXTREMES:
        return EXACT
    if function is ReduceFunction.SUM:
        return accumulated(dtype, count, total)
    if function is ReduceFunction.MEAN:
        return accumulated(dtype, count + 2, total / max(count, 1), what="a mean")
    if function in (ReduceFunction.PROD, ReduceFunction.L1):
        return proportional(dtype, count, "a product, or a sum of numbers of one sign, of n factors or terms")
    if function in (ReduceFunction.L2, ReduceFunction.SUM_SQUARE):
        return proportional(dtype, count + 4, "squares and their sum have one sign; 3 units at most for a root (OpenCL C)")
    # The logarithm turns the relative error of the sum into an absolute one, and errs by 3 units
    # itself (OpenCL C).
    if function is ReduceFunction.LOG_SUM:
        return proportional(dtype, 6, "3 units for the logarithm", extra=gamma(count + 4, dtype))
    spread = max((max(line) - min(line) for line in lines if line), default=0.0)
    greatest = max((max(map(abs, line)) for line in lines if line), default=0.0)
    # exp(x - greatest): the difference is rounded (spread * u), exp errs by 3 units; greatest + log
    # is rounded at its size.
    extra = gamma(count + 10, dtype) + gamma(2, dtype) * (spread + greatest)
    return proportional(dtype, 6, "3 units for the logarithm", extra=extra)


def _floats(
    function: ReduceFunction, dtype: DType, shape: tuple[int, ...], values: str, rng: np.random.Generator
) -> Array | None:
    if values == "special":
        return samples.special(dtype, shape, rng) if function in _EXTREMES else None
    if values == "large":
        # A sum of powers of e that overflows unless the greatest element is taken out first.
        return samples.uniform(dtype, shape, rng, 900.0, 903.0) if function is ReduceFunction.LOG_SUM_EXP else None
    if function is ReduceFunction.PROD:
        return samples.uniform(dtype, shape, rng, 0.75, 1.375)
    return samples.uniform(dtype, shape, rng, *((0.25, 4.0) if function is ReduceFunction.LOG_SUM else (-4.0, 4.0)))


def _whole(
    function: ReduceFunction, dtype: DType, shape: tuple[int, ...], values: str, rng: np.random.Generator
) -> Array | None:
    if values == "special":
        return None
    minimum, maximum = samples.limits(dtype)
    if values == "large":  # the least number has no magnitude of its type
        fits = function in (*_RING, *_EXTREMES)
        return (
            samples.whole(dtype, shape, rng, minimum + (function is ReduceFunction.L1 and dtype.is_signed), maximum)
            if fits
            else None
        )
    if function in (ReduceFunction.LOG_SUM, ReduceFunction.LOG_SUM_EXP):
        return samples.whole(dtype, shape, rng, 1, 9)
    if function is ReduceFunction.MEAN:
        return samples.whole(
            dtype, shape, rng, -min(maximum // max(math.prod(shape), 1), 50), min(maximum // max(math.prod(shape), 1), 50)
        )
    return samples.whole(dtype, shape, rng, -1 if dtype.bits == 8 else -3, 1 if dtype.bits == 8 else 3)


def _make_quantized(descriptor: Reduce, dtype: DType, axes: Sequence[int], x: Array, keep: tuple[int, ...]) -> Case | None:
    if descriptor.function not in _QUANTIZED or not x.size:
        return None
    zero = 3 if dtype is DType.INT8 else 131
    given, result = Quantization.per_tensor(0.05, zero), Quantization.per_tensor(0.0625, zero - 9)
    if descriptor.function is ReduceFunction.SUM:
        result = Quantization.per_tensor(0.05 * math.sqrt(math.prod(x.shape[axis] for axis in axes)), zero - 9)
    shape, lines = lines_of(real(x, given), axes)
    reduced = np.asarray([REAL[descriptor.function](line) for line in lines], np.float64).reshape(keep or shape)
    feed = Feed(x, dtype=dtype, quantization=given)
    return layer_case(descriptor, [feed], quantized(reduced, result, dtype), tolerance=ONE_QUANTUM, quantization=result)


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    function, shape, named = ReduceFunction(parameters["function"]), shape_of(parameters), parameters["axes"]
    if shape is None or not all(-len(shape) <= axis < len(shape) for axis in named or ()):
        return None
    axes = tuple(range(len(shape))) if named is None else tuple(sorted(axis % len(shape) for axis in named))
    values, keep_dims = parameters["values"], parameters["keep_dims"]
    descriptor = Reduce(function=function, axes=named, keep_dims=keep_dims)
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape)) if keep_dims else ()
    if len(set(axes)) < len(axes):
        return None
    if parameters["quantization"] is not None:
        if dtype not in (DType.INT8, DType.UINT8) or values != "plain":
            return None
        return _make_quantized(descriptor, dtype, axes, samples.anything(dtype, shape, rng), kept)
    if function in _NO_NEUTRAL and any(shape[axis] == 0 for axis in axes):
        return None
    if dtype is DType.BOOL:
        x = samples.truth(shape, rng) if function in _EXTREMES and values == "plain" else None
    else:
        x = (_floats if dtype.is_float else _whole)(function, dtype, shape, values, rng)
    if x is None:
        return None
    left, lines = lines_of(samples.reals(x, dtype) if dtype.is_float else x, axes)
    if dtype.is_float:
        result, tolerance = np.asarray([REAL[function](line) for line in lines], np.float64), _tolerance(function, dtype, lines)
    else:
        if function in (ReduceFunction.LOG_SUM, ReduceFunction.LOG_SUM_EXP) and any(not line for line in lines):
            return None
        one = _extreme_whole(function, dtype) if function in _EXTREMES else WHOLE[function]
        found = [one(line) for line in lines]
        result = np.asarray(found if dtype is DType.BOOL else [wrapped(value, dtype) for value in found], dtype.numpy)
        tolerance = _TRUNCATED if function in (ReduceFunction.LOG_SUM, ReduceFunction.LOG_SUM_EXP) else EXACT
    return layer_case(descriptor, [Feed(x, dtype=dtype)], result.reshape(kept or left), tolerance=tolerance)


_AXES = (None, (), (0,), (1,), (2,), (3,), (-1,), (-4,), (1, 2), (2, 3), (0, 2), (-1, 1), (0, 1, 2, 3))

OPERATOR = Operator(
    kind="dovetail.Reduce",
    dtypes=samples.ALL,
    parameters={
        "function": (ReduceFunction.MAX, *(one for one in ReduceFunction if one is not ReduceFunction.MAX)),
        **SIZES,
        "axes": ((-1,), *(axes for axes in _AXES if axes != (-1,))),
        "keep_dims": (False, True),
        "values": ("plain", "large", "special"),
        "quantization": (None, "scaled"),
    },
    make=_make,
    quantities=quantities_of("input"),
    together=[
        *({"function": function, "axes": axes} for function in ReduceFunction for axes in (None, (1, 2), (0, 2))),
        *({"function": function, "values": values} for function in ReduceFunction for values in ("large", "special")),
        *({"function": function, "channels": size} for function in ReduceFunction for size in (0, 1, 17)),
        *({"function": function, "quantization": "scaled"} for function in _QUANTIZED[:2]),
        *({"function": function, "quantization": "scaled", "axes": (1, 2), "keep_dims": True} for function in _QUANTIZED),
        # Rows and columns of images, however they are counted.
        *(
            {"function": ReduceFunction.MEAN, "quantization": "scaled", "axes": axes}
            for axes in ((1, 2), (2, 3), (-3, -2), (-2, -1))
        ),
        {"axes": (1, 2), "keep_dims": True, "function": ReduceFunction.MEAN},
        {"axes": None, "keep_dims": True},
        {"rank": 0, "axes": None},
        {"rank": 0, "axes": (), "function": ReduceFunction.SUM},
        {"rank": 1, "axes": None, "channels": 65, "function": ReduceFunction.SUM},
    ],
)
