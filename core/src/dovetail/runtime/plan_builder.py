"""From an optimized network to an executable plan: workloads, waits, memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..contract.backend_calls import backend_call, checked
from ..contract.backend_id import BackendId
from ..contract.interfaces import HOST, IBackend, IBackendContext, IMemoryManager, ITensorHandle, IWorkloadFactory, MemoryDomain
from ..contract.memory import HostMemoryManager
from ..graph.descriptor import Array, Constant, Input, Output
from ..graph.layer import Layer, OutputSlot
from ..graph.layer_state import LayerState
from ..graph.tensor import TensorInfo
from ..ground.errors import BackendError, ErrorCode
from ..ground.host_exceptions import is_of_host
from ..ground.limits import budget, watched
from ..ground.records import NamedTuple, Record
from ..optimizer.copies import own_domains
from ..optimizer.core_kinds import MemoryCopy
from . import memory_plan
from .aliases import Alias, gap_in, problem_with
from .arenas import allocator, sound_manager
from .backend_resources import resources_for
from .execution_order import execution_order
from .memory_plan import MemoryPlan, Placement, Storage
from .plans import Plan, ThreadPool
from .ports import Ports
from .workload import Queues, Workload

if TYPE_CHECKING:
    from ..optimizer.optimized import OptimizedNetwork, TensorSpec


_GIVES_BACK = frozenset({ErrorCode.COMPILE_FAILED, ErrorCode.BACKEND_BROKEN})
"""Failures of a backend to make what it claimed.

