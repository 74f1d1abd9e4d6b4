"""Reductions, positions of extremes, running sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dovetail import DType
from dovetail.graph.layer import OutputSlot
from dovetail.layers import ArgFunction, ArgMinMax, Cast, CumulativeSum, Reduce, ReduceFunction, TopK

from ..call import Call
from ..fixed_point import limited, multiplier_of, scaled
from ..registry import operator
from ..words import are_words

_REDUCTIONS = {
    "MEAN": ReduceFunction.MEAN,
    "SUM": ReduceFunction.SUM,
    "REDUCE_MAX": ReduceFunction.MAX,
    "REDUCE_MIN": ReduceFunction.MIN,
    "REDUCE_PROD": ReduceFunction.PROD,
    "REDUCE_ANY": ReduceFunction.MAX,
    "REDUCE_ALL": ReduceFunction.MIN,
}


@operator(*_REDUCTIONS, newest=3)
def reduction(call: Call) -> OutputSlot:
    """Translate a reduction along axes; along none it leaves the elements as they are."""
    x, function = call.input(0), _REDUCTIONS[call.op]
    keep_dims = call.has_options() and call.option("keep_dims")
    axes = _axes(call, x)
    if axes is None:
        descriptor = Reduce(function=function, keep_dims=keep_dims, empty_means_none=True)
        return call.add_real(descriptor, x, call.input(1))
    descriptor = Reduce(function=function, axes=axes, keep_dims=keep_dims)
    count = _count(call, x, axes)
    if function is ReduceFunction.MEAN and are_words(call, x) and count:
        return _mean_of_words(call, x, descriptor, count)
    # A product of many factors has no fixed point: its scale would be a power of theirs.
    return (call.add_real if function is ReduceFunction.PROD else call.add_fixed)(descriptor, x)


def _count(call: Call, x: OutputSlot, axes: Sequence[int]) -> int:
    """Return how many elements a result is of; 0 if that is not known yet."""
    return math.prod(call.size_of(x, axis) or 0 for axis in axes)


def _mean_of_words(call: Call, x: OutputSlot, mean: Reduce, count: int) -> OutputSlot:
    """Divide sums of 32 bits by their number and by the ratio of the scales, all in one factor.

    Source: reference_ops::QuantizedMeanOrSum.
    """
    mine, theirs = call.quantization_of(x), call.outputs[0].quantization
    assert mine is not None
    assert theirs is not None  # `are_words` saw both
    multiplier, shift = multiplier_of(mine.scale[0] / theirs.scale[0])
    bits = min(count.bit_length() - 1, 32, 31 + shift)
    multiplier, shift = (multiplier << bits) // count, shift - bits
    whole = call.add(Cast(dtype=DType.INT32), x, part="whole")
    total = call.add(replace(mean, function=ReduceFunction.SUM), whole, part="total")
    wide = call.add(Cast(dtype=DType.INT64), total, part="wide")
    return limited(call, scaled(call, wide, multiplier, shift, "mean"), DType.INT16)


def _axes(call: Call, x: OutputSlot) -> tuple[int, ...] | None:
    """Return the axes if they are constant; an axis may be named twice, and a scalar has none."""
    named = call.integers(1)
    if named is None:
        return None
    rank = call.rank_of(x)
    if rank and not all(-rank <= axis < rank for axis in named):
        raise call.malformed(f"reduces axes {list(named)} of {rank}")
    return tuple(sorted({axis % rank for axis in named})) if rank else ()


@operator("ARG_MAX", "ARG_MIN", newest=3)
def arg_extreme(call: Call) -> OutputSlot:
    """Translate the position of an extreme; a larger integer stands for a larger number."""
    descriptor = ArgMinMax(
        function=ArgFunction.MAX if call.op == "ARG_MAX" else ArgFunction.MIN,
        axis=_one(call, 1, "the axis"),
        dtype=call.outputs[0].dtype,
    )
    return call.add(descriptor, call.input(0))


@operator("TOPK_V2", newest=3)
def top_k(call: Call) -> Sequence[OutputSlot]:
    """Translate the k largest along the last axis."""
    x = call.input(0)
    if call.constant(1) is None:
        layer = call.network.add(TopK(), x, call.input(1), name=call.label())
    else:
        layer = call.network.add(TopK(k=_one(call, 1, "k")), x, name=call.label())
    values, positions = layer.outputs
    dtype = call.outputs[1].dtype
    return values, positions if dtype is DType.INT64 else call.add(Cast(dtype=dtype), positions, part="positions")


@operator("CUMSUM")
def cumulative_sum(call: Call) -> OutputSlot:
    """Translate a running sum."""
    descriptor = CumulativeSum(
        axis=_one(call, 1, "the axis"), exclusive=call.option("exclusive"), reverse=call.option("reverse")
    )
    return call.add(descriptor, call.input(0))


def _one(call: Call, index: int, what: str) -> int:
    found = call.known_integers(index, what)
    if len(found) != 1:
        raise call.malformed(f"has {len(found)} numbers as {what}")
    return found[0]
