"""Slices with masks: which entry of begin, end and stride is for which axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dovetail.graph.layer import OutputSlot
from dovetail.ground.records import NamedTuple
from dovetail.layers import (
    BinaryOperation,
    Comparison,
    ComparisonOperation,
    ElementwiseBinary,
    ExpandDims,
    Gather,
    Squeeze,
    StridedSlice,
    Where,
)

from .call import Call

TO_THE_END = 2**31 - 1
"""The end of a slice of which the size is not known."""
_MOST_ENTRIES = 32
"""Bits of a mask."""


class _Cut(NamedTuple):
    """What is done to one axis of the input.

    Attributes:
        axis: Which.
        entry: Of begin, end and stride.
        stride: Its stride.
        from_start: It begins where the axis does, whatever the entry says.
        to_end: It ends where the axis does, whatever the entry says.
        shrinks: One position is picked, and the axis removed.
    """

    axis: int
    entry: int
    stride: int
    from_start: bool
    to_end: bool
    shrinks: bool


class _Plan(NamedTuple):
    """What the entries ask for.

    Attributes:
        cuts: Of axes of the input.
        added: Places of new axes of size one in the result.
    """

    cuts: tuple[_Cut, ...]
    added: tuple[int, ...]


def strided_slice_of(call: Call) -> OutputSlot:
    """Translate STRIDED_SLICE: cut, remove the axes of single positions, insert the new ones."""
    plan = _planned(call)
    picked = tuple(cut.axis for cut in plan.cuts if cut.shrinks)
    steps = (bool(picked), bool(plan.added))
    x = _cut(call, plan.cuts, "" if not any(steps) else "cut")
    if picked:
        x = call.add(Squeeze(axes=picked), x, part="picked" if plan.added else "")
    return call.add(ExpandDims(axes=plan.added), x) if plan.added else x


def _planned(call: Call) -> _Plan:
    strides = call.known_integers(3, "the stride")
    rank, count = call.rank_of(call.input(0)), len(strides)
    if count > _MOST_ENTRIES or any(call.size_of(call.input(i), 0) != count for i in (1, 2)):
        raise call.malformed(f"has begin, end and the strides {list(strides[:_MOST_ENTRIES])}, which differ in length")
    bits = {name: _bits(call, f"{name}_mask", count) for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    ellipses = [entry for entry in range(count) if bits["ellipsis"][entry]]
    used = sum(not bits["ellipsis"][entry] and not bits["new_axis"][entry] for entry in range(count))
    if len(ellipses) > 1 or used > rank:
        raise call.malformed(f"cuts {used} axes of {rank}, with {len(ellipses)} ellipses")
    cuts: list[_Cut] = []
    added: list[int] = []
    axis = place = 0
    for entry, stride in enumerate(strides):
        if bits["ellipsis"][entry]:
            axis, place = axis + rank - used, place + rank - used
        elif bits["new_axis"][entry]:
            added.append(place)
            place += 1
        else:
            shrinks = bits["shrink_axis"][entry]
            if stride == 0 or (shrinks and stride < 0):
                raise call.malformed(f"has the stride {stride} along axis {axis}")
            cuts.append(_Cut(axis, entry, stride, bits["begin"][entry], bits["end"][entry] and not shrinks, shrinks))
            axis, place = axis + 1, place + (not shrinks)
    return _Plan(tuple(cuts), tuple(added))


def _bits(call: Call, name: str, count: int) -> list[bool]:
    mask = call.option(name)
    return [bool(mask >> entry & 1) for entry in range(count)]


def _cut(call: Call, cuts: Sequence[_Cut], part: str) -> OutputSlot:
    axes = tuple(cut.axis for cut in cuts)
    stride = tuple(1 if cut.shrinks else cut.stride for cut in cuts)
    begin, end = call.integers(1), call.integers(2)
    if begin is None or end is None:
        return _cut_by_values(call, cuts, part)
    ranges = [_range(cut, begin[cut.entry], end[cut.entry], offset=call.option("offset")) for cut in cuts]
    descriptor = StridedSlice(
        begin=tuple(first for first, _ in ranges), end=tuple(last for _, last in ranges), axes=axes, stride=stride
    )
    return call.add(descriptor, call.input(0), part=part)


def _range(cut: _Cut, begin: int, end: int, *, offset: bool) -> tuple[int, int]:
    """Return begin and end as the kind understands them."""
    if cut.from_start:
        begin = 0 if cut.stride > 0 else -1
    if cut.to_end:
        end = TO_THE_END if cut.stride > 0 else -TO_THE_END
    elif cut.shrinks or offset:
        end = begin + (1 if cut.shrinks else end)
        end = TO_THE_END if begin < 0 <= end else end
    return begin, end


def _cut_by_values(call: Call, cuts: Sequence[_Cut], part: str) -> OutputSlot:
    """Cut where begin or end is known later: what `_range` does, in layers."""
    entries = np.asarray([cut.entry for cut in cuts], np.int64)
    ends = [call.input(1), call.input(2)]
    if len(cuts) != call.size_of(ends[0], 0):
        chosen = call.network.constant(entries, call.label("entries"))
        ends = [call.add(Gather(), slot, chosen, part=name) for slot, name in zip(ends, ("begins", "ends"), strict=True)]
    begin, end = ends
    forward = [cut.stride > 0 for cut in cuts]
    if any(cut.from_start for cut in cuts):
        first = _constants(call, [0 if one else -1 for one in forward], begin, "first")
        begin = _where(call, [cut.from_start for cut in cuts], first, begin, "from_start")
    if call.option("offset"):
        end = _behind(call, begin, end, "offset")
    if any(cut.shrinks for cut in cuts):
        single = _behind(call, begin, call.scalar(1, begin, "one"), "single")
        end = _where(call, [cut.shrinks for cut in cuts], single, end, "shrunk")
    if any(cut.to_end for cut in cuts):
        last = _constants(call, [TO_THE_END if one else -TO_THE_END for one in forward], end, "last")
        end = _where(call, [cut.to_end for cut in cuts], last, end, "to_end")
    axes = call.network.constant(np.asarray([cut.axis for cut in cuts], np.int64), call.label("axes"))
    strides = [1 if cut.shrinks else cut.stride for cut in cuts]
    stride = call.network.constant(np.asarray(strides, np.int64), call.label("strides"))
    return call.add(StridedSlice(), call.input(0), begin, end, axes, stride, part=part)


def _behind(call: Call, begin: OutputSlot, count: OutputSlot, part: str) -> OutputSlot:
    """Return the end of a slice of so many positions, which may reach the last one."""
    end = call.add(ElementwiseBinary(operation=BinaryOperation.ADD), begin, count, part=f"{part}/sum")
    zero = call.scalar(0, begin, f"{part}/zero")
    below = call.add(Comparison(operation=ComparisonOperation.LESS), begin, zero, part=f"{part}/below")
    above = call.add(Comparison(operation=ComparisonOperation.GREATER_OR_EQUAL), end, zero, part=f"{part}/above")
    both = call.add(ElementwiseBinary(operation=BinaryOperation.LOGICAL_AND), below, above, part=f"{part}/passed")
    return call.add(Where(), both, call.scalar(TO_THE_END, end, f"{part}/last"), end, part=part)


def _where(call: Call, mask: Sequence[bool], a: OutputSlot, b: OutputSlot, part: str) -> OutputSlot:
    chosen = call.network.constant(np.asarray(mask, np.bool_), call.label(f"{part}/mask"))
    return call.add(Where(), chosen, a, b, part=part)


def _constants(call: Call, values: Sequence[int], like: OutputSlot, part: str) -> OutputSlot:
    return call.network.constant(np.asarray(values, call.dtype_of(like).numpy), call.label(part))
