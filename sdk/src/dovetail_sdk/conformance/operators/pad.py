"""Pad: elements before and after each axis, or fewer of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dovetail import DType
from dovetail.layers import Pad, PadMode

from ..cases import Array, Case, Feed, Parameters
from ..references import samples
from ..references.moving import KEPT, any_type_operator
from ..references.shapes import shape_of
from ..references.single_layer import carries, layer_case, marked

_PATTERNS = ("spatial", "nothing", "all", "before", "after", "last", "cropped", "cropped and padded", "to the limit")


def counts(shape: tuple[int, ...], pattern: str, mode: PadMode) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return how many elements precede and follow each axis; None if the pattern makes no sense."""
    rank = len(shape)
    limit = {PadMode.CONSTANT: 3, PadMode.EDGE: 3, PadMode.REFLECT: -1}.get(mode, 0)
    # Reflection needs one element more than it adds, the mirror and the wrap as many.
    maximum = [3 if limit == 3 else max(size + limit, 0) for size in shape]
    some = [min(1, m) for m in maximum]
    zero = (0,) * rank
    if pattern == "spatial":
        before = tuple(some[axis] if axis in (rank - 2, rank - 3) else 0 for axis in range(rank))
        return before, tuple(min(2 * count, maximum[axis]) for axis, count in enumerate(before))
    if pattern == "last":
        return (*zero[1:], *some[-1:]), (*zero[1:], *maximum[-1:])
    ways = {
        "nothing": (zero, zero),
        "all": (tuple(some), tuple(some)),
        "before": (tuple(some), zero),
        "after": (zero, tuple(some)),
        "to the limit": (tuple(maximum), tuple(maximum)),
    }
    if pattern in ways:
        return ways[pattern]
    if mode is not PadMode.CONSTANT or any(size < 1 for size in shape):
        return None
    return ((-1,) * rank, zero if pattern == "cropped" else (2,) * rank)


_INDICES: Mapping[PadMode, Any] = {
    PadMode.EDGE: lambda at, size: min(max(at, 0), size - 1),
    PadMode.REFLECT: lambda at, size: -at if at < 0 else at if at < size else 2 * (size - 1) - at,
    PadMode.SYMMETRIC: lambda at, size: -1 - at if at < 0 else at if at < size else 2 * size - 1 - at,
    PadMode.WRAP: lambda at, size: at % size,
}
"""Which element of an axis stands at a position, which is negative before it."""


def padded(x: Array, before: tuple[int, ...], after: tuple[int, ...], mode: PadMode, fill: Array) -> Array:
    """Pad axis after axis; `fill` is one element."""
    for axis, (first, last) in enumerate(zip(before, after, strict=True)):
        size = x.shape[axis]
        positions = range(-first, size + last)
        if mode is PadMode.CONSTANT:
            inside = [at for at in positions if 0 <= at < size]
            edges = [
                (sum(at < 0 for at in positions), sum(at >= size for at in positions)) if i == axis else (0, 0)
                for i in range(x.ndim)
            ]
            x = np.pad(np.take(x, np.asarray(inside, np.int64), axis), edges, constant_values=fill[()])
        else:
            x = np.take(x, np.asarray([_INDICES[mode](at, size) for at in positions], np.int64), axis)
    return x


def _fill(value: str, dtype: DType) -> tuple[float | int | bool, Array] | None:
    """Return the attribute and the stored element."""
    if value == "zero":
        return 0, samples.stored(0, dtype)
    if value == "one":
        return (True if dtype is DType.BOOL else 1), samples.stored(1, dtype)
    if value == "fraction":
        return (-2.5, samples.stored(-2.5, dtype)) if dtype.is_float else None
    if value == "least":
        if dtype.is_float:
            return -np.inf, samples.stored(-np.inf, dtype)
        minimum = samples.limits(dtype)[0] if dtype.is_integer else 0
        return minimum, samples.stored(minimum, dtype)
    if not dtype.is_integer:
        return None
    return samples.limits(dtype)[1], np.asarray(samples.limits(dtype)[1], dtype.numpy)


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, mode, how = shape_of(parameters), PadMode(parameters["mode"]), parameters["quantization"]
    pads = None if shape is None else counts(shape, parameters["pattern"], mode)
    filled = _fill(parameters["fill"], dtype)
    if shape is None or pads is None or filled is None or not carries(how, dtype):
        return None
    if mode is PadMode.CONSTANT and how is not None:
        return None  # whether the value is an integer or what it stands for is not said
    if mode is not PadMode.CONSTANT and (
        parameters["fill"] != "zero" or any(not size and max(b, a) for size, b, a in zip(shape, *pads, strict=True))
    ):
        return None
    x = samples.anything(dtype, shape, rng)
    descriptor = Pad(before=pads[0], after=pads[1], mode=mode, value=filled[0])
    return layer_case(descriptor, [Feed(x, dtype=dtype, quantization=marked(how))], padded(x, *pads, mode, filled[1]))


OPERATOR = any_type_operator(
    "Pad",
    _make,
    {
        "mode": tuple(PadMode),
        "pattern": _PATTERNS,
        "fill": ("zero", "one", "fraction", "least", "most"),
        **KEPT,
    },
    together=[
        *({"mode": mode, "pattern": pattern} for mode in tuple(PadMode)[1:] for pattern in ("all", "to the limit", "last")),
        *({"mode": mode, "pattern": "all", "rank": rank} for mode in tuple(PadMode)[1:] for rank in (1, 6)),
        *({"pattern": "all", "rank": rank} for rank in (0, 1, 2, 5, 6)),
        {"pattern": "all", "channels": 0},
        {"pattern": "all", "fill": "one", "batch": 0},
        {"mode": PadMode.REFLECT, "quantization": "kept", "pattern": "all"},
        {"mode": PadMode.EDGE, "quantization": "kept", "pattern": "all"},
        {"pattern": "cropped", "rank": 1},
        {"pattern": "cropped and padded", "fill": "one", "rank": 2},
    ],
)
