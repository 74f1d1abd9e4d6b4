"""Make allocations fail, in the backend's own memory or in the host's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from dovetail import BackendId, Capabilities, Device, HostResources, Layer, MemoryDomain, Support, TensorDomains, TensorInfo
from dovetail.contract.interfaces import IBackend, IBackendContext, IMemoryManager, ITensorHandle, IWorkloadFactory
from dovetail.contract.memory import HostMemoryManager
from dovetail.contract.subgraph import OptimizationViews, SubgraphView

from .subject import Subject


class Allocations:
    """Counts allocations and lets one of them fail."""

    def __init__(self) -> None:
        self._left: int | None = None

    def fail_at(self, number: int | None) -> None:
        """Let the allocation fail that is `number` (from 0) from now on; None for none."""
        self._left = number

    def count(self) -> None:
        """Tell of an allocation.

        Raises:
            MemoryError: It is to fail.
        """
        if self._left is None:
            return
        self._left -= 1
        if self._left < 0:
            self._left = None
            raise MemoryError("the conformance kit lets this allocation fail")


@contextmanager
def failing_allocations(subject: Subject) -> Iterator[tuple[IBackend, Allocations]]:
    """Lend a backend like the one under test, and a switch that makes its allocations fail."""
    allocations = Allocations()
    original = HostMemoryManager.allocate

    def allocate(self: HostMemoryManager, nbytes: int, alignment: int) -> ITensorHandle:
        allocations.count()
        return original(self, nbytes, alignment)

    with mock.patch.object(HostMemoryManager, "allocate", allocate):
        yield _Stand(subject.backend, allocations), allocations


class _FailingManager(IMemoryManager):
    """Another manager's allocations, counted; everything else is the other's."""

    def __init__(self, manager: IMemoryManager, allocations: Allocations) -> None:
        self._manager = manager
        self._allocations = allocations
        for name in ("domain", "alignment", "pointers", "offsets", "images"):
            setattr(self, name, getattr(manager, name))

    def allocate(self, nbytes: int, alignment: int) -> ITensorHandle:
        self._allocations.count()
        return self._manager.allocate(nbytes, alignment)

    def allocate_image(self, tensor: TensorInfo) -> ITensorHandle:
        self._allocations.count()
        return self._manager.allocate_image(tensor)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)


class _Stand(IBackend):
    """Stands in for a backend: all is passed on, but its memory manager counts."""

    def __init__(self, backend: IBackend, allocations: Allocations) -> None:
        self._backend = backend
        self._allocations = allocations
        for name in ("options_type", "kind_versions"):
            setattr(self, name, getattr(backend, name))

    @property
    def id(self) -> BackendId:
        return self._backend.id

    def supports(self, layer: Layer, options: Any, device: Device) -> Support:
        return self._backend.supports(layer, options, device)

    def create_workload_factory(
        self, context: IBackendContext | None, resources: HostResources, options: Any
    ) -> IWorkloadFactory:
        return self._backend.create_workload_factory(context, resources, options)

    def create_context(self, device: int, resources: HostResources, options: Any) -> IBackendContext | None:
        return self._backend.create_context(device, resources, options)

    def memory_domains(self, device: int) -> Sequence[MemoryDomain]:
        return self._backend.memory_domains(device)

    def tensor_domains(self, layer: Layer, options: Any, device: Device) -> TensorDomains | None:
        return self._backend.tensor_domains(layer, options, device)

    def importable_domains(self, device: int) -> frozenset[MemoryDomain]:
        return self._backend.importable_domains(device)

    def create_memory_manager(self, context: IBackendContext | None, domain: MemoryDomain) -> IMemoryManager | None:
        manager = self._backend.create_memory_manager(context, domain)
        return None if manager is None else _FailingManager(manager, self._allocations)

    def optimize_subgraph(self, view: SubgraphView, options: Any, device: Device) -> OptimizationViews:
        return self._backend.optimize_subgraph(view, options, device)

    def capabilities(self) -> Capabilities:
        return self._backend.capabilities()

    def devices(self) -> Sequence[Device]:
        return self._backend.devices()

    def queues(self, context: IBackendContext | None) -> Any:
        return self._backend.queues(context)
