"""Make plans whose every tensor lies alone between inaccessible pages; see `guard.py`.

A tensor is read-only once it was written. Nothing of the run path knows of it: between the steps of
a plan stand Python workloads that protect what was written and note what runs next, and inputs are
copied into tensors of the plan first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..contract.interfaces import HOST, ITensorHandle, MemoryDomain
from ..graph.descriptor import Array, Constant
from ..graph.element_types import DType
from ..graph.layer import Layer
from ..graph.tensor import TensorInfo
from ..ground.errors import BackendError, ErrorCode
from . import memory_plan
from .guard import Guard
from .guarded_pages import Block, Running
from .memory_plan import Arena, MemoryPlan, Placement, Storage
from .plan_builder import PlanBuilder
from .steps import Draft, StepInfo, wait_for
from .workload import Workload


class GuardedMemory(ITensorHandle):
    """A tensor or a workspace of one run."""

    domain: MemoryDomain = HOST

    def __init__(self, block: Block, label: str, forget: Callable[[], object]) -> None:
        self.nbytes = block.nbytes
        self.block = block
        self.label = label
        self._address = block.address
        self._forget = forget

    @property
    def address(self) -> int:
        return self._address

    def release(self) -> None:
        self.block.release()
        self._forget()


class _ReadOnly:
    """Lends a block to NumPy and keeps it."""

    def __init__(self, block: Block, like: Array) -> None:
        self.block = block
        self.__array_interface__ = {
            "data": (block.address, True),
            "shape": like.shape,
            "typestr": like.dtype.str,
            "version": 3,
        }


class _Run:
    """The memory of one run context, arena by arena; None where a device provides it."""

    def __init__(self) -> None:
        self.running = Running()
        self.arenas: list[GuardedMemory | None] = []

    def of(self, numbers: Iterable[int]) -> Iterator[GuardedMemory]:
        """Return those of these arenas that the host provides."""
        return (memory for memory in (self.arenas[number] for number in numbers) if memory is not None)


class _Runs:
    """The contexts of one plan, found by the address of their anchor.

    All that a workload sees of its run are its tensors.
    """

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.by_anchor: dict[int, _Run] = {}
        self.making = threading.local()

    def allocator(self, number: int, arena: Arena, label: str, *, is_anchor: bool) -> Callable[[], ITensorHandle]:
        """Return what allocates arena `number` for one run.

        Allocators are called in their order, on one thread.
        """

        def allocate() -> ITensorHandle:
            run = self.begin(number)
            try:
                block = Block(arena.nbytes, arena.alignment, self.guard.side == "end", label, run.running)
            except MemoryError as error:
                raise BackendError(
                    f"cannot allocate {arena.nbytes} bytes for {label}: {error}",
                    code=ErrorCode.OUT_OF_MEMORY,
                    hint="a guarded network takes pages and mappings for each tensor: guard a smaller one, or a part of it",
                ) from error
            block.fill(self.guard.fill)
            address = block.address
            memory = GuardedMemory(block, label, lambda: self.by_anchor.pop(address, None))
            run.arenas.append(memory)
            if is_anchor:
                self.by_anchor[address] = run
            return memory

        return allocate

    def begin(self, number: int) -> _Run:
        """Return the run whose arena `number` is being made."""
        if number == 0:
            self.making.run = _Run()
        run: _Run = self.making.run
        return run


class _Watch:
    """A step between two others: looks at what the one before did, and says which one comes."""

    def __init__(self, runs: _Runs) -> None:
        self.runs = runs
        self.is_first = False
        self.done = ""  # what ran before
        self.coming = ""
        self.seen: tuple[int, ...] = ()  # arenas that the step before had
        self.written: tuple[int, ...] = ()  # those of its outputs

    def execute(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        run, fill = self.runs.by_anchor[inputs[0].__array_interface__["data"][0]], self.runs.guard.fill
        if self.is_first:
            for memory in run.of(range(len(run.arenas))):
                memory.block.fill(fill)
        for memory in run.of(self.seen):
            beside = memory.block.written_beside(fill)
            if beside is not None:
                place = f"{-beside} bytes before the start" if beside < 0 else f"byte {beside} behind the end"
                raise BackendError(
                    f"{self.done} wrote at {place} of {memory.label}",
                    code=ErrorCode.BACKEND_CONTRACT,
                    hint="no kernel reads or writes past an end, see abi.h; this is a bug of the backend: tell its vendor",
                )
        for memory in run.of(self.written):
            memory.block.protect(False)
        run.running.say(self.coming)


class GuardedPlanBuilder(PlanBuilder):
    """Builds one guarded plan; used once.

    Args:
        arguments: Of `PlanBuilder`.
        guard: How to guard.
        keywords: Of `PlanBuilder`.
    """

    def __init__(self, *arguments: Any, guard: Guard, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.guard = guard
        self.runs = _Runs(guard)
        self.loading = Running()
        self.loading.say("a layer, at any time,")
        self.final: list[Draft] = []
        self.watches: list[tuple[_Watch, Draft | None]] = []
        self.anchor = 0

    def _constant(self, layer: Layer) -> Array:
        """Move a constant between inaccessible pages, before its readers' workloads are created."""
        descriptor = layer.descriptor
        assert isinstance(descriptor, Constant)
        value = np.ascontiguousarray(descriptor.value)
        block = Block(
            value.nbytes, max(value.itemsize, 1), self.guard.side == "end", f"the constant {layer.name!r}", self.loading
        )
        block.fill(self.guard.fill)
        moved: Array = np.asarray(_ReadOnly(block, value))
        if value.size:
            moved.flags.writeable = False
            _writeable(block, value)[...] = value
        block.protect(False)
        self.optimized.graph.replace_descriptor(layer, replace(descriptor, value=moved))
        return moved

    # -- steps -------------------------------------------------------------------------------------

    def _with_waits(self) -> list[Draft]:
        """Wait after each asynchronous step, copy inputs into the plan, watch between the steps."""
        steps = self._input_copies()
        for draft in self.drafts:
            steps.append(draft)
            if draft.info.queue is not None:
                steps.append(wait_for(draft.info.queue, [draft]))
        self.anchor = self._add_tensor("the guard's anchor", TensorInfo((1,), DType.UINT8), Storage.ARENA, 0)
        before: Draft | None = None
        result: list[Draft] = []
        for coming in [*steps, None]:
            if coming is None or coming.workload is not None:  # a wait belongs to the step before it
                result.append(self._watch(before, coming))
            if coming is not None:
                result.append(coming)
                before = coming if coming.workload is not None else before
        self.final = result
        return result

    def _input_copies(self) -> list[Draft]:
        copies = []
        for number, tensor in enumerate(list(self.tensors)):
            info = self.infos[number]
            if tensor.storage is Storage.INPUT and info is not None:
                given = self._add_tensor(self.names[number], info, Storage.INPUT, tensor.index)
                tensor.storage, tensor.index = Storage.ARENA, 0
                name = f"copy of input {self.names[number]}"
                copies.append(
                    Draft(StepInfo(name, "dovetail.InputCopy", "core", ()), Workload.host_copy(), (given,), (number,))
                )
        return copies

    def _add_tensor(self, name: str, info: TensorInfo, storage: Storage, index: int) -> int:
        self.tensors.append(memory_plan.Tensor(info.nbytes, HOST, 1, storage, index))
        self.infos.append(info)
        self.names.append(name)
        return len(self.tensors) - 1

    def _watch(self, before: Draft | None, coming: Draft | None) -> Draft:
        watch = _Watch(self.runs)
        watch.is_first = before is None
        watch.done = _described(before)
        watch.coming = _described(coming)
        self.watches.append((watch, before))
        info = StepInfo("guard", "dovetail.Guard", "core", ())
        if before is not None:
            info = StepInfo(before.info.name, before.info.layer_kind, before.info.backend, before.info.sources)
        return Draft(info, Workload.take(watch, "the guard"), (self.anchor,), ())

    # -- memory ------------------------------------------------------------------------------------

    def _plan_memory(self, steps: Sequence[memory_plan.Step]) -> MemoryPlan:
        """Give each tensor and each workspace an arena of its own."""
        arenas: list[Arena] = []

        def arena(domain: MemoryDomain, nbytes: int, alignment: int, image: int | None = None) -> Placement:
            arenas.append(Arena(domain, nbytes, alignment, image))
            return Placement(Storage.ARENA, len(arenas) - 1, 0)

        placements = []
        for number, tensor in enumerate(self.tensors):
            if tensor.storage is Storage.ARENA:
                image = None if tensor.image is None else number
                placements.append(arena(tensor.domain, tensor.nbytes, self._alignment(number), image))
            else:
                placements.append(Placement(tensor.storage, tensor.index, 0))
        workspaces = [
            arena(step.workspace_domain, self._workspace_bytes(draft, step.workspace), step.workspace_alignment)
            if step.workspace
            else None
            for draft, step in zip(self.final, steps, strict=True)
        ]
        place = {id(draft): workspace for draft, workspace in zip(self.final, workspaces, strict=True)}
        for watch, before in self.watches:
            if before is not None:
                numbers = [number for number in (*before.reads, *before.writes) if number is not None]
                touched = [placements[number] for number in numbers] + [place[id(before)]]
                watch.seen = _arena_numbers(touched)
                watch.written = _arena_numbers([placements[number] for number in before.writes])
        total = sum(one.nbytes for one in arenas)
        copies = [(number, output) for number, tensor in enumerate(self.tensors) for output in tensor.outputs]
        return MemoryPlan(
            placements=tuple(placements),
            workspaces=tuple(workspaces),
            arenas=tuple(arenas),
            elided=frozenset(),
            output_copies=tuple(copies),
            buffers=(),
            peak_bytes=total,
            lower_bound=total,
        )

    def _alignment(self, number: int) -> int:
        """Return the alignment that a kernel may rely on.

        In an arena of the host a tensor may be a view, aligned to its element only.
        """
        tensor, info = self.tensors[number], self.infos[number]
        if tensor.domain != HOST or info is None:
            return tensor.alignment
        return info.opaque.alignment if info.opaque else max(info.dtype.itemsize, 1)

    def _workspace_bytes(self, draft: Draft, planned: int) -> int:
        """Return the bytes asked for.

        Only parts of workers before the last are rounded up, to begin aligned.
        """
        last = draft.per_worker or draft.shared
        return planned - (-last % memory_plan.ALIGNMENT)

    def _allocators(self, plan: MemoryPlan) -> list[Callable[[], ITensorHandle]]:
        labels: Mapping[int, str] = {
            **{p.index: f"the tensor {name!r}" for p, name in zip(plan.placements, self.names, strict=True) if _in_arena(p)},
            **{
                p.index: f"the workspace of layer {draft.info.name!r}"
                for p, draft in zip(plan.workspaces, self.final, strict=True)
                if p is not None
            },
        }
        anchor = plan.placements[self.anchor].index
        usual = super()._allocators(plan)
        return [
            self.runs.allocator(number, one, labels[number], is_anchor=number == anchor)
            if one.domain == HOST
            else self._noted(number, usual[number])
            for number, one in enumerate(plan.arenas)
        ]

    def _shared_arena(self, plan: MemoryPlan) -> None:
        """Share nothing: each tensor has pages of its own, and a run is known by where they are."""
        return

    def _noted(self, number: int, allocate: Callable[[], ITensorHandle]) -> Callable[[], ITensorHandle]:
        """Let a device allocate; the first arena begins a run, whosever it is."""

        def noted() -> ITensorHandle:
            self.runs.begin(number).arenas.append(None)
            return allocate()

        return noted


def _in_arena(placement: Placement | None) -> bool:
    return placement is not None and placement.storage is Storage.ARENA


def _arena_numbers(placements: Sequence[Placement | None]) -> tuple[int, ...]:
    return tuple(sorted({p.index for p in placements if p is not None and p.storage is Storage.ARENA}))


def _described(draft: Draft | None) -> str:
    return "nothing" if draft is None else f"layer {draft.info.name!r} ({draft.info.layer_kind}) on {draft.info.backend}"


def _writeable(block: Block, like: Array) -> Array:
    view: Any = _ReadOnly(block, like)
    view.__array_interface__ = {**view.__array_interface__, "data": (block.address, False)}
    return np.asarray(view)
