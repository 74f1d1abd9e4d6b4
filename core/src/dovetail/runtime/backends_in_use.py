"""The backends of one plan, and what they make for it: workloads, memory managers, queues."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..contract.backend_calls import backend_call, checked
from ..contract.backend_id import BackendId
from ..contract.interfaces import HOST, IBackend, IBackendContext, IMemoryManager, ITensorHandle, IWorkloadFactory, MemoryDomain
from ..contract.memory import HostMemoryManager
from ..contract.private_layer import make_workload
from ..graph.descriptor import Array
from ..graph.layer import Layer
from ..graph.layer_state import LayerState
from ..ground.errors import BackendError, ErrorCode
from ..ground.host_exceptions import is_of_host
from ..ground.records import NamedTuple, Record
from ..optimizer.copies import own_domains
from ..optimizer.core_kinds import MemoryCopy
from .arenas import sound_manager
from .backend_resources import resources_for
from .workload import Queues, Workload

if TYPE_CHECKING:
    from ..optimizer.optimized import OptimizedNetwork

_GIVES_BACK = frozenset({ErrorCode.COMPILE_FAILED, ErrorCode.BACKEND_BROKEN, ErrorCode.ISOLATED_PROCESS_DIED})
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


class _Tap:
    """The workload of a `Debug` layer: hands its tensor on, and shows it."""

    def __init__(self, descriptor: Any, show: Callable[[str, int, Array], None]) -> None:
        self.descriptor = descriptor
        self.show = show

    def execute(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        outputs[0][...] = inputs[0]
        self.show(self.descriptor.layer, self.descriptor.index, inputs[0])


class BackendsInUse:
    """What the backends of one plan make for it.

    Args:
        optimized: What is planned; None if that was done before.
        opened: The backends in use.
        factories: Of the network; those that are missing are added.
        threads: How many threads a run may use.

    Attributes:
        owners: Who provides memory of a domain, in words.
        mapped: The handles by address, of domains whose memory is mapped handle by handle.
        queues: (queues, device) by number.
    """

    def __init__(
        self,
        optimized: OptimizedNetwork | None,
        opened: Mapping[BackendKey, OpenBackend],
        factories: dict[BackendKey, Factory],
        threads: int,
    ) -> None:
        self._optimized = optimized
        self.opened = opened
        self.factories = factories
        self.threads = threads
        self.managers: dict[MemoryDomain, IMemoryManager] = {HOST: HostMemoryManager()}
        self.owners: dict[MemoryDomain, str] = {}
        self.mapped: dict[MemoryDomain, dict[int, ITensorHandle]] = {}
        self.queues: list[tuple[Queues, int]] = []
        self.queue_of: dict[BackendKey, int] = {}

    @property
    def optimized(self) -> OptimizedNetwork:
        """What is planned."""
        assert self._optimized is not None  # nobody asks where that was done before
        return self._optimized

    def open(self, assigned: Any) -> BackendKey:
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

    def expect(self, layers: Sequence[Layer], key: BackendKey) -> None:
        """Tell a backend which layers come, if it wants to know."""
        factory = self.factories[key].workloads
        if type(factory).expect is not IWorkloadFactory.expect:
            with backend_call(f"backend {str(key.id)!r}", "expect"):
                factory.expect(tuple(layers))

    def workload(self, layer: Layer, key: BackendKey, origin: str) -> Workload:
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
        code = ErrorCode.BACKEND_BROKEN
        hint = "a layer that cannot be run must be refused by supports(); this is a bug of the backend"
        if layer.name in self.optimized.private:  # which the backend made, so that this is where it is compiled
            code, hint = ErrorCode.COMPILE_FAILED, "name another backend behind it, or tell the backend's vendor"
        if layer.kind == "dovetail.MemoryCopy":
            copy: Any = layer.descriptor
            with backend_call(origin, "create_copy"):
                made = factory.create_copy(copy.source, copy.target, layer.output.known_info)
            return Workload.take(made, origin, "create_copy")
        state = LayerState(layer)
        with backend_call(origin, "create_workload", code=code, hint=hint):
            try:
                made = make_workload(factory, layer)
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

    def restored(self, key: BackendKey, kept: memoryview | Layer) -> Any:
        """Return a workload that a backend wrote down, or makes again of a layer.

        Raises:
            BackendError: It cannot.
        """
        factory, origin = self.factories[key].workloads, f"backend {str(key.id)!r}"
        if isinstance(kept, Layer):
            with backend_call(origin, "create_workload"):
                return make_workload(factory, kept)
        with backend_call(origin, "restore_workload"):
            return factory.restore_workload(kept)

    def mapping(self, domain: MemoryDomain) -> Any:
        """Return what maps memory of a domain.

        It is its manager, where that maps by itself, or the handles of its arenas.
        """
        if domain == HOST:
            return None
        manager = self.manager(domain)
        return manager if hasattr(manager, "mapping") else self.mapped.setdefault(domain, {})

    def manager(self, domain: MemoryDomain) -> IMemoryManager:
        if domain not in self.managers:  # the core copies there before the first layer of the backend comes
            for assigned in self.optimized.assignment.values():
                if assigned is not None:
                    self.open(assigned)
        try:
            return self.managers[domain]
        except KeyError:
            raise BackendError(
                f"no backend in use provides memory of {domain}",
                code=ErrorCode.BACKEND_CONTRACT,
                hint="memory_domains() and create_memory_manager() must speak of the same domains",
            ) from None

    def queue(self, key: BackendKey, origin: str) -> int:
        if key not in self.queue_of:
            opened = self.opened[key]
            with backend_call(origin, "queues"):
                capsule = opened.backend.queues(opened.context)
            self.queues.append((Queues.take(capsule, origin), key.device))
            self.queue_of[key] = len(self.queues) - 1
        return self.queue_of[key]

    def core_workload(self, layer: Layer) -> Workload:
        """Make the workload of a layer that the core runs: `Debug`, or a copy visible to the host.

        Only the optimized network knows the callback of `Debug`.
        """
        if isinstance(layer.descriptor, MemoryCopy):
            return Workload.mapped_copy(*(self.mapping(one) for one in (layer.descriptor.source, layer.descriptor.target)))
        if layer.kind != "dovetail.Debug" or self.optimized.debug is None:
            return Workload.host_copy()
        return Workload.take(_Tap(layer.descriptor, self.optimized.debug), f"layer {layer.name!r}")

    def release(self, layer: Layer, key: BackendKey, origin: str) -> bool:
        """Tell a backend that nobody else reads a layer; False if it does not want to know."""
        factory = self.factories[key].workloads
        if type(factory).release is IWorkloadFactory.release:
            return False
        with backend_call(origin, "release"):
            factory.release(layer)
        return True
