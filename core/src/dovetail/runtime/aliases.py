"""Check what a workload says of bytes that its outputs and inputs share.

The memory planner takes up aliases without asking what they are for: one that reaches past its
input, or two that give the same bytes to two outputs, would let a step overwrite what another still
reads. So a list is looked at as a whole before it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from ..ground.records import NamedTuple


class Relation(Enum):
    """How an output may share bytes with an input; see `abi.h`."""

    VIEW = 1
    IN_PLACE = 2
    PART = 3


class Alias(NamedTuple):
    """Permission that output `output` and input `input` of a step share bytes from `offset` on."""

    relation: Relation
    output: int
    input: int
    offset: int = 0


class Extent(NamedTuple):
    """What an alias may cover: the bytes of a tensor, and a divisor of all its addresses."""

    nbytes: int
    element: int = 1


def problem_with(aliases: Sequence[Alias], inputs: Sequence[Extent | None], outputs: Sequence[Extent]) -> str:
    """Say what is wrong with the aliases of one workload; empty if they are sound.

    Each alias names an input that is connected and an output, and lies within the larger of the
    two: a view in its input, a part in its output, and what is computed in place is as large as
    what it overwrites. Together they give no byte away twice: an input that one output overwrites
    is shared with no other output, parts of one output do not overlap, and a view is one of one
    input.
    """
    for alias in aliases:
        problem = _misfit(alias, inputs, outputs)
        if problem:
            return f"{_named(alias)}, but {problem}"
    return _conflict(aliases, inputs) if len(aliases) > 1 else ""


def gap_in(aliases: Sequence[Alias], inputs: Sequence[Extent | None], outputs: Sequence[Extent]) -> str:
    """Name the output that an elidable step leaves unwritten with its sound aliases taken up.

    Empty if there is none.
    """
    covered = [0] * len(outputs)
    for relation, output, source, _ in aliases:
        read = inputs[source]
        if relation is not Relation.PART:
            covered[output] = outputs[output].nbytes
        elif read is not None:
            covered[output] += read.nbytes
    for number, written in enumerate(outputs):
        if covered[number] != written.nbytes:
            found = f"{covered[number]} of the {written.nbytes} bytes of output {number}"
            return f"it has nothing to do once its aliases are taken up, but they cover {found}"
    return ""


def _misfit(alias: Alias, inputs: Sequence[Extent | None], outputs: Sequence[Extent]) -> str:
    relation, output, source, offset = alias
    if not 0 <= output < len(outputs):
        return f"there are {len(outputs)} outputs"
    if not 0 <= source < len(inputs):
        return f"there are {len(inputs)} inputs"
    read, written = inputs[source], outputs[output]
    if read is None:
        return "this input is left out"
    if relation is Relation.IN_PLACE:
        if offset:
            return "what is computed in place begins where its input does: offset 0"
        return "" if read.nbytes == written.nbytes else f"the input has {read.nbytes} bytes and the output {written.nbytes}"
    if offset < 0:
        return "an offset is not negative"
    inner, outer = (written, read) if relation is Relation.VIEW else (read, written)
    names = ("output", "input") if relation is Relation.VIEW else ("input", "output")
    if offset + inner.nbytes > outer.nbytes:
        return f"{inner.nbytes} bytes of the {names[0]} from there on reach past the {outer.nbytes} bytes of the {names[1]}"
    return f"the {names[0]} is aligned to {inner.element} bytes" if offset % inner.element else ""


def _conflict(aliases: Sequence[Alias], inputs: Sequence[Extent | None]) -> str:
    """Return what two aliases, each sound by itself, say against each other."""
    overwritten = {alias.input: alias for alias in aliases if alias.relation is Relation.IN_PLACE}
    whole: dict[int, Alias] = {}
    parts: dict[int, list[Alias]] = {}
    for alias in aliases:
        one = overwritten.get(alias.input)
        if one is not None and one.output != alias.output:
            return f"{_named(one)} and {_named(alias)}: an input that is overwritten is shared with one output alone"
        if alias.relation is Relation.PART:
            parts.setdefault(alias.output, []).append(alias)
        else:
            other = whole.get(alias.output)
            if other is not None and alias.relation is other.relation is Relation.VIEW:
                return f"{_named(other)} and {_named(alias)}: an output is a view of one input"
            if other is None or alias.relation is Relation.VIEW:
                whole[alias.output] = alias
    for output, several in parts.items():
        if output in whole:
            return f"{_named(whole[output])} and {_named(several[0])}: an output of parts is nothing else"
        end, last = 0, several[0]
        for alias in sorted(several, key=_offset):
            read = inputs[alias.input]
            nbytes = 0 if read is None else read.nbytes
            if alias.offset < end and nbytes:
                return f"{_named(last)} and {_named(alias)}: parts of one output do not overlap"
            if nbytes:
                end, last = alias.offset + nbytes, alias
    return ""


def _offset(alias: Alias) -> int:
    return alias.offset


def _named(alias: Alias) -> str:
    verb = {Relation.VIEW: "is a view of", Relation.IN_PLACE: "may overwrite", Relation.PART: "is made of"}[alias.relation]
    return f"output {alias.output} {verb} input {alias.input}" + (f" at byte {alias.offset}" if alias.offset else "")
