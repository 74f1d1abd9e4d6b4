"""Operators that stand for subgraphs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from dovetail import DType
from dovetail.graph.layer import OutputSlot
from dovetail.layers import Conditional

from ..call import Call
from ..registry import operator
from ..unsupported import Unsupported


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


@operator("WHILE")
def repeat(call: Call) -> Sequence[OutputSlot]:
    """Translate a loop whose number of rounds follows from constants, round by round.

    What only the condition reads is dropped by the optimizer.
    """
    condition, body = (call.option(f"{name}_subgraph_index") for name in ("cond", "body"))
    values: Sequence[OutputSlot | None] = call.inputs
    for round in count():
        (goes_on,) = _one(call, call.inlined(condition, values, f"{round}/condition"))
        known = call.value_of(goes_on)
        if known is None or known.size != 1:
            raise Unsupported("how often it runs depends on the inputs")
        if not known.reshape(-1)[0]:
            break
        values = call.inlined(body, values, f"{round}/body")
    if any(value is None for value in values) or len(values) != len(call.inputs):
        raise call.malformed(f"hands {len(call.inputs)} tensors to its body, which gives {len(values)}")
    return [value for value in values if value is not None]


def _one(call: Call, slots: Sequence[OutputSlot]) -> Sequence[OutputSlot]:
    if len(slots) != 1 or call.dtype_of(slots[0]) is not DType.BOOL:
        raise call.malformed("has a condition that is not one bool")
    return slots
