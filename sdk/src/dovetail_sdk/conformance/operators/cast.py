"""Cast: each element as another type, save what the target cannot hold: there runtimes differ."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import Cast

from ..cases import Array, Case, Feed, Operator, Parameters
from ..references import samples
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import layer_case

_DIGITS = {DType.FLOAT64: 53, DType.FLOAT32: 24, DType.FLOAT16: 11, DType.BFLOAT16: 8}
"""Binary digits of a float's significand."""


def _whole_limits(dtype: DType) -> tuple[int, int]:
    """Return the least and greatest whole number that a type holds, with all between them."""
    if dtype.is_float:
        return -(1 << _DIGITS[dtype]), 1 << _DIGITS[dtype]
    return samples.limits(dtype)


def _near_ties(source: DType, target: DType, count: int, rng: np.random.Generator) -> Array | None:
    """Make numbers at and next to the midpoints of a narrower float's neighbours.

    The result is None if the target holds them all.
    """
    extra = (_DIGITS[source] if source.is_float else source.bits - source.is_signed) - _DIGITS[target]
    # Whole numbers stay below float16's largest; 20 digits are enough to be a tie in float32 that
    # was none before.
    extra = min(extra, 4 if source.is_integer and target is DType.FLOAT16 else 20)
    if extra < 1:
        return None
    steps, top = 1 << extra, 1 << (_DIGITS[target] - 1)
    beside = np.asarray([steps // 2, steps // 2 + 1, steps // 2 - 1, steps - 1])
    values = rng.integers(top, 2 * top, count) * steps + np.resize(beside, count)
    return values / (top * steps) * rng.choice([-1.0, 1.0], count) if source.is_float else values


def _to_bool(source: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    small = samples.whole(source, shape, rng, -1, 1)
    if source.is_float:  # fractions, and what has zeros in its lower bytes
        first = samples.stored([0.25, 0.0, -0.0, 256.0, np.inf, -np.inf, np.nan], source)
    else:
        first = samples.stored([64, 0, 1, 1 << (source.bits - 2)], source)
    return samples.led_by(first, small)


def _plain(source: DType, target: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    if source is DType.BOOL or target is DType.BOOL:
        return samples.truth(shape, rng) if source is DType.BOOL else _to_bool(source, shape, rng)
    if source.is_float and target.is_float:
        return samples.anything(source, shape, rng)
    if source.is_float:
        first = [0.0, 0.5, 0.75, 1.25, 1.5, 1.75, 2.5, 126.5, 127.0]
        if target.is_signed:
            first = [-0.75, -1.5, 1.75, -2.5, 0.5, 126.5, -127.5, 3.5]
        return samples.led_by(
            samples.stored(first, source), samples.uniform(source, shape, rng, -120.0 * target.is_signed, 120.0)
        )
    (low, high), (minimum, maximum) = _whole_limits(source), _whole_limits(target)
    return samples.whole(source, shape, rng, max(low, minimum), min(high, maximum))


def cast_to(x: Array, source: DType, target: DType) -> Array:
    """Truncate to integers, test for non-zero to bool; leave floats in float64, to round once."""
    values = samples.reals(x, source) if source.is_float else x
    if target is DType.BOOL:
        return np.asarray(values != 0)
    if target.is_float:
        return values.astype(np.float64)
    return (np.trunc(values) if source.is_float else values).astype(target.numpy)


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, target = shape_of(parameters), DType.of(parameters["dtype"])
    if shape is None:
        return None
    if parameters["values"] == "plain":
        x = _plain(dtype, target, shape, rng)
    elif target.is_float and dtype is not DType.BOOL:
        ties = _near_ties(dtype, target, int(np.prod(shape)), rng)
        if ties is None:
            return None
        x = samples.stored(ties.reshape(shape), dtype)
    else:
        return None
    return layer_case(Cast(dtype=target), [Feed(x, dtype=dtype)], cast_to(x, dtype, target))


_LABELS = ("float32", *(dtype.label for dtype in DType if dtype is not DType.FLOAT32))

OPERATOR = Operator(
    kind="dovetail.Cast",
    dtypes=samples.ALL,
    parameters={"dtype": _LABELS, **SIZES, "values": ("plain", "ties")},
    make=_make,
    quantities={**quantities_of("input", "output"), "output.dtype": "dtype"},
    together=[
        *({"dtype": label, "values": "ties"} for label in ("float64", "float16", "bfloat16")),
        *({"dtype": "int32", "channels": size} for size in (0, 1, 7, 17)),
        *({"dtype": "uint8", "rank": rank} for rank in (0, 1, 6)),
        *({"dtype": "bool", "channels": size} for size in (7, 17)),
    ],
)
