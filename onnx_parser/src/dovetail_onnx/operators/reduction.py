"""Reductions, positions of extremes, running sums."""

from __future__ import annotations

from dovetail.graph.layer import OutputSlot
from dovetail.layers import ArgFunction, ReduceFunction

from ..node import Node
from ..registry import builtin

REDUCTIONS = {
    "ReduceSum": ReduceFunction.SUM,
    "ReduceMean": ReduceFunction.MEAN,
    "ReduceMax": ReduceFunction.MAX,
    "ReduceMin": ReduceFunction.MIN,
    "ReduceProd": ReduceFunction.PROD,
    "ReduceL1": ReduceFunction.L1,
    "ReduceL2": ReduceFunction.L2,
    "ReduceSumSquare": ReduceFunction.SUM_SQUARE,
    "ReduceLogSum": ReduceFunction.LOG_SUM,
    "ReduceLogSumExp": ReduceFunction.LOG_SUM_EXP,
}
"""Reductions, by operator."""


@builtin(*REDUCTIONS)
def reduction(node: Node) -> OutputSlot:
    """Translate a reduction, its axes an attribute or an input."""
    axes, none_of_none = node.axes_or_slot("axes", 1), node.flag("noop_with_empty_axes")
    if axes is None or axes == ():
        axes = () if none_of_none else None
    return node.network.reduce(
        node.input(0),
        REDUCTIONS[node.op],
        axes,
        keep_dims=node.flag("keepdims", True),
        empty_means_none=none_of_none,
        name=node.label(),
    )


@builtin("ArgMax", "ArgMin")
def arg_extreme(node: Node) -> OutputSlot:
    """Translate the position of an extreme."""
    return node.network.arg_min_max(
        node.input(0),
        ArgFunction.MAX if node.op == "ArgMax" else ArgFunction.MIN,
        node.integer("axis", 0),
        keep_dims=node.flag("keepdims", True),
        select_last=node.flag("select_last_index"),
        name=node.label(),
    )


@builtin("CumSum")
def cumulative_sum(node: Node) -> OutputSlot:
    """Translate a running sum."""
    axis = node.integers_of(1)
    return node.network.cumulative_sum(
        node.input(0),
        axis[0] if axis else node.input(1),
        exclusive=node.flag("exclusive"),
        reverse=node.flag("reverse"),
        name=node.label(),
    )


@builtin("TopK", since=10, ignored=["sorted"])
def top_k(node: Node) -> tuple[OutputSlot, OutputSlot]:
    """Translate the k best; where any order would do they come best first."""
    known, largest = node.integers_of(1), node.flag("largest", True)
    k = known[0] if known else node.input(1)
    return node.network.top_k(node.input(0), k, node.integer("axis", -1), largest=largest, name=node.label())


@builtin("TopK")
def top_k_1(node: Node) -> tuple[OutputSlot, OutputSlot]:
    """Translate the k largest, k an attribute."""
    return node.network.top_k(node.input(0), node.integer("k"), node.integer("axis", -1), name=node.label())
