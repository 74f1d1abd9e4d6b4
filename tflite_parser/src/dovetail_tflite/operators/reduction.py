"""Reductions, positions of extremes, running sums."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail import DType
from dovetail.graph.layer import OutputSlot
from dovetail.layers import ArgFunction, ArgMinMax, Cast, CumulativeSum, Reduce, ReduceFunction, TopK

from ..call import Call
from ..registry import operator

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
    # A product of many factors has no fixed point: its scale would be a power of theirs.
    return (call.add_real if function is ReduceFunction.PROD else call.add_fixed)(descriptor, x)


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
