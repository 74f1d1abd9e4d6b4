"""The entry point of GpuAcc."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dovetail import (
    HOST,
    BackendId,
    Capabilities,
    Choices,
    Device,
    DType,
    HostResources,
    IBackend,
    IBackendContext,
    IMemoryManager,
    IWorkloadFactory,
    MemoryDomain,
    OptimizationViews,
    SubgraphView,
)
from dovetail.ground.records import Record

from .refusing import ID, unavailable_without_driver

_ID = BackendId(ID)


TUNING = ("none", "rapid", "normal", "exhaustive")
"""How many ways of computing a layer are offered to be tuned, from none to all."""


class GpuAccOptions(Record, frozen=True):
    """What users may choose.

    Attributes:
        device: Number of the device, or a part of its name, in upper or lower case: the first whose
            name has it. Empty: the one of the request, such as ``GpuAcc:1``.
        fast_math: Whether results may be less exact for speed: Winograd's convolutions of larger
            squares, sums in halves of products of halves, and what the compiler makes of relaxed
            rules; see README.md for bounds of the error.
        precision: "float32", or "float16": float32 layers are converted, so that tensors between
            them, and constants, are halves.
        tuning: What is offered to `dovetail tune`, and taken of what it found: "none", "rapid",
            "normal" or "exhaustive".
        artefacts: Folder in which built programs are kept; empty: none.
        fail_at: Of the commands of a queue, the one that fails late, as if the device had been
            lost; -1: none. For tests.
    """

    device: int | str = ""
    fast_math: bool = False
    precision: str = "float32"
    tuning: str = "normal"
    artefacts: str = ""
    fail_at: int = -1

    def __post_init__(self) -> None:
        for name, known in (("precision", ("float32", "float16")), ("tuning", TUNING)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected one of {', '.join(known)}")


class GpuAccBackend(IBackend):
    """Runs layers on a device that has an OpenCL 1.2 driver."""

    options_type = GpuAccOptions

    def __init__(self) -> None:
        from .devices import all_facts

        with unavailable_without_driver():
            all_facts()

    @property
    def id(self) -> BackendId:
        return _ID

    def devices(self) -> Sequence[Device]:
        from .devices import all_facts, described

        return tuple(described(index, facts) for index, facts in enumerate(all_facts()))

    def device_of(self, options: GpuAccOptions) -> int | None:
        from .devices import number_of

        return number_of(options.device)

    def reduces(self, options: GpuAccOptions) -> DType | None:
        return DType.FLOAT16 if options.precision == "float16" else None

    def create_context(self, device: int, resources: HostResources, options: GpuAccOptions) -> IBackendContext:
        from .context import ClContext

        with unavailable_without_driver():
            return ClContext(device, resources, options)

    def memory_domains(self, device: int) -> tuple[MemoryDomain, ...]:
        from .memory import domain_of

        return (domain_of(device),)

    def importable_domains(self, device: int) -> frozenset[MemoryDomain]:
        from .devices import all_facts

        return frozenset({HOST}) if all_facts()[device]["is_unified"] else frozenset()

    def create_memory_manager(self, context: Any, domain: MemoryDomain) -> IMemoryManager:
        from .memory import ClMemory

        with unavailable_without_driver():
            return ClMemory(context.device, domain)

    def create_workload_factory(self, context: Any, resources: HostResources, options: GpuAccOptions) -> IWorkloadFactory:
        from .factory import ClFactory

        with unavailable_without_driver():
            return ClFactory(context)

    def optimize_subgraph(self, view: SubgraphView, options: GpuAccOptions, device: Device) -> OptimizationViews:
        from .fusion.finding import fuse

        views = OptimizationViews(view)
        is_cpu, width = device.facts["kind"] == "cpu", int(device.facts["vector_width"])
        replaced = fuse(view, views, width if is_cpu else 0)
        if len(replaced) < len(view):
            views.untouched([layer for layer in view.layers if layer not in replaced])
        return views

    def choices(self, view: SubgraphView, options: GpuAccOptions, device: Device) -> Choices:
        from .choosing import choices_of
        from .devices import all_facts

        return choices_of(view, all_facts()[device.index], options.tuning, fast_math=options.fast_math)

    def queues(self, context: Any) -> Any:
        from .driver.workloads import queues

        with unavailable_without_driver():
            return queues(context.device, context.fail_at)

    def capabilities(self) -> Capabilities:
        return Capabilities(deterministic=True, asynchronous=True, float16=True, integers=True)
