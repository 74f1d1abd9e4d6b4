"""Where every tensor of a plan lies: aliases, lifetimes, offsets.

Tensors that share bytes (views, in-place results, parts of a concatenation) form a *buffer*. A buffer lives from the first step
that writes one of its tensors to the last that may read one; an asynchronous step reads and writes until the next wait on its
queue. Buffers that are never alive together may share addresses. Graph inputs and outputs lie in the caller's arrays.

Everything here is plain arithmetic over step numbers, so that it can be tested alone and checked again from a dump.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NamedTuple

from ..interfaces import HOST, MemoryDomain
from .aliases import Alias, Extent, Relation, problem_with

ALIGNMENT = 64


class Storage(Enum):
    """In whose memory a buffer lies."""

    ARENA = "arena"
    INPUT = "input"
    OUTPUT = "output"
    CONSTANT = "constant"


@dataclass(slots=True)
class Tensor:
    """A tensor to be placed.

    Attributes:
        nbytes: Size.
        domain: Memory domain.
        alignment: Of its address, bytes.
        storage: ARENA to be planned; INPUT or CONSTANT lie elsewhere and are never written to.
        index: Which graph input, or which constant.
        outputs: Graph outputs that it is.
        element: What its address is a multiple of even where it lies inside another tensor.
    """

    nbytes: int
    domain: MemoryDomain = HOST
    alignment: int = ALIGNMENT
    storage: Storage = Storage.ARENA
    index: int = 0
    outputs: list[int] = field(default_factory=list)
    element: int = 1

    @property
    def extent(self) -> Extent:
        """What an alias may cover of it."""
        return Extent(self.nbytes, self.element)


@dataclass(slots=True)
class Step:
    """What one step touches.

    Attributes:
        reads, writes: Tensor numbers, in slot order; None for an input that is left out.
        workspace: Bytes of scratch, in the same domain as the outputs.
        aliases: Permissions of the workload.
        elidable: The step has nothing to do once all its aliases are taken up.
        queue: Queue of an asynchronous step, or of a wait.
        is_wait: The step waits for its queue.
    """

    reads: Sequence[int | None] = ()
    writes: Sequence[int] = ()
    workspace: int = 0
    workspace_domain: MemoryDomain = HOST
    aliases: Sequence[Alias] = ()
    elidable: bool = False
    queue: int | None = None
    is_wait: bool = False


@dataclass(slots=True)
class Buffer:
    """Bytes that one or more tensors share."""

    nbytes: int
    domain: MemoryDomain
    alignment: int
    storage: Storage
    index: int
    members: list[tuple[int, int]]
    start: int = 0
    end: int = 0
    offset: int = 0
    arena: int = 0


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a tensor lies: `offset` bytes into arena, input, output or constant number `index`."""

    storage: Storage
    index: int
    offset: int


class Arena(NamedTuple):
    """One allocation of a run context."""

    domain: MemoryDomain
    nbytes: int
    alignment: int


class MemoryPlan(NamedTuple):
    """The answer.

    Attributes:
        placements: One per tensor.
        workspaces: One per step, None where nothing was asked for.
        arenas: What a run context allocates.
        elided: Steps that disappear.
        output_copies: (tensor, graph output) pairs whose bytes must be copied after the last step.
        buffers: Every planned buffer, with its life as first and last step.
        peak_bytes: Sum of the arenas.
        lower_bound: Most bytes of arena buffers alive at one step: no plan with these aliases can need less.
    """

    placements: tuple[Placement, ...]
    workspaces: tuple[Placement | None, ...]
    arenas: tuple[Arena, ...]
    elided: frozenset[int]
    output_copies: tuple[tuple[int, int], ...]
    buffers: tuple[Buffer, ...]
    peak_bytes: int
    lower_bound: int


def plan_memory(tensors: Sequence[Tensor], steps: Sequence[Step], *, offsets: bool = True) -> MemoryPlan:
    """Place all tensors.

    Building a concatenation in place saves its copy, but makes the whole result live from its first part on: the plan is made
    both ways, and the smaller one is taken (the one with fewer steps if they tie).

    A step whose aliases are not sound (`problem_with`) shares nothing.

    Args:
        tensors: What to place.
        steps: In order of execution, waits included.
        offsets: False if tensors cannot lie at an offset into an arena of a device domain.
    """
    steps = [_sound(tensors, step) for step in steps]
    has_parts = any(alias.relation is Relation.PART for step in steps for alias in step.aliases)
    ways = (True, False) if has_parts else (False,)  # without parts both are one
    plans = [_Planner(tensors, steps, in_parts=in_parts, offsets=offsets).plan() for in_parts in ways]
    return min(plans, key=lambda plan: (plan.peak_bytes, -len(plan.elided)))


