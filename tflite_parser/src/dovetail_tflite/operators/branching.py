"""Operators that stand for subgraphs."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail import DType
from dovetail.graph.layer import OutputSlot
from dovetail.layers import Conditional

from ..call import Call
from ..registry import operator


@operator("CALL")
def call_subgraph(call: Call) -> Sequence[OutputSlot]:
    """Translate a subgraph in the place of the operator."""
    return call.inlined(call.option("subgraph"), call.inputs)


@operator("STABLEHLO_COMPOSITE")
def composite(call: Call) -> Sequence[OutputSlot]:
    """Translate what the operator says it is made of, whatever its name."""
    return call.inlined(call.option("decomposition_subgraph_index"), call.inputs)


@operator("IF")
def choose(call: Call) -> Sequence[OutputSlot]:
    """Translate the branch that a constant condition takes, else both.

    The optimizer chooses once it knows.
    """
    condition, sources = call.input(0), call.inputs[1:]
    if call.dtype_of(condition) is not DType.BOOL:
        raise call.malformed(f"has a condition of type {call.dtype_of(condition)}")
    branches = [call.option(f"{name}_subgraph_index") for name in ("then", "else")]
    known = call.constant(0)
    if known is not None:
        if known.size != 1:
            raise call.malformed(f"has a condition of {known.size} elements")
        return call.inlined(branches[0 if known.reshape(-1)[0] else 1], sources)
    with call.network.deferring():  # what does not fit in a branch matters only if that is taken
        then, other = (call.inlined(branch, sources, name) for branch, name in zip(branches, ("then", "else"), strict=True))
    for index, (a, b) in enumerate(zip(then, other, strict=True)):
        if call.dtype_of(a) is not call.dtype_of(b):
            raise call.malformed(f"has branches whose output {index} is {call.dtype_of(a)} and {call.dtype_of(b)}")
    return [
        call.add(Conditional(), condition, a, b, output=index) for index, (a, b) in enumerate(zip(then, other, strict=True))
    ]
