"""Level 1: every method answers as `dovetail.contract.interfaces` says."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from dovetail import (
    HOST,
    Descriptor,
    DovetailError,
    DType,
    HostResources,
    Layer,
    MemoryDomain,
    Network,
    Support,
    TensorInfo,
    optimize,
)
from dovetail.contract.artefacts import ArtefactStore
from dovetail.contract.interfaces import IBackendContext, IMemoryManager, ITensorHandle, IWorkloadFactory
from dovetail.contract.private_layer import make_workload
from dovetail.graph.descriptor import Infos
from dovetail.graph.graph import Graph
from dovetail.optimizer.assignment import is_workload
from dovetail.runtime.workload import Queues, Workload

from ..catalogue import all_operators
from ..checks import check
from ..endings import ConformanceFailure, NotApplicable
from ..samples import accepted, trials_of
from ..subject import Subject, described
from ..trials import Batch, Trial

_SUPPORTS_SECONDS = 600.0
_TOO_MUCH = 1 << 60


@dataclass(frozen=True, kw_only=True)
class _Stranger(Descriptor, kind="conformance.Stranger"):
    """A kind that no backend can know."""

    strength: float = 1.0

    def infer(self, inputs: Infos) -> list[TensorInfo]:
        info = inputs[0]
        assert info is not None  # the input is required
        return [info]


@check(level=1, title="refuses a kind that it cannot know")
def refuses_strange_kinds(subject: Subject) -> None:
    """Ask about a kind that was made up for this check.

    Troubleshooting: Decide by `layer.kind`, and refuse every kind that you do not list: new ones
    will come.
    """
    for dtype in DType:
        network = Network("stranger")
        x = network.input("x", (2, 3), dtype)
        layer = network.add(_Stranger(), x)
        network.output(layer.output, "y")
        answer = subject.ask(layer)
        if answer.supported:
            raise ConformanceFailure(f"it accepts {described(layer)}, a kind that was made up for this check")


@check(level=1, title="answers about every layer, with a reason where it refuses", seconds=_SUPPORTS_SECONDS)
def supports_answers(subject: Subject) -> None:
    """Ask about layers of every kind and type, about scalars, empty tensors and many dimensions.

    Troubleshooting: `supports` must never raise, and a refusal needs a code (one word) and a reason
    (a sentence). Look up attributes with `getattr` and shapes by rank before you index them.
    """
    asked = 0
    for layer in _odd_layers():
        subject.ask(layer)
        asked += 1
    for operator in all_operators(subject.settings.operators).values():
        subject.step(f"asking about {operator.kind}")
        subject.require_time(f"{operator.kind} and the kinds after it")
        asked += sum(1 for _ in trials_of(subject, operator, 6))
    subject.note(f"asked about {asked} layers")


@check(level=1, title="answers the same for the same layer", seconds=_SUPPORTS_SECONDS)
def supports_is_deterministic(subject: Subject) -> None:
    """Ask about the same layers in two orders, the second time in networks built anew.

    Troubleshooting: `supports` must look at the layer and the options only: not at a counter, the
    time, what was asked before, the identity of objects or the order of a set.
    """
    first = [(described(layer), subject.ask(layer)) for layer in _odd_layers()]
    second = [(described(layer), subject.ask(layer)) for layer in reversed(list(_odd_layers()))]
    _require_same(first, second[::-1])
    for operator in all_operators(subject.settings.operators).values():
        subject.step(f"asking twice about {operator.kind}")
        subject.require_time(f"{operator.kind} and the kinds after it")
        trials = list(trials_of(subject, operator, 2))
        _require_same(
            [(trial.described, trial.support) for trial in trials],
            [(trial.described, trial.support) for trial in trials_of(subject, operator, 2)],
        )
        forward = [(trial.described, subject.ask(trial.layer)) for trial in trials]
        backward = [(trial.described, subject.ask(trial.layer)) for trial in reversed(trials)]
        _require_same(forward, backward[::-1])


def _require_same(first: list[tuple[str, Support]], second: list[tuple[str, Support]]) -> None:
    for (what, one), (_, other) in zip(first, second, strict=True):
        if one != other:
            raise ConformanceFailure(f"supports() said {_said(one)} of {what}, and then, of the same layer, {_said(other)}")


def _said(answer: Support) -> str:
    return "yes" if answer.supported else f"no ([{answer.code}] {answer.reason})"


def _odd_layers() -> Iterator[Layer]:
    """Yield layers with few or no elements, with many dimensions, and in every element type."""
    for shape in ((), (0,), (1,), (3, 0, 2), (1, 2, 1, 2, 1, 2, 1, 2)):
        for dtype in DType:
            network = Network("odd")
            x = network.input("x", shape, dtype)
            slots = [network.reshape(x, (-1,)) if x.known_info.elements else x]
            if dtype is not DType.BOOL:
                slots.append(network.addition(x, x))
            if dtype.is_float:
                slots += [network.relu(x), network.unary(x, "exp")]
            if len(shape) == 8:
                slots.append(network.concat([x, x], axis=-1))
            for number, slot in enumerate(slots):
                network.output(slot, f"y{number}")
            yield from (layer for layer in network.topological_order() if is_workload(layer))


@check(level=1, title="says where its tensors live")
def memory_domains_are_valid(subject: Subject) -> None:
    """Ask for the memory domains and those that can be imported, for each device.

    Troubleshooting: Return `dovetail.HOST` for plain memory, or `MemoryDomain`s whose owner is the
    backend's id, each once.
    """
    for device in range(len(subject.backend.devices())):
        domains = tuple(subject.backend.memory_domains(device))
        if not domains or len(set(domains)) != len(domains) or domains != tuple(subject.backend.memory_domains(device)):
            raise ConformanceFailure(f"memory_domains({device}) is {domains!r}; expected one or more, always the same")
        for domain in domains:
            if not isinstance(domain, MemoryDomain):
                raise ConformanceFailure(f"memory_domains({device}) lists {domain!r}, which is no MemoryDomain")
            if domain != HOST and domain.owner != subject.id:
                raise ConformanceFailure(
                    f"{domain} of device {device} is of {domain.owner!r}; expected 'host' or {subject.id!r}"
                )
        imported = subject.backend.importable_domains(device)
        if not isinstance(imported, frozenset) or not all(isinstance(one, MemoryDomain) for one in imported):
            raise ConformanceFailure(f"importable_domains({device}) is {imported!r}, not a frozenset of MemoryDomain")


@check(level=1, title="opens and closes its device")
def context_opens_and_closes(subject: Subject) -> None:
    """Create, use and close a context, twice.

    Troubleshooting: `create_context` returns an `IBackendContext` or None, and what cannot be
    opened raises a `BackendUnavailableError` with the state. After `close` the device can be opened
    again.
    """
    for _ in range(2):
        context = _context(subject)
        if context is not None:
            for hook, arguments in (
                (context.before_load, ("network",)),
                (context.after_load, ("network", None)),
                (context.before_unload, ("network",)),
                (context.after_unload, ("network",)),
                (context.close, ()),
            ):
                if hook(*arguments) is not None:
                    raise ConformanceFailure(f"{hook.__qualname__}() returned something; it is told, not asked")


def lent_to(subject: Subject) -> HostResources:
    """Return what a check lends a backend, as no runtime does: two threads, no artefact folder."""
    return HostResources(2, ArtefactStore(subject.id, "", dict))


def _context(subject: Subject) -> IBackendContext | None:
    context = subject.backend.create_context(subject.target.device, lent_to(subject), subject.built_options)
    if context is not None and not isinstance(context, IBackendContext):
        raise ConformanceFailure(f"create_context() returned {context!r}, not an IBackendContext")
    return context


@check(level=1, title="hands out memory and takes it back")
def memory_is_handed_out(subject: Subject) -> None:
    """Allocate nothing, little, much and too much in each memory; write to what the host sees.

    Troubleshooting: `allocate` returns an `ITensorHandle` of at least that size at an address of at
    least that alignment, or raises MemoryError, nothing else. `release` is called once per handle.
    `map` returns a pointer to the bytes, which hold what was written to them when they are mapped
    again.
    """
    context = _context(subject)
    try:
        domains = [domain for domain in subject.backend.memory_domains(subject.target.device) if domain != HOST]
        if not domains:
            raise NotApplicable("its memory is the core's own")
        for domain in domains:
            manager = subject.backend.create_memory_manager(context, domain)
            if not isinstance(manager, IMemoryManager):
                raise ConformanceFailure(f"create_memory_manager({domain}) returned {manager!r}, not an IMemoryManager")
            alignment = manager.alignment
            if alignment < 1 or alignment & (alignment - 1):
                raise ConformanceFailure(f"its alignment is {alignment}, not a power of two")
            if manager.domain != domain:
                raise ConformanceFailure(f"its memory manager is of {manager.domain}, its tensors of {domain}")
            if manager.images:  # which of them it can make only its layers know: networks show it
                continue
            for nbytes in (1, 64, 4095, 1 << 20):
                _use(manager, nbytes)
            _ask_for_too_much(manager)
            _use(manager, 64)
    finally:
        if context is not None:
            context.close()


def _use(manager: IMemoryManager, nbytes: int) -> None:
    handles = [manager.allocate(nbytes, manager.alignment) for _ in range(3)]
    try:
        for handle in handles:
            if not isinstance(handle, ITensorHandle):
                raise ConformanceFailure(f"allocate({nbytes}) returned {handle!r}, not an ITensorHandle")
            if handle.nbytes < nbytes or handle.domain != manager.domain:
                raise ConformanceFailure(f"allocate({nbytes}) returned {handle.nbytes} bytes in {handle.domain}")
            if manager.pointers and handle.address % manager.alignment:
                raise ConformanceFailure(
                    f"allocate({nbytes}) returned {handle.address:#x}, not a multiple of {manager.alignment}"
                )
        if len({handle.address for handle in handles}) != len(handles):
            raise ConformanceFailure(f"allocate({nbytes}) returned one address twice: {[hex(h.address) for h in handles]}")
        if manager.domain.host_visible and not hasattr(manager, "mapping"):  # behind a table copies map, see level 3
            for number, handle in enumerate(handles):
                ctypes.memset(handle.map(0, nbytes, writes=True), number + 1, nbytes)
                handle.unmap()
            for number, handle in enumerate(handles):
                if ctypes.string_at(handle.map(0, nbytes, writes=False), nbytes) != bytes([number + 1]) * nbytes:
                    raise ConformanceFailure(f"two allocations of {nbytes} bytes overlap")
                handle.unmap()
    finally:
        for handle in handles:
            handle.release()


def _ask_for_too_much(manager: IMemoryManager) -> None:
    try:
        handle = manager.allocate(_TOO_MUCH, manager.alignment)
    except MemoryError:
        return
    except Exception as error:
        raise ConformanceFailure(
            f"allocate({_TOO_MUCH}) raised {type(error).__name__}: {error}; expected MemoryError, which the core knows"
        ) from error
    handle.release()
    raise ConformanceFailure(f"allocate({_TOO_MUCH}) returned a handle; expected MemoryError: no machine has that much")


@check(level=1, title="has queues if it is asynchronous, and only then")
def queues_fit_capabilities(subject: Subject) -> None:
    """Take the queues of a context as the runtime does.

    Troubleshooting: An asynchronous backend returns a fresh capsule `dovetail.queues.v0` from each
    call of `queues`; a synchronous one returns None.
    """
    context = _context(subject)
    try:
        capsule = subject.backend.queues(context)
        asynchronous = subject.backend.capabilities().asynchronous
        if capsule is None and asynchronous:
            raise ConformanceFailure("it is asynchronous by its capabilities, but queues() returned None")
        if capsule is not None:
            if not asynchronous:
                raise ConformanceFailure("queues() returned something, but its capabilities do not say asynchronous")
            Queues.take(capsule, f"backend {subject.id!r}")
    finally:
        if context is not None:
            context.close()


@check(level=1, title="makes a workload of its own for every request")
def workloads_are_fresh(subject: Subject) -> None:
    """Ask the factory twice for the workload of one layer, and take both as the runtime does.

    Troubleshooting: Return a new workload from each `create_workload`: each plan owns and releases
    its own. A capsule that was handed over once is renamed, so that a cached one cannot be taken
    again.
    """
    context = _context(subject)
    try:
        resources = lent_to(subject)
        factories = [subject.backend.create_workload_factory(context, resources, subject.built_options) for _ in range(2)]
        if not all(isinstance(factory, IWorkloadFactory) for factory in factories):
            raise ConformanceFailure(f"create_workload_factory() returned {factories[0]!r}, not an IWorkloadFactory")
        for trial, layer in _as_run(subject, accepted(subject, 12)):
            made = [make_workload(factories[0], layer), make_workload(factories[0], layer)]
            made.append(make_workload(factories[1], layer))
            if len({id(one) for one in made}) != len(made):
                raise ConformanceFailure(f"create_workload() returned the same workload twice for {trial.described}")
            try:
                taken = [Workload.take(one, f"backend {subject.id!r}") for one in made]
            except DovetailError as error:
                raise ConformanceFailure(f"its workload of {trial.described} cannot be taken: {error}") from error
            del taken
    finally:
        if context is not None:
            context.close()


def _as_run(subject: Subject, trials: Iterable[Trial]) -> Iterator[tuple[Trial, Layer]]:
    """Give each layer as a network runs it: private where the backend takes it as a part.

    Its own code takes it, not a process that its manifest asks for: the factory is its own, too.
    """
    options = {subject.id: subject.options} if subject.options else None
    for trial in trials:
        optimized = optimize(Batch([trial]).network, [subject.target.asked_for], options=options, passes=False, isolate=())
        for name in optimized.partition_of:
            yield trial, optimized.graph.layer(name)


@check(level=1, title="keeps what it accepted, and leaves the caller's network alone")
def placement_names_it(subject: Subject) -> None:
    """Optimize a network of layers that it takes, and look at the placement.

    Troubleshooting: What `optimize_subgraph` gives back as failed is lost to other backends; it
    must keep, replace or delete what `supports` accepted, or refuse it there.
    """
    batch = Batch(accepted(subject, 6))
    before = _shape_of(batch.network)
    optimized = optimize(
        batch.network, [subject.target.asked_for], options={subject.id: subject.options} if subject.options else None
    )
    if _shape_of(batch.network) != before:
        raise ConformanceFailure("optimizing changed the caller's network: constants and descriptors are shared, never written")
    strays = [row.name for row in optimized.placement.layers if row.backend not in (None, subject.id)]
    if strays:
        raise ConformanceFailure(f"layers {', '.join(strays)} are placed elsewhere")


def _shape_of(network: Graph) -> list[tuple[str, str, bytes]]:
    return [
        (layer.name, layer.kind, np.ascontiguousarray(getattr(layer.descriptor, "value", ())).tobytes())
        for layer in network.layers
    ]