A breach of the contract or a lack of memory is another thing.
"""


class BackendKey(NamedTuple):
    """One device of one backend, with one set of options."""

    id: BackendId
    device: int


class Factory(NamedTuple):
    """What makes the workloads of a network for one device: all its plans use the same.

    Attributes:
        workloads: The backend's own.
        domains: Where the device keeps tensors and scratch, in the backend's order.
        managers: What provides memory there; the core does in the host.
    """

    workloads: IWorkloadFactory
    domains: tuple[MemoryDomain, ...]
    managers: Mapping[MemoryDomain, IMemoryManager]


class OpenBackend(Record):
    """A backend in use by a runtime: its context and what is shared between networks."""

    backend: IBackend
    device: int
    context: IBackendContext | None
    device_lock: threading.Lock
    stuck: bool = False
    """The device never released the memory of some run: its context must not be closed over it."""


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


class PartFailedError(Exception):
    """A backend could not make the workload of a part that it had claimed.

    It is caught where a plan is made.

    Attributes:
        layer: Name of the private layer.
        cause: What the backend failed with.
    """

    def __init__(self, layer: str, cause: BackendError) -> None:
        super().__init__(cause.message)
        self.layer, self.cause = layer, cause


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


class _Tap:
    """The workload of a `Debug` layer: hands its tensor on, and shows it."""

    def __init__(self, descriptor: Any, show: Callable[[str, int, Array], None]) -> None:
        self.descriptor = descriptor
        self.show = show

    def execute(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        outputs[0][...] = inputs[0]
        self.show(self.descriptor.layer, self.descriptor.index, inputs[0])


class PlanBuilder:
    """Builds one plan; used once.

    Args:
        optimized: What is planned.
        opened: The backends in use.
        factories: Of the network; those that are missing are added.
        pool: Threads.
        threads: How many of them a run may use.
        network_lock: Of the network's.
        spare_arenas: Of the network's: host memory that no run context holds.
        consumes: Nobody else has the optimized network: backends may release what its layers hold.

    Attributes:
        consumed: A backend was told so; the optimized network cannot be loaded again.
    """

    def __init__(
        self,
        optimized: OptimizedNetwork,
        opened: Mapping[BackendKey, OpenBackend],
        factories: dict[BackendKey, Factory],
        pool: ThreadPool,
        threads: int,
        network_lock: threading.Lock,
        spare_arenas: list[ITensorHandle],
        *,
        consumes: bool = False,
    ) -> None:
        self.consumes = consumes
        self.consumed = False
        self.optimized = optimized
        self.opened = opened
        self.pool = pool
        self.threads = threads
        self.network_lock = network_lock
        self.spare_arenas = spare_arenas
        self.tuned = {row.name: row.tuned for row in optimized.placement.layers if row.tuned}
        self.factories = factories
        self.managers: dict[MemoryDomain, IMemoryManager] = {HOST: HostMemoryManager()}
        self.owners: dict[MemoryDomain, str] = {}
        self.mapped: dict[MemoryDomain, dict[int, ITensorHandle]] = {}
        self.queues: list[tuple[Queues, int]] = []
        self.queue_of: dict[BackendKey, int] = {}
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
        for layer in execution_order(self.optimized.graph.outputs):
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
        alignment = memory_plan.ALIGNMENT
        if storage is Storage.ARENA:
            alignment = max(alignment, self._manager(domain).alignment, info.opaque.alignment if info.opaque else 1)
        element = max(info.dtype.itemsize, info.opaque.alignment) if info.opaque else info.dtype.itemsize
        self.tensors.append(memory_plan.Tensor(info.nbytes, domain, alignment, storage, index, element=element))
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
            workload = self._core_workload(layer)
        else:
            key = self._open(assigned)
            makes_nothing = bool(layer.outputs) and not any(slot.known_info.nbytes for slot in layer.outputs)
            # It will not run, and what a backend prepares for it may be as large as the sizes
            # beside the zero.
            workload = Workload.host_copy() if makes_nothing else self._compiled(layer, key, origin)
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
            lock = self.network_lock if workload.concurrency == 1 else self.opened[key].device_lock
            self.locks[id(lock)] = lock
        queue = self._queue(key, origin) if key is not None and workload.asynchronous else None
        backend = "core" if assigned is None else str(assigned.request.id)
        info = StepInfo(layer.name, layer.kind, backend, layer.sources, queue, private_bytes=workload.private_bytes)
        if self.tuned.get(layer.name):
            info = info._replace(tuned=self.tuned[layer.name])
        where = self._workspace_domain(workload, key, per_worker, origin)
        self.drafts.append(Draft(info, workload, reads, writes, shared, per_worker, aliases, where))
        if self.consumes and key is not None:
            self._release(layer, self.factories[key].workloads, origin)

    def _workspace_domain(self, workload: Workload, key: BackendKey | None, per_worker: int, origin: str) -> MemoryDomain:
        """Return where the scratch of a workload lies.

        Raises:
            BackendError: There is no such domain, or it is not one that threads of the host can
                work in.
        """
        number = workload.workspace_memory
        if not number or key is None:
            return HOST
        domains = self.factories[key].domains
        if number <= len(domains) and (not per_worker or domains[number - 1] == HOST):
            return domains[number - 1]
        raise BackendError(
            f"{origin}: its workload wants its workspace in memory {number}, with {per_worker} bytes for each worker",
            code=ErrorCode.BACKEND_CONTRACT,
            hint=f"0 is host memory, 1 to {len(domains)} are those of the backend; parts for workers lie in host memory alone",
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

    def _release(self, layer: Layer, factory: IWorkloadFactory, origin: str) -> None:
        if type(factory).release is not IWorkloadFactory.release:
            self.consumed = True
            with backend_call(origin, "release"):
                factory.release(layer)

    def _core_workload(self, layer: Layer) -> Workload:
        """Make the workload of a layer that the core runs: `Debug`, or a copy visible to the host.

        Only the optimized network knows the callback of `Debug`.
        """
        if isinstance(layer.descriptor, MemoryCopy):
            return Workload.mapped_copy(*(self._mapping(one) for one in (layer.descriptor.source, layer.descriptor.target)))
        if layer.kind != "dovetail.Debug" or self.optimized.debug is None:
            return Workload.host_copy()
        return Workload.take(_Tap(layer.descriptor, self.optimized.debug), f"layer {layer.name!r}")

    def _open(self, assigned: Any) -> BackendKey:
        key = BackendKey(assigned.request.id, assigned.request.device)
        if key not in self.factories:
            self.factories[key] = self._factory(assigned, key)
        for domain, manager in self.factories[key].managers.items():
            if domain not in self.managers:
                self.managers[domain] = manager
                self.owners[domain] = f"backend {str(key.id)!r}"
        return key

    def _factory(self, assigned: Any, key: BackendKey) -> Factory:
        opened = self.opened[key]
        backend, origin = assigned.backend, f"backend {str(key.id)!r}"
        domains = own_domains(assigned)
        managers = {domain: self._manager_of(opened, domain, origin) for domain in domains if domain != HOST}
        with backend_call(origin, "create_workload_factory"):
            resources = resources_for(backend, key.device, assigned.options, self.threads)
            factory = backend.create_workload_factory(opened.context, resources, assigned.options)
        return Factory(checked(origin, "create_workload_factory", factory, IWorkloadFactory), domains, managers)

    @staticmethod
    def _manager_of(opened: OpenBackend, domain: MemoryDomain, origin: str) -> IMemoryManager:
        with backend_call(origin, "create_memory_manager"):
            made = opened.backend.create_memory_manager(opened.context, domain)
        return sound_manager(origin, checked(origin, "create_memory_manager", made, IMemoryManager))

    def _compiled(self, layer: Layer, key: BackendKey, origin: str) -> Workload:
        """Create a workload.

        Raises:
            PartFailedError: It is that of a claimed part, and the backend cannot make it.
        """
        try:
            return self._create(layer, key, origin)
        except BackendError as error:
            if layer.name in self.optimized.private and error.code in _GIVES_BACK and not is_of_host(error):
                raise PartFailedError(layer.name, error) from error
            raise

    def _create(self, layer: Layer, key: BackendKey, origin: str) -> Workload:
        factory = self.factories[key].workloads
        hint = "a layer that cannot be run must be refused by supports(); this is a bug of the backend"
        if layer.kind == "dovetail.MemoryCopy":
            copy: Any = layer.descriptor
            with backend_call(origin, "create_copy"):
                made = factory.create_copy(copy.source, copy.target, layer.output.known_info)
            return Workload.take(made, origin, "create_copy")
        state = LayerState(layer)
        with backend_call(origin, "create_workload", code=ErrorCode.BACKEND_BROKEN, hint=hint):
            try:
                made = factory.create_workload(layer)
            finally:
                changed = state.restore()
        if changed:  # else the step would read and write other tensors than the layer's
            raise BackendError(
                f"{origin}: create_workload() changed the layer that it was shown",
                code=ErrorCode.BACKEND_CONTRACT,
                hint="a factory reads a layer, it never changes it; tell the backend's vendor",
                method="create_workload",
            )
        return Workload.take(made, origin)

    def _mapping(self, domain: MemoryDomain) -> Any:
        """Return what maps memory of a domain.

        It is its manager, where that maps by itself, or the handles of its arenas.
        """
        if domain == HOST:
            return None
        manager = self._manager(domain)
        return manager if hasattr(manager, "mapping") else self.mapped.setdefault(domain, {})

    def _manager(self, domain: MemoryDomain) -> IMemoryManager:
        if domain not in self.managers:  # the core copies there before the first layer of the backend comes
            for assigned in self.optimized.assignment.values():
                if assigned is not None:
                    self._open(assigned)
        try:
            return self.managers[domain]
        except KeyError:
            raise BackendError(
                f"no backend in use provides memory of {domain}",
                code=ErrorCode.BACKEND_CONTRACT,
                hint="memory_domains() and create_memory_manager() must speak of the same domains",
            ) from None

    def _queue(self, key: BackendKey, origin: str) -> int:
        if key not in self.queue_of:
            opened = self.opened[key]
            with backend_call(origin, "queues"):
                capsule = opened.backend.queues(opened.context)
            self.queues.append((Queues.take(capsule, origin), key.device))
            self.queue_of[key] = len(self.queues) - 1
        return self.queue_of[key]

    def _spec(self, number: int) -> tuple[int, int, tuple[int, ...]] | None:
        info = self.infos[number]
        return None if info is None else (info.dtype.dlpack_code, info.dtype.bits, info.sizes)

    # -- waits -------------------------------------------------------------------------------------

    def _with_waits(self) -> list[Draft]:
        """Insert a wait where a tensor leaves an asynchronous backend.

        At the end there is one per busy queue.
        """
        result: list[Draft] = []
        in_flight: dict[int, list[Draft]] = {}
        members: dict[int, list[Draft]] = {}
        for draft in self.drafts:
            if members:
                waiting = [in_flight[r] for r in draft.reads if r in in_flight]
                needed = {several[0].info.queue for several in waiting if several} - {draft.info.queue}
                for queue in sorted(q for q in needed if q is not None):
                    several = members.pop(queue)
                    result.append(self._wait(queue, several))
                    several.clear()  # what they wrote is in flight no more
            result.append(draft)
            if draft.info.queue is not None:
                several = members.setdefault(draft.info.queue, [])
                several.append(draft)
                in_flight.update(dict.fromkeys(draft.writes, several))
        return result + [self._wait(queue, drafts) for queue, drafts in sorted(members.items())]

    @staticmethod
    def _wait(queue: int, drafts: Sequence[Draft]) -> Draft:
        first, last = drafts[0].info, drafts[-1].info
        name = first.name if len(drafts) == 1 else f"{first.name} ... {last.name}"
        sources = tuple(dict.fromkeys(source for draft in drafts for source in draft.info.sources))
        return Draft(StepInfo(f"wait for {name}", "dovetail.Wait", first.backend, sources, queue), None)

    # -- memory ------------------------------------------------------------------------------------

    def _finish(
        self, drafts: list[Draft], inputs: list[TensorSpec], outputs: list[TensorSpec], fixed: dict[str, Array]
    ) -> Plan:
        stride = {id(d): -(-d.per_worker // memory_plan.ALIGNMENT) * memory_plan.ALIGNMENT for d in drafts}
        shared = {id(d): -(-d.shared // memory_plan.ALIGNMENT) * memory_plan.ALIGNMENT for d in drafts}
        idle = frozenset(number for number, draft in enumerate(drafts) if self._makes_nothing(draft))
        steps = [
            memory_plan.Step(
                reads=draft.reads,
                writes=draft.writes,
                workspace=0 if number in idle else shared[id(draft)] + stride[id(draft)] * self.threads,
                workspace_domain=draft.workspace_domain,
                workspace_alignment=max(memory_plan.ALIGNMENT, self._manager(draft.workspace_domain).alignment),
                aliases=draft.aliases,
                elidable=draft.workload.elidable if draft.workload else False,
                queue=draft.info.queue,
                is_wait=draft.workload is None,
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
        for tensor, output in plan.output_copies:
            infos.append(self._output_copy(tensor, output, len(specs) + 1, outputs[output].name))
            workloads.append(Workload.host_copy())
        out_specs = [self._spec(tensor) for tensor, _ in plan.output_copies]
        targets = [(Storage.OUTPUT, output, 0) for _, output in plan.output_copies]
        # One tensor stands for every input that is left out, then come the targets of the output
        # copies.
        infos = _renumber(infos, plan, missing)
        return Plan(
            inputs=Ports(inputs, fixed),
            outputs=Ports(outputs, {}),
            steps=infos,
            workloads=workloads,
            queues=self.queues,
            memory=PlannedMemory(
                plan,
                self._constant_bytes(),
                sum(i.private_bytes for i in infos),
                tuple(self.names),
                tuple(tensor.nbytes for tensor in self.tensors),
                tuple(placed),
            ),
            arenas=self._allocators(plan),
            constants=self.constants,
            tensors=[*specs, None, *out_specs],
            locations=[*placements, (Storage.ARENA, 0, 0), *targets],
            # One order for the whole process: networks that share two devices must not wait for
            # each other.
            serial_locks=[self.locks[number] for number in sorted(self.locks)],
            pool=self.pool,
            threads=self.threads,
            spare_arenas=self.spare_arenas,
            shared_arena=self._shared_arena(plan),
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
        whole = frozenset(domain for domain, manager in self.managers.items() if not manager.offsets)
        return memory_plan.plan_memory(self.tensors, steps, whole=whole)

    def _shared_arena(self, plan: MemoryPlan) -> tuple[int, int, int] | None:
        """Return (index, bytes, alignment) of the arena in host memory.

        Plans that do not run at once can share one.
        """
        return next(((i, arena.nbytes, arena.alignment) for i, arena in enumerate(plan.arenas) if arena.domain == HOST), None)

    def _allocators(self, plan: MemoryPlan) -> list[Callable[[], ITensorHandle]]:
        return [
            allocator(
                arena, self._manager(arena.domain), self.owners.get(arena.domain, "the core"), self.mapped.get(arena.domain)
            )
            for arena in plan.arenas
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


class PlannedMemory(NamedTuple):
    """What a plan needs in memory.

    Attributes:
        plan: The placement of every tensor.
        constant_bytes: Weights, shared by all runs.
        private_bytes: What the workloads said they hold for themselves.
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
        return f"<PlannedMemory: {self.peak_bytes} bytes a run, {self.constant_bytes} bytes of constants>"

    @property
    def peak_bytes(self) -> int:
        """Bytes that each concurrent run allocates, besides its inputs and outputs."""
        return self.plan.peak_bytes

    @property
    def lower_bound(self) -> int:
        """Bytes that any plan with the same order of steps and aliases needs."""
        return self.plan.lower_bound
