"""Where every tensor of a plan lies: aliases, lifetimes, offsets.

Tensors that share bytes (views, in-place results, parts of a concatenation) form a *buffer*. A
buffer lives from the first step that writes one of its tensors to the last that may read one; an
asynchronous step reads and writes until the next wait on its queue. Buffers that are never alive
together may share addresses. Graph inputs and outputs lie in the caller's arrays.

Everything here is plain arithmetic over step numbers, so that it can be tested alone and checked
again from a dump.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from enum import Enum

from ..contract.interfaces import HOST, MemoryDomain
from ..ground.limits import watched
from ..ground.records import NamedTuple, Record, field
from .aliases import Alias, Extent, Relation, problem_with
from .intervals import Intervals
from .packing import ALIGNMENT as ALIGNMENT
from .packing import live_peak, pack

_NOWHERE: dict[int, int] = {}


class Storage(Enum):
    """In whose memory a buffer lies."""

    ARENA = "arena"
    INPUT = "input"
    OUTPUT = "output"
    CONSTANT = "constant"


class Tensor(Record):
    """A tensor to be placed.

    Attributes:
        nbytes: Size.
        domain: Memory domain.
        alignment: Of its address, bytes.
        storage: ARENA to be planned; INPUT or CONSTANT lie elsewhere and are never written to.
        index: Which graph input, or which constant.
        outputs: Graph outputs that it is.
        element: What its address is a multiple of even where it lies inside another tensor.
        image: What an allocation is made for, in a domain of images: only tensors of an equal one
            share it. None elsewhere.
    """

    nbytes: int
    domain: MemoryDomain = HOST
    alignment: int = ALIGNMENT
    storage: Storage = Storage.ARENA
    index: int = 0
    outputs: list[int] = field(default_factory=list)
    element: int = 1
    image: Hashable = None

    @property
    def extent(self) -> Extent:
        """What an alias may cover of it."""
        return Extent(self.nbytes, self.element)


class Step(Record):
    """What one step touches.

    Attributes:
        reads, writes: Tensor numbers, in slot order; None for an input that is left out.
        workspace: Bytes of scratch.
        workspace_domain: Where it lies.
        workspace_alignment: Of its address, bytes.
        aliases: Permissions of the workload.
        elidable: The step has nothing to do once all its aliases are taken up.
        queue: Queue of an asynchronous step, or of a wait.
        is_wait: The step waits for its queue.
    """

    reads: Sequence[int | None] = ()
    writes: Sequence[int] = ()
    workspace: int = 0
    workspace_domain: MemoryDomain = HOST
    workspace_alignment: int = ALIGNMENT
    aliases: Sequence[Alias] = ()
    elidable: bool = False
    queue: int | None = None
    is_wait: bool = False


class Buffer(Record):
    """Bytes that one or more tensors share.

    Attributes:
        nbytes, domain, alignment, storage, index: As those of a tensor.
        members: Tensors.
        start, end: Life, as first and last step.
        offset: Into the arena.
        arena: Its number.
        origin: Where the buffer begins, counted as the places of its members are.
        living: Members that somebody may still read, by their place.
        newest: Last step that wrote a member.
        is_output: A member is a graph output.
        image: That of all members.
    """

    nbytes: int
    domain: MemoryDomain
    alignment: int
    storage: Storage
    index: int
    members: list[int] = field(default_factory=list)
    start: int = 0
    end: int = 0
    offset: int = 0
    arena: int = 0
    origin: int = 0
    living: Intervals = field(default_factory=Intervals)
    newest: int = -1
    is_output: bool = False
    image: Hashable = None


class Placement(Record, frozen=True):
    """Where a tensor lies: `offset` bytes into arena, input, output or constant number `index`."""

    storage: Storage
    index: int
    offset: int


class Arena(NamedTuple):
    """One allocation of a run context.

    Attributes:
        domain, nbytes, alignment: What is allocated.
        tensor: Number of one of the tensors in it, all of the same image; None if it is no image.
    """

    domain: MemoryDomain
    nbytes: int
    alignment: int
    tensor: int | None = None


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
        lower_bound: Most bytes of arena buffers alive at one step: no plan with these aliases can
            need less.
    """

    placements: tuple[Placement, ...]
    workspaces: tuple[Placement | None, ...]
    arenas: tuple[Arena, ...]
    elided: frozenset[int]
    output_copies: tuple[tuple[int, int], ...]
    buffers: tuple[Buffer, ...]
    peak_bytes: int
    lower_bound: int


