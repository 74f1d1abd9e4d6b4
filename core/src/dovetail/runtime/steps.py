"""Steps of a plan, before and after its memory is planned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..contract.interfaces import HOST, MemoryDomain
from ..graph.layer import Layer
from ..ground.records import NamedTuple, Record
from .aliases import Alias
from .memory_plan import MemoryPlan, Placement
from .workload import Workload


class StepLinks(Protocol):
    """What a step touches, as the executor needs it; see `StepInfo`."""

    @property
    def queue(self) -> int | None: ...
    @property
    def inputs(self) -> tuple[int, ...]: ...
    @property
    def outputs(self) -> tuple[int, ...]: ...
    @property
    def workspace(self) -> Placement | None: ...
    @property
    def worker_workspace(self) -> Placement | None: ...
    @property
    def worker_stride(self) -> int: ...


class StepInfo(NamedTuple):
    """One step as people see it, and as the executor needs it.

    Attributes:
        name: Name of the layer, or what a wait waits for.
        layer_kind: Kind of the layer.
        backend: Backend that runs it; "core" for the core's own copies.
        sources: Names of the layers of the original network that it covers.
        queue: Index of the queue it enqueues on or waits for.
        inputs, outputs: Tensor numbers.
        workspace, worker_workspace: Where the scratch lies.
        worker_stride: Bytes of scratch per worker.
        workspace_bytes: Bytes of scratch in all.
        private_bytes: Memory that the workload holds for itself.
        maps: Memory of backends that a copy of the core maps, for messages.
        copied_bytes: What it copies from one memory to another.
        tuned: How it is computed, if that was chosen by measuring; as in the placement report.
    """

    name: str
    layer_kind: str
    backend: str
    sources: tuple[str, ...]
    queue: int | None = None
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    workspace: Placement | None = None
    worker_workspace: Placement | None = None
    worker_stride: int = 0
    private_bytes: int = 0
    workspace_bytes: int = 0
    tuned: str = ""
    maps: tuple[MemoryDomain, ...] = ()
    copied_bytes: int = 0


class Draft(Record):
    """A step before memory is planned."""

    info: StepInfo
    workload: Workload | None
    reads: tuple[int | None, ...] = ()
    writes: tuple[int, ...] = ()
    shared: int = 0
    per_worker: int = 0
    aliases: Sequence[Alias] = ()
    workspace_domain: MemoryDomain = HOST
    layer: Layer | None = None


def with_waits(drafts: Sequence[Draft]) -> list[Draft]:
    """Insert a wait where a tensor leaves an asynchronous backend.

    At the end there is one per busy queue.
    """
    result: list[Draft] = []
    in_flight: dict[int, list[Draft]] = {}
    members: dict[int, list[Draft]] = {}
    for draft in drafts:
        if members:
            waiting = [in_flight[r] for r in draft.reads if r in in_flight]
            needed = {several[0].info.queue for several in waiting if several} - {draft.info.queue}
            for queue in sorted(q for q in needed if q is not None):
                several = members.pop(queue)
                result.append(wait_for(queue, several))
                several.clear()  # what they wrote is in flight no more
        result.append(draft)
        if draft.info.queue is not None:
            several = members.setdefault(draft.info.queue, [])
            several.append(draft)
            in_flight.update(dict.fromkeys(draft.writes, several))
    return result + [wait_for(queue, several) for queue, several in sorted(members.items())]


def wait_for(queue: int, drafts: Sequence[Draft]) -> Draft:
    """Return the wait for what some steps enqueued."""
    first, last = drafts[0].info, drafts[-1].info
    name = first.name if len(drafts) == 1 else f"{first.name} ... {last.name}"
    sources = tuple(dict.fromkeys(source for draft in drafts for source in draft.info.sources))
    return Draft(StepInfo(f"wait for {name}", "dovetail.Wait", first.backend, sources, queue), None)


class PlannedMemory(NamedTuple):
    """What a plan needs in memory.

    Attributes:
        plan: The placement of every tensor.
        constant_bytes: Weights, shared by all runs.
        private_bytes: What the workloads said they hold for themselves, such as weights that they
            packed; shared by all runs.
        tensor_names, tensor_bytes: Names and sizes by tensor number.
        steps: Every step that was planned, those included that `plan.elided` says have nothing left
            to do.
    """

    plan: MemoryPlan
    constant_bytes: int
    private_bytes: int
    tensor_names: tuple[str, ...]
    tensor_bytes: tuple[int, ...]
    steps: tuple[StepInfo, ...]

    def __repr__(self) -> str:
        held = f"{self.constant_bytes} bytes of constants, {self.private_bytes} bytes held by backends"
        return f"<PlannedMemory: {self.peak_bytes} bytes a run, {held}>"

    @property
    def peak_bytes(self) -> int:
        """Bytes that each concurrent run allocates, besides its inputs and outputs."""
        return self.plan.peak_bytes

    @property
    def lower_bound(self) -> int:
        """Bytes that any plan with the same order of steps and aliases needs."""
        return self.plan.lower_bound