def _sound(tensors: Sequence[Tensor], step: Step) -> Step:
    """Return a step without its aliases if they are not sound; whoever took the workload has refused it before."""
    if not step.aliases:
        return step
    inputs = [None if number is None else tensors[number].extent for number in step.reads]
    if problem_with(step.aliases, inputs, [tensors[number].extent for number in step.writes]):
        return replace(step, aliases=())
    return step


def releases(steps: Sequence[Step]) -> list[int]:
    """For each step, the step after which nothing of it is in flight any more: itself, or the next wait on its queue."""
    result = list(range(len(steps)))
    next_wait: dict[int, int] = {}
    for i in range(len(steps) - 1, -1, -1):
        step = steps[i]
        if step.queue is None:
            continue
        if step.is_wait:
            next_wait[step.queue] = i
        else:
            result[i] = next_wait.get(step.queue, len(steps))
    return result


class _Planner:
    """One attempt."""

    def __init__(self, tensors: Sequence[Tensor], steps: Sequence[Step], *, in_parts: bool, offsets: bool) -> None:
        self.tensors = tensors
        self.steps = steps
        self.in_parts = in_parts
        self.offsets = offsets
        self.release = releases(steps)
        self.readers: dict[int, list[int]] = defaultdict(list)
        self.producer: dict[int, int] = {}
        for number, step in enumerate(steps):
            for tensor in step.reads:
                if tensor is not None:
                    self.readers[tensor].append(number)
            for tensor in step.writes:
                self.producer[tensor] = number
        self.buffer_of: dict[int, Buffer] = {}
        self.offset_of: dict[int, int] = {}
        self.elided: set[int] = set()

    def plan(self) -> MemoryPlan:
        for number, tensor in enumerate(self.tensors):
            if tensor.storage is not Storage.ARENA:
                self._new_buffer(number)
        for number, step in enumerate(self.steps):
            self._place_outputs(number, step)
        copies = self._claim_outputs()
        buffers = self._buffers()
        for buffer in buffers:
            self._set_life(buffer)
        workspaces = self._workspace_buffers()
        planned = [b for b in buffers if b.storage is Storage.ARENA] + [b for b in workspaces if b is not None]
        arenas = self._assign_addresses(planned)
        placements = tuple(
            self._placement(self.buffer_of[t], self.offset_of[t]) if t in self.buffer_of else Placement(Storage.ARENA, 0, 0)
            for t in range(len(self.tensors))
        )
        return MemoryPlan(
            placements=placements,
            workspaces=tuple(None if b is None else self._placement(b, 0) for b in workspaces),
            arenas=tuple(arenas),
            elided=frozenset(self.elided),
            output_copies=tuple(copies),
            buffers=tuple(planned),
            peak_bytes=sum(arena.nbytes for arena in arenas),
            lower_bound=live_peak(planned, len(self.steps)),
        )

    @staticmethod
    def _placement(buffer: Buffer, offset: int) -> Placement:
        if buffer.storage is Storage.ARENA:
            return Placement(Storage.ARENA, buffer.arena, buffer.offset + offset)
        return Placement(buffer.storage, buffer.index, offset)

    # -- aliases --------------------------------------------------------------------------------------------------------------

    def _new_buffer(self, number: int) -> Buffer:
        tensor = self.tensors[number]
        buffer = Buffer(tensor.nbytes, tensor.domain, tensor.alignment, tensor.storage, tensor.index, [])
        self._join(number, buffer, 0)
        return buffer

    def _join(self, number: int, buffer: Buffer, offset: int) -> None:
        buffer.members.append((number, offset))
        buffer.alignment = max(buffer.alignment, self.tensors[number].alignment)
        self.buffer_of[number] = buffer
        self.offset_of[number] = offset

    def _place_outputs(self, number: int, step: Step) -> None:
        taken = 0
        for alias in step.aliases:
            output, source = step.writes[alias.output], step.reads[alias.input]
            if source is None or output in self.buffer_of:
                continue
            if alias.relation is not Relation.PART and self._shares(number, step, alias, output, source):
                self._join(output, self.buffer_of[source], self.offset_of[source] + alias.offset)
                taken += 1
        for output in step.writes:
            if output not in self.buffer_of:
                self._new_buffer(output)
        for alias in step.aliases:
            if alias.relation is Relation.PART:
                taken += self._move_into(number, step, alias)
        if step.elidable and step.aliases and taken == len(step.aliases):
            self.elided.add(number)

    def _shares(self, number: int, step: Step, alias: Alias, output: int, source: int) -> bool:
        buffer, offset = self.buffer_of[source], self.offset_of[source] + alias.offset
        mine = self.tensors[output]
        if mine.domain != buffer.domain or offset + mine.nbytes > self.offset_of[source] + self.tensors[source].nbytes:
            return False
        if offset % mine.element or (offset % mine.alignment and (mine.alignment > ALIGNMENT or mine.domain != HOST)):
            return False  # a device's manager said what every offset is a multiple of
        if offset and mine.domain != HOST and not self.offsets:
            return False
        if alias.relation is Relation.VIEW:
            return True
        if buffer.storage is not Storage.ARENA or mine.nbytes != self.tensors[source].nbytes:
            return False
        if any(
            self._overlaps(r, buffer, offset, mine.nbytes)
            for i, r in enumerate(step.reads)
            if r is not None and i != alias.input
        ):
            return False
        return all(
            self._dead_after(member, number)
            for member, at in buffer.members
            if at < offset + mine.nbytes and offset < at + self.tensors[member].nbytes
        )

    def _overlaps(self, tensor: int, buffer: Buffer, offset: int, nbytes: int) -> bool:
        if self.buffer_of.get(tensor) is not buffer:
            return False
        at = self.offset_of[tensor]
        return at < offset + nbytes and offset < at + self.tensors[tensor].nbytes

    def _dead_after(self, tensor: int, number: int) -> bool:
        """True if step `number` may overwrite a tensor: whoever else reads it is done, and the step did not write it."""
        if self.tensors[tensor].outputs or self.producer.get(tensor) == number:
            return False
        queue = self.steps[number].queue
        return all(
            reader == number
            or self.release[reader] < number
            or (reader < number and queue is not None and self.steps[reader].queue == queue)
            for reader in self.readers[tensor]
        )

    def _move_into(self, number: int, step: Step, alias: Alias) -> bool:
        """Let the whole buffer of an input become a part of the output's."""
        source, output = step.reads[alias.input], step.writes[alias.output]
        if source is None or not self.in_parts:
            return False
        part, whole = self.buffer_of[source], self.buffer_of[output]
        offset = self.offset_of[output] + alias.offset
        movable = (
            part is not whole
            and part.storage is Storage.ARENA
            and whole.storage is Storage.ARENA
            and part.domain == whole.domain
            and part.nbytes == self.tensors[source].nbytes
            and self.offset_of[source] == 0
            and offset % part.alignment == 0
            and (self.offsets or whole.domain == HOST)
            and step.reads.count(source) == 1
            and not any(self.tensors[member].outputs or self.producer.get(member) == number for member, _ in part.members)
        )
        if not movable:
            return False
        for member, at in part.members:
            self._join(member, whole, offset + at)
        return True

    def _claim_outputs(self) -> list[tuple[int, int]]:
        """Give graph outputs their caller's arrays; what does not fit there exactly is copied at the end."""
        copies = []
        for number, tensor in enumerate(self.tensors):
            for rank, index in enumerate(tensor.outputs):
                buffer = self.buffer_of[number]
                fits = buffer.storage is Storage.ARENA and self.offset_of[number] == 0 and buffer.nbytes == tensor.nbytes
                if rank == 0 and fits and buffer.domain == HOST and buffer.alignment <= ALIGNMENT:
                    buffer.storage, buffer.index = Storage.OUTPUT, index
                else:
                    copies.append((number, index))
        return copies

    # -- lifetimes ------------------------------------------------------------------------------------------------------------

    def _buffers(self) -> list[Buffer]:
        seen: dict[int, Buffer] = {}
        for tensor in sorted(self.buffer_of):
            buffer = self.buffer_of[tensor]
            seen.setdefault(id(buffer), buffer)
        return list(seen.values())

    def _set_life(self, buffer: Buffer) -> None:
        copied = len(self.steps)
        starts, ends = [], []
        for tensor, _ in buffer.members:
            produced = self.producer.get(tensor, 0)
            starts.append(produced)
            ends.append(self.release[produced] if produced < len(self.steps) else 0)
            ends.extend(self.release[reader] for reader in self.readers[tensor])
            if self.tensors[tensor].outputs:
                ends.append(copied)
        buffer.start, buffer.end = min(starts), max(ends)

    def _workspace_buffers(self) -> list[Buffer | None]:
        result: list[Buffer | None] = []
        for number, step in enumerate(self.steps):
            if step.workspace == 0 or number in self.elided:
                result.append(None)
                continue
            life = (number, self.release[number])
            result.append(Buffer(step.workspace, step.workspace_domain, ALIGNMENT, Storage.ARENA, 0, [], *life))
        return result

    # -- addresses ------------------------------------------------------------------------------------------------------------

    def _assign_addresses(self, buffers: Sequence[Buffer]) -> list[Arena]:
        arenas: list[Arena] = []
        by_domain: dict[MemoryDomain, list[Buffer]] = defaultdict(list)
        for buffer in buffers:
            by_domain[buffer.domain].append(buffer)
        for domain, group in by_domain.items():
            if domain != HOST and not self.offsets:
                arenas.extend(_separate_arenas(domain, group, len(arenas)))
                continue
            alignment = max(buffer.alignment for buffer in group)
            for buffer in group:
                buffer.arena = len(arenas)
            arenas.append(Arena(domain, pack(group), alignment))
        return arenas