def plan_memory(
    tensors: Sequence[Tensor], steps: Sequence[Step], *, whole: frozenset[MemoryDomain] = frozenset()
) -> MemoryPlan:
    """Place all tensors.

    Building a concatenation in place saves its copy, but makes the whole result live from its first
    part on: the plan is made both ways, and the smaller one is taken (the one with fewer steps if
    they tie).

    A step whose aliases are not sound (`problem_with`) shares nothing.

    Args:
        tensors: What to place.
        steps: In order of execution, waits included.
        whole: Domains in which a tensor cannot lie at an offset into an arena: each begins an
            allocation.
    """
    steps = [_sound(tensors, step) for step in watched(steps)]
    has_parts = any(alias.relation is Relation.PART for step in steps for alias in step.aliases)
    ways = (True, False) if has_parts else (False,)  # without parts both are one
    plans = [_Planner(tensors, steps, in_parts=in_parts, whole=whole).plan() for in_parts in ways]
    return min(plans, key=lambda plan: (plan.peak_bytes, -len(plan.elided)))


def _sound(tensors: Sequence[Tensor], step: Step) -> Step:
    """Return a step without its aliases if they are not sound.

    Whoever took the workload has refused it before.
    """
    if not step.aliases:
        return step
    inputs = [None if number is None else tensors[number].extent for number in step.reads]
    if problem_with(step.aliases, inputs, [tensors[number].extent for number in step.writes]):
        return step.replaced(aliases=())
    return step


def releases(steps: Sequence[Step]) -> list[int]:
    """For each step, return the step after which nothing of it is in flight.

    That is itself, or the next wait on its queue.
    """
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

    def __init__(
        self, tensors: Sequence[Tensor], steps: Sequence[Step], *, in_parts: bool, whole: frozenset[MemoryDomain]
    ) -> None:
        self.tensors = tensors
        self.steps = steps
        self.in_parts = in_parts
        self.whole = whole
        self.release = releases(steps)
        self.producer: dict[int, int] = {}
        self.last_read = [-1] * len(tensors)
        self.in_flight: dict[int, dict[int, int]] = {}
        """For each tensor that asynchronous steps read: by queue, when the last of them is done."""
        for number, step in enumerate(steps):
            for tensor in step.reads:
                if tensor is not None:
                    self.last_read[tensor] = number
                    if step.queue is not None:
                        self.in_flight.setdefault(tensor, {})[step.queue] = self.release[number]
            for tensor in step.writes:
                self.producer[tensor] = number
        self.buffer_of: dict[int, Buffer] = {}
        self.place_of: dict[int, int] = {}
        self.elided: set[int] = set()

    def plan(self) -> MemoryPlan:
        for number, tensor in enumerate(self.tensors):
            if tensor.storage is not Storage.ARENA:
                self._new_buffer(number)
        for number, step in enumerate(watched(self.steps)):
            self._place_outputs(number, step)
        copies = self._claim_outputs()
        buffers = self._buffers()
        for buffer in watched(buffers):
            self._set_life(buffer)
        workspaces = self._workspace_buffers()
        planned = [b for b in buffers if b.storage is Storage.ARENA] + [b for b in workspaces if b is not None]
        arenas = self._assign_addresses(planned)
        return MemoryPlan(
            placements=tuple([self._tensor_placement(t) for t in watched(range(len(self.tensors)))]),
            workspaces=tuple([None if b is None else self._placement(b, 0) for b in workspaces]),
            arenas=tuple(arenas),
            elided=frozenset(self.elided),
            output_copies=tuple(copies),
            buffers=tuple(planned),
            peak_bytes=sum(arena.nbytes for arena in arenas),
            lower_bound=live_peak(planned, len(self.steps)),
        )

    def _tensor_placement(self, number: int) -> Placement:
        buffer = self.buffer_of.get(number)
        if buffer is None:
            return Placement(Storage.ARENA, 0, 0)
        return self._placement(buffer, self.place_of[number] - buffer.origin)

    @staticmethod
    def _placement(buffer: Buffer, offset: int) -> Placement:
        if buffer.storage is Storage.ARENA:
            return Placement(Storage.ARENA, buffer.arena, buffer.offset + offset)
        return Placement(buffer.storage, buffer.index, offset)

    # -- aliases -----------------------------------------------------------------------------------

    def _new_buffer(self, number: int) -> Buffer:
        tensor = self.tensors[number]
        buffer = Buffer(tensor.nbytes, tensor.domain, tensor.alignment, tensor.storage, tensor.index, image=tensor.image)
        self._join(number, buffer, 0)
        return buffer

    def _join(self, number: int, buffer: Buffer, place: int) -> None:
        tensor = self.tensors[number]
        buffer.members.append(number)
        buffer.alignment = max(buffer.alignment, tensor.alignment)
        buffer.newest = max(buffer.newest, self.producer.get(number, -1))
        buffer.is_output = buffer.is_output or bool(tensor.outputs)
        if buffer.storage is Storage.ARENA:  # nothing else is ever overwritten
            buffer.living.add(place, tensor.nbytes, number)
        self.buffer_of[number] = buffer
        self.place_of[number] = place

    def _place_outputs(self, number: int, step: Step) -> None:
        taken = 0
        for alias in step.aliases:
            output, source = step.writes[alias.output], step.reads[alias.input]
            if source is None or output in self.buffer_of:
                continue
            if alias.relation is not Relation.PART and self._shares(number, step, alias, output, source):
                self._join(output, self.buffer_of[source], self.place_of[source] + alias.offset)
                taken += 1
        for output in step.writes:
            if output not in self.buffer_of:
                self._new_buffer(output)
        if not step.aliases:
            return
        if self.in_parts:
            parts = [alias for alias in step.aliases if alias.relation is Relation.PART]
            counts = Counter(step.reads) if parts else Counter()
            for alias in parts:
                taken += counts[step.reads[alias.input]] == 1 and self._move_into(number, step, alias)
        if step.elidable and taken == len(step.aliases):
            self.elided.add(number)

    def _shares(self, number: int, step: Step, alias: Alias, output: int, source: int) -> bool:
        buffer, place = self.buffer_of[source], self.place_of[source] + alias.offset
        offset = place - buffer.origin
        mine = self.tensors[output]
        if mine.domain != buffer.domain or place + mine.nbytes > self.place_of[source] + self.tensors[source].nbytes:
            return False
        if offset % mine.element or (offset % mine.alignment and (mine.alignment > ALIGNMENT or mine.domain != HOST)):
            return False  # a device's manager said what every offset is a multiple of
        if mine.image != buffer.image or (offset and mine.domain in self.whole):
            return False
        if alias.relation is Relation.VIEW:
            return True
        if buffer.storage is not Storage.ARENA or mine.nbytes != self.tensors[source].nbytes:
            return False
        for slot, read in enumerate(step.reads):
            if read is not None and slot != alias.input and self._overlaps(read, buffer, place, mine.nbytes):
                return False
        return self._overwritable(buffer, place, mine.nbytes, number)

    def _overwritable(self, buffer: Buffer, place: int, nbytes: int, number: int) -> bool:
        """Say whether step `number` may overwrite some bytes of a buffer.

        What nobody will ask for again is forgotten.
        """
        gone = []
        try:
            for entry in buffer.living.overlapping(place, nbytes):
                if not self._dead_after(entry.tensor, number):
                    return False
                if self._dead_before(entry.tensor, number):
                    gone.append(entry)
            return True
        finally:
            for entry in gone:
                buffer.living.remove(entry)

    def _overlaps(self, tensor: int, buffer: Buffer, place: int, nbytes: int) -> bool:
        if self.buffer_of.get(tensor) is not buffer:
            return False
        at = self.place_of[tensor]
        return at < place + nbytes and place < at + self.tensors[tensor].nbytes

    def _dead_after(self, tensor: int, number: int) -> bool:
        """Say whether step `number` may overwrite a tensor.

        It may if whoever else reads it is done, and the step did not write it.
        """
        if self.tensors[tensor].outputs or self.last_read[tensor] > number or self.producer.get(tensor) == number:
            return False
        queue = self.steps[number].queue
        return all(q == queue or done < number for q, done in self.in_flight.get(tensor, _NOWHERE).items())

    def _dead_before(self, tensor: int, number: int) -> bool:
        """Say whether every reader was done before a step began; it then holds for later steps."""
        return self.last_read[tensor] < number and all(done < number for done in self.in_flight.get(tensor, _NOWHERE).values())

    def _move_into(self, number: int, step: Step, alias: Alias) -> bool:
        """Let the whole buffer of an input become a part of the output's."""
        source, output = step.reads[alias.input], step.writes[alias.output]
        if source is None:
            return False
        part, whole = self.buffer_of[source], self.buffer_of[output]
        offset = self.place_of[output] - whole.origin + alias.offset
        movable = (
            part is not whole
            and part.storage is Storage.ARENA
            and whole.storage is Storage.ARENA
            and part.domain == whole.domain
            and part.nbytes == self.tensors[source].nbytes
            and self.place_of[source] == part.origin
            and offset % part.alignment == 0
            and whole.domain not in self.whole
            and not part.is_output
            and part.newest < number
        )
        if movable:
            self._unite(part, whole, offset)
        return movable

    def _unite(self, part: Buffer, whole: Buffer, offset: int) -> None:
        """Put a buffer into another, `offset` bytes from its begin.

        The one of more members takes up the other's.
        """
        if len(part.members) <= len(whole.members):
            kept, dropped, shift = whole, part, whole.origin + offset - part.origin
        else:
            kept, dropped, shift = part, whole, part.origin - offset - whole.origin
            kept.nbytes, kept.origin = whole.nbytes, part.origin - offset
        for member in dropped.members:
            self.buffer_of[member] = kept
            self.place_of[member] += shift
        kept.members += dropped.members
        kept.alignment = max(kept.alignment, dropped.alignment)
        kept.newest = max(kept.newest, dropped.newest)
        kept.is_output = kept.is_output or dropped.is_output
        kept.living.take(dropped.living, shift)

    def _claim_outputs(self) -> list[tuple[int, int]]:
        """Give graph outputs their caller's arrays; inexact fits are copied at the end."""
        copies = []
        for number, tensor in enumerate(self.tensors):
            for rank, index in enumerate(tensor.outputs):
                buffer = self.buffer_of[number]
                fits = (
                    buffer.storage is Storage.ARENA
                    and self.place_of[number] == buffer.origin
                    and buffer.nbytes == tensor.nbytes
                )
                if rank == 0 and fits and buffer.domain == HOST and buffer.alignment <= ALIGNMENT:
                    buffer.storage, buffer.index = Storage.OUTPUT, index
                else:
                    copies.append((number, index))
        return copies

    # -- lifetimes ---------------------------------------------------------------------------------

    def _buffers(self) -> list[Buffer]:
        seen: dict[int, Buffer] = {}
        for tensor in sorted(self.buffer_of):
            buffer = self.buffer_of[tensor]
            seen.setdefault(id(buffer), buffer)
        return list(seen.values())

    def _set_life(self, buffer: Buffer) -> None:
        copied = len(self.steps)
        start, end = copied, 0
        for tensor in buffer.members:
            produced = self.producer.get(tensor, 0)
            start = min(start, produced)
            end = max(end, self.release[produced] if produced < copied else 0, self.last_read[tensor])
            if tensor in self.in_flight:
                end = max(end, *self.in_flight[tensor].values())
            if self.tensors[tensor].outputs:
                end = copied
        buffer.start, buffer.end = start, end

    def _workspace_buffers(self) -> list[Buffer | None]:
        result: list[Buffer | None] = []
        for number, step in enumerate(self.steps):
            if step.workspace == 0 or number in self.elided:
                result.append(None)
                continue
            buffer = Buffer(step.workspace, step.workspace_domain, step.workspace_alignment, Storage.ARENA, 0)
            buffer.start, buffer.end = number, self.release[number]
            result.append(buffer)
        return result

    # -- addresses ---------------------------------------------------------------------------------

    def _assign_addresses(self, buffers: Sequence[Buffer]) -> list[Arena]:
        arenas: list[Arena] = []
        by_domain: dict[MemoryDomain, list[Buffer]] = defaultdict(list)
        for buffer in buffers:
            by_domain[buffer.domain].append(buffer)
        for domain, group in by_domain.items():
            if domain in self.whole:
                arenas.extend(_separate_arenas(domain, group, len(arenas)))
                continue
            alignment = max(buffer.alignment for buffer in group)
            for buffer in group:
                buffer.arena = len(arenas)
            arenas.append(Arena(domain, pack(group), alignment))
        return arenas


def _separate_arenas(domain: MemoryDomain, buffers: Sequence[Buffer], first: int) -> list[Arena]:
    """One allocation per buffer; one whose tenant is dead is taken over by the next that fits.

    An image fits where it is equal.
    """
    tenants: list[list[Buffer]] = []
    for buffer in sorted(buffers, key=lambda b: (-b.nbytes, b.start)):
        equal = (t for t in tenants if t[0].image == buffer.image)
        free = next((t for t in equal if all(b.end < buffer.start or buffer.end < b.start for b in t)), None)
        if free is None:
            tenants.append([buffer])
        else:
            free.append(buffer)
    for number, group in enumerate(tenants):
        for buffer in group:
            buffer.arena = first + number
    return [
        Arena(
            domain,
            max(b.nbytes for b in tenant),
            max(b.alignment for b in tenant),
            None if tenant[0].image is None else tenant[0].members[0],
        )
        for tenant in tenants
    ]
