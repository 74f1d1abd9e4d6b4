"""From an optimized network to an executable plan: workloads, waits, memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..contract.interfaces import HOST, ITensorHandle, MemoryDomain
from ..graph.descriptor import Array, Constant, Input, Output
from ..graph.layer import Layer, OutputSlot
from ..graph.tensor import TensorInfo
from ..ground.errors import BackendError, ErrorCode
from ..ground.limits import budget, watched
from ..optimizer.core_kinds import MemoryCopy
from . import memory_plan
from .aliases import Alias, gap_in, problem_with
from .arenas import allocator
from .backends_in_use import BackendKey, BackendsInUse
from .execution_order import execution_order
from .memory_plan import MemoryPlan, Placement, Storage
from .plan_parts import PlanParts
from .plans import Plan, ThreadPool
from .steps import Draft, PlannedMemory, StepInfo, with_waits
from .workload import Workload

if TYPE_CHECKING:
    from ..optimizer.optimized import TensorSpec


class PlanBuilder:
    """Builds one plan; used once.

    Args:
        backends: Those of the optimized network that is planned.
        pool: Threads.
        network_lock: Of the network's.
        spare_arenas: Of the network's: host memory that no run context holds.
        consumes: Nobody else has the optimized network: backends may release what its layers hold.

    Attributes:
        consumed: A backend was told so; the optimized network cannot be loaded again.
        parts: What the plan was made of; None before it is.
    """

    def __init__(
        self,
        backends: BackendsInUse,
        pool: ThreadPool,
        network_lock: threading.Lock,
        spare_arenas: list[ITensorHandle],
        *,
        consumes: bool = False,
    ) -> None:
        self.consumes = consumes
        self.consumed = False
        self.parts: PlanParts | None = None
        self.backends = backends
        self.optimized = backends.optimized
        self.threads = backends.threads
        self.pool = pool
        self.network_lock = network_lock
        self.spare_arenas = spare_arenas
        self.tuned = {row.name: row.tuned for row in self.optimized.placement.layers if row.tuned}
        self.tensors: list[memory_plan.Tensor] = []
        self.infos: list[TensorInfo | None] = []
        self.names: list[str] = []
        self.number: dict[OutputSlot, int] = {}
        self.constants: list[Array] = []
        self.drafts: list[Draft] = []
        self.locks: dict[int, threading.Lock] = {}

    def build(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], fixed: Mapping[str, Array]) -> Plan:
        """Create the workloads and plan their memory.

        Args:
            inputs: Every graph input with its concrete shape, those included whose value is fixed.
            outputs: Every graph output with its concrete shape.
            fixed: Values that the plan was made for.

        Raises:
            BackendError: A backend broke its contract or could not create a workload.
        """
        try:
            return self._build(inputs, outputs, fixed)
        finally:
            self.drafts.clear()  # a traceback may hold this builder for long; the workloads must not outlive the plan

    def _build(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], fixed: Mapping[str, Array]) -> Plan:
        ports = {spec.name: i for i, spec in enumerate(inputs)}
        order = execution_order(self.optimized.graph.outputs)
        self._announce(order)
        for layer in order:
            self._take_layer(layer, ports)
        for layer in self.optimized.graph.inputs:
            if layer.output not in self.number:
                self._tensor(layer.output, Storage.INPUT, ports[layer.name])
        for i, layer in enumerate(self.optimized.graph.outputs):
            source = layer.inputs[0].source
            if source is not None:
                self.tensors[self.number[source]].outputs.append(i)
        return self._finish(self._with_waits(), list(inputs), list(outputs), dict(fixed))

    # -- layers ------------------------------------------------------------------------------------

    def _announce(self, order: Sequence[Layer]) -> None:
        """Tell the backends for which layers they will be asked."""
        coming: dict[BackendKey, list[Layer]] = {}
        for layer in order:
            assigned = self.optimized.assignment.get(layer.name)
            if assigned is not None and not isinstance(layer.descriptor, MemoryCopy) and not _makes_nothing(layer):
                coming.setdefault(self.backends.open(assigned), []).append(layer)
        for key, layers in coming.items():
            self.backends.expect(layers, key)

    def _take_layer(self, layer: Layer, ports: Mapping[str, int]) -> None:
        descriptor = layer.descriptor
        if isinstance(descriptor, Input):
            self._tensor(layer.output, Storage.INPUT, ports[layer.name])
        elif isinstance(descriptor, Constant):
            self.constants.append(self._constant(layer))
            self._tensor(layer.output, Storage.CONSTANT, len(self.constants) - 1)
        elif not isinstance(descriptor, Output):
            self._workload_step(layer)

    def _constant(self, layer: Layer) -> Array:
        value: Array = layer.descriptor.value  # type: ignore[attr-defined]  # of a Constant
        return value

    def _tensor(self, slot: OutputSlot, storage: Storage = Storage.ARENA, index: int = 0) -> int:
        info = slot.known_info
        domain = self.optimized.domains.get(slot, HOST)
        alignment, image = memory_plan.ALIGNMENT, None
        if storage is Storage.ARENA:
            manager = self.backends.manager(domain)
            alignment = max(alignment, manager.alignment, info.opaque.alignment if info.opaque else 1)
            image = (info.sizes, info.dtype, info.opaque) if manager.images else None
        element = max(info.dtype.itemsize, info.opaque.alignment) if info.opaque else info.dtype.itemsize
        self.tensors.append(memory_plan.Tensor(info.nbytes, domain, alignment, storage, index, [], element, image))
        self.infos.append(info)
        self.names.append(slot.name)
        self.number[slot] = len(self.tensors) - 1
        return self.number[slot]

    def _workload_step(self, layer: Layer) -> None:
        load = budget()
        load.check_time()
        for slot in layer.outputs:  # before a workload makes anything of that size
            if (nbytes := slot.known_info.nbytes) > load.limits.memory:
                load.take_memory(nbytes, f"tensor {slot.name!r}")
        assigned = self.optimized.assignment.get(layer.name)
        origin = (
            f"backend {str(assigned.request.id)!r}, layer {layer.name!r} ({layer.kind})"
            if assigned
            else f"layer {layer.name!r}"
        )
        key = None
        if assigned is None:
            workload = self.backends.core_workload(layer)
        else:
            key = self.backends.open(assigned)
            workload = Workload.host_copy() if _makes_nothing(layer) else self.backends.workload(layer, key, origin)
        reads = tuple([None if slot.source is None else self.number[slot.source] for slot in layer.inputs])
        writes = tuple([self._tensor(slot) for slot in layer.outputs])
        aliases = self._aliases(workload, reads, writes, origin)
        try:
            shared, per_worker = workload.workspace(
                [None if r is None else self._spec(r) for r in reads], [self._spec(w) for w in writes], self.threads
            )
        except BackendError as error:
            error.message = f"{origin}: {error.message}"
            raise
        if key is not None and workload.concurrency:
            lock = self.network_lock if workload.concurrency == 1 else self.backends.opened[key].device_lock
            self.locks[id(lock)] = lock
        queue = self.backends.queue(key, origin) if key is not None and workload.asynchronous else None
        backend = "core" if assigned is None else str(assigned.request.id)
        info = StepInfo(layer.name, layer.kind, backend, layer.sources, queue, private_bytes=workload.private_bytes)
        if isinstance(layer.descriptor, MemoryCopy):
            info = info._replace(copied_bytes=layer.output.known_info.nbytes)
            if assigned is None:
                info = info._replace(
                    maps=tuple([one for one in (layer.descriptor.source, layer.descriptor.target) if one != HOST])
                )
        if self.tuned.get(layer.name):
            info = info._replace(tuned=self.tuned[layer.name])
        where = self._workspace_domain(workload, key, per_worker, origin)
        self.drafts.append(Draft(info, workload, reads, writes, shared, per_worker, aliases, where, layer))
        if self.consumes and key is not None:
            self.consumed = self.backends.release(layer, key, origin) or self.consumed

    def _workspace_domain(self, workload: Workload, key: BackendKey | None, per_worker: int, origin: str) -> MemoryDomain:
        """Return where the scratch of a workload lies.

        Raises:
            BackendError: There is no such domain, or it is not one that threads of the host can
                work in.
        """
        number = workload.workspace_memory
        if not number or key is None:
            return HOST
        domains = self.backends.factories[key].domains
        if number <= len(domains) and (not per_worker or domains[number - 1] == HOST):
            where = domains[number - 1]
            if not self.backends.manager(where).images:
                return where
        raise BackendError(
            f"{origin}: its workload wants its workspace in memory {number}, with {per_worker} bytes for each worker",
            code=ErrorCode.BACKEND_CONTRACT,
            hint=f"0 is host memory, 1 to {len(domains)} are those of the backend; parts for workers lie in host memory alone, "
            "and no scratch lies in a memory of images",
            method="workspace",
        )

    def _aliases(self, workload: Workload, reads: Sequence[int | None], writes: Sequence[int], origin: str) -> Sequence[Alias]:
        """Return what a workload says of bytes that its outputs and inputs share.

        Raises:
            BackendError: It is not sound.
        """
        aliases: Sequence[Alias] = workload.aliases
        if not aliases:  # then an elidable step has something to do
            return ()
        inputs = [None if number is None else self.tensors[number].extent for number in reads]
        outputs = [self.tensors[number].extent for number in writes]
        problem = problem_with(aliases, inputs, outputs)
        if not problem and workload.elidable:
            problem = gap_in(aliases, inputs, outputs)
        if problem:
            raise BackendError(
                f"{origin}: its workload says that {problem}",
                code=ErrorCode.BACKEND_CONTRACT,
                hint="see DOVETAIL_ALIAS_... in abi.h; this is a bug of the backend: tell its vendor",
                alias=problem,
            )
        return aliases

    def _spec(self, number: int) -> tuple[int, int, tuple[int, ...]] | None:
        info = self.infos[number]
        return None if info is None else (info.dtype.dlpack_code, info.dtype.bits, info.sizes)

    def _with_waits(self) -> list[Draft]:
        """Return all steps, waits included."""
        return with_waits(self.drafts)

    # -- memory ------------------------------------------------------------------------------------

    def _finish(
        self, drafts: list[Draft], inputs: list[TensorSpec], outputs: list[TensorSpec], fixed: dict[str, Array]
    ) -> Plan:
        stride = {id(d): -(-d.per_worker // memory_plan.ALIGNMENT) * memory_plan.ALIGNMENT for d in drafts}
        shared = {id(d): -(-d.shared // memory_plan.ALIGNMENT) * memory_plan.ALIGNMENT for d in drafts}
        idle = frozenset(number for number, draft in enumerate(drafts) if self._makes_nothing(draft))
        steps = [
            memory_plan.Step(
                draft.reads,
                draft.writes,
                0 if number in idle else shared[id(draft)] + stride[id(draft)] * self.threads,
                draft.workspace_domain,
                max(memory_plan.ALIGNMENT, self.backends.manager(draft.workspace_domain).alignment),
                draft.aliases,
                draft.workload.elidable if draft.workload else False,
                draft.info.queue,
                draft.workload is None,
            )
            for number, draft in enumerate(watched(drafts))
        ]
        plan = self._plan_memory(steps)
        plan = plan._replace(elided=plan.elided | idle)
        results = sum(TensorInfo(spec.shape, spec.dtype).nbytes for spec in outputs)
        self._take_run_memory(plan.peak_bytes + results, drafts, steps)
        placements = [(p.storage, p.index, p.offset) for p in plan.placements]
        specs = [self._spec(i) for i in range(len(self.tensors))]
        missing = len(specs)
        placed = [
            self._placed(draft, plan.workspaces[i], shared[id(draft)], stride[id(draft)], missing)
            for i, draft in enumerate(watched(drafts))
        ]
        infos = [info for i, info in enumerate(placed) if i not in plan.elided]
        workloads = [draft.workload for i, draft in enumerate(drafts) if i not in plan.elided]
        layers = [draft.layer for i, draft in enumerate(drafts) if i not in plan.elided]
        for tensor, output in plan.output_copies:
            infos.append(self._output_copy(tensor, output, len(specs) + 1, outputs[output].name))
            workloads.append(Workload.host_copy())
        out_specs = [self._spec(tensor) for tensor, _ in plan.output_copies]
        targets = [(Storage.OUTPUT, output, 0) for _, output in plan.output_copies]
        # One tensor stands for every input that is left out, then come the targets of the output
        # copies.
        infos = _renumber(infos, plan, missing)
        memory = PlannedMemory(
            plan,
            self._constant_bytes(),
            sum(i.private_bytes for i in infos),
            tuple(self.names),
            tuple(tensor.nbytes for tensor in self.tensors),
            tuple(placed),
        )
        self.parts = PlanParts(
            inputs=inputs,
            outputs=outputs,
            steps=infos,
            workloads=workloads,
            layers=[*layers, *(None for _ in plan.output_copies)],
            describe=lambda: (infos, memory),
            arenas=plan.arenas,
            constants=self.constants,
            tensors=[*specs, None, *out_specs],
            locations=[*placements, (Storage.ARENA, 0, 0), *targets],
            shared_arena=self._shared_arena(plan),
            threads=self.threads,
        )
        return self.parts.plan(
            fixed,
            queues=self.backends.queues,
            arenas=self._allocators(plan),
            # One order for the whole process: networks that share two devices must not wait for
            # each other.
            serial_locks=[self.locks[number] for number in sorted(self.locks)],
            pool=self.pool,
            spare_arenas=self.spare_arenas,
        )

    def _take_run_memory(self, nbytes: int, drafts: Sequence[Draft], steps: Sequence[memory_plan.Step]) -> None:
        """Count what a run allocates.

        The error names the step with the largest workspace where that is the cause.

        Raises:
            LimitError: It is too much (`LIMIT_EXCEEDED`).
        """
        load, what = budget(), f"a run of network {self.optimized.name!r}"
        if not load.affords_memory(nbytes) and steps:
            draft, step = max(zip(drafts, steps, strict=True), key=lambda pair: pair[1].workspace)
            if not load.affords_memory(step.workspace) or load.affords_memory(nbytes - step.workspace):
                what += f", with {step.workspace} bytes of workspace for layer {draft.info.name!r} on {draft.info.backend!r},"
        load.take_memory(nbytes, what)

    def _plan_memory(self, steps: Sequence[memory_plan.Step]) -> MemoryPlan:
        whole = frozenset(domain for domain, manager in self.backends.managers.items() if not manager.offsets)
        return memory_plan.plan_memory(self.tensors, steps, whole=whole)

    def _shared_arena(self, plan: MemoryPlan) -> tuple[int, int, int] | None:
        """Return (index, bytes, alignment) of the arena in host memory.

        Plans that do not run at once can share one.
        """
        return next(((i, arena.nbytes, arena.alignment) for i, arena in enumerate(plan.arenas) if arena.domain == HOST), None)

    def _allocators(self, plan: MemoryPlan) -> list[Callable[[], ITensorHandle]]:
        used = self.backends
        return [
            allocator(
                one,
                used.manager(one.domain),
                used.owners.get(one.domain, "the core"),
                used.mapped.get(one.domain),
                None if one.tensor is None else self.infos[one.tensor],
            )
            for one in plan.arenas
        ]

    def _makes_nothing(self, draft: Draft) -> bool:
        """Tell whether all results of a step are empty, so that it is left out.

        Its other sizes may be of any magnitude. A kernel would walk over them, for hours, to write
        nothing. What the core runs may show a tensor, an empty one too.
        """
        return bool(draft.writes) and draft.info.backend != "core" and not any(self.tensors[w].nbytes for w in draft.writes)

    def _placed(self, draft: Draft, workspace: Placement | None, shared: int, stride: int, missing: int) -> StepInfo:
        info = draft.info
        workers_bytes = stride * self.threads
        workers = None
        if workspace is not None and stride:
            workers = Placement(workspace.storage, workspace.index, workspace.offset + shared)
        return StepInfo(
            info.name,
            info.layer_kind,
            info.backend,
            info.sources,
            info.queue,
            tuple(missing if r is None else r for r in draft.reads),
            draft.writes,
            workspace if shared else None,
            workers,
            stride,
            info.private_bytes,
            shared + workers_bytes if workspace is not None else 0,
            info.tuned,
            info.maps,
            info.copied_bytes,
        )

    def _output_copy(self, tensor: int, output: int, target: int, name: str) -> StepInfo:
        return StepInfo(
            f"copy to output {name}", "dovetail.OutputCopy", "core", (self.names[tensor],), inputs=(tensor,), outputs=(target,)
        )

    def _constant_bytes(self) -> int:
        # Not by `ctypes`, which NumPy would import for it.
        return sum({value.__array_interface__["data"][0]: value.nbytes for value in self.constants}.values())


def _renumber(infos: list[StepInfo], plan: MemoryPlan, missing: int) -> list[StepInfo]:
    """Give each output copy a target tensor of its own, behind the one for inputs left out."""
    first = len(infos) - len(plan.output_copies)
    copies = [
        StepInfo(i.name, i.layer_kind, i.backend, i.sources, inputs=i.inputs, outputs=(missing + 1 + k,))
        for k, i in enumerate(infos[first:])
    ]
    return infos[:first] + copies


def _makes_nothing(layer: Layer) -> bool:
    """Say whether all that a layer makes is empty: it will not run.

    What a backend prepares for it may be as large as the sizes beside the zero.
    """
    for slot in layer.outputs:  # a generator would take three times as long, and each layer is asked twice
        if slot.known_info.nbytes:
            return False
    return bool(layer.outputs)