def _separate_arenas(domain: MemoryDomain, buffers: Sequence[Buffer], first: int) -> list[Arena]:
    """One allocation per buffer; one whose tenant is dead is taken over by the next that fits."""
    tenants: list[list[Buffer]] = []
    for buffer in sorted(buffers, key=lambda b: (-b.nbytes, b.start)):
        free = next((t for t in tenants if all(b.end < buffer.start or buffer.end < b.start for b in t)), None)
        if free is None:
            tenants.append([buffer])
        else:
            free.append(buffer)
    for number, group in enumerate(tenants):
        for buffer in group:
            buffer.arena = first + number
    return [Arena(domain, max(b.nbytes for b in t), max(b.alignment for b in t)) for t in tenants]


def live_peak(buffers: Sequence[Buffer], n_steps: int) -> int:
    """Most bytes alive at any one step, each buffer rounded up to the alignment."""
    change = [0] * (n_steps + 2)
    for buffer in buffers:
        change[buffer.start] += _round_up(buffer.nbytes, ALIGNMENT)
        change[min(buffer.end, n_steps) + 1] -= _round_up(buffer.nbytes, ALIGNMENT)
    peak = alive = 0
    for delta in change:
        alive += delta
        peak = max(peak, alive)
    return peak


def pack(buffers: Sequence[Buffer]) -> int:
    """Set the offsets so that buffers alive together do not overlap; returns the bytes needed.

    Several greedy orders are tried, each buffer going into the tightest gap, and the best is kept (the offset assignment of
    Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
    """
    orders = (
        lambda b: (-b.nbytes, b.start),
        lambda b: (-(b.end - b.start + 1) * b.nbytes, b.start),
        lambda b: (-(b.end - b.start), -b.nbytes, b.start),
        lambda b: (b.start, -b.nbytes),
    )
    bound = live_peak(buffers, max((b.end for b in buffers), default=0))
    best: tuple[int, list[int]] | None = None
    for order in orders:
        peak = _pack_in_order(sorted(buffers, key=order))
        if best is None or peak < best[0]:
            best = (peak, [b.offset for b in buffers])
        if peak <= bound:
            break
    if best is None:
        return 0
    for buffer, offset in zip(buffers, best[1], strict=True):
        buffer.offset = offset
    return best[0]


def _pack_in_order(ordered: Sequence[Buffer]) -> int:
    placed: list[Buffer] = []
    peak = 0
    for buffer in ordered:
        neighbours = sorted(
            ((b.offset, b.offset + b.nbytes) for b in placed if b.start <= buffer.end and buffer.start <= b.end),
        )
        best_gap, best_offset, cursor = None, None, 0
        for begin, end in neighbours:
            start = _round_up(cursor, buffer.alignment)
            gap = begin - start
            if gap >= buffer.nbytes and (best_gap is None or gap < best_gap):
                best_gap, best_offset = gap, start
            cursor = max(cursor, end)
        buffer.offset = _round_up(cursor, buffer.alignment) if best_offset is None else best_offset
        placed.append(buffer)
        peak = max(peak, buffer.offset + buffer.nbytes)
    return _round_up(peak, ALIGNMENT)


def _round_up(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment
