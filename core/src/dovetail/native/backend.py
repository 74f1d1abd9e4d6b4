"""An `IBackend` made of a table of C functions."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any, NoReturn

from ..contract.artefacts import ArtefactKey, folder_of
from ..contract.backend_id import BackendId
from ..contract.claims import Claims
from ..contract.interfaces import (
    HOST,
    Capabilities,
    Device,
    HostResources,
    IBackend,
    IBackendContext,
    IMemoryManager,
    ITensorHandle,
    IWorkloadFactory,
    MemoryDomain,
    Support,
    TensorDomains,
)
from ..contract.part_facts import part_digests
from ..contract.subgraph import OptimizationViews, SubgraphView
from ..graph.layer import Layer
from ..graph.tensor import TensorInfo
from ..ground.errors import BackendError, BackendUnavailableError, DovetailError, ErrorCode
from ..ground.logs import Log
from ..ground.records import NamedTuple
from . import device_calls, questions
from .compiled_kind import CompiledPart, compiled_kind, words_for
from .device_calls import TableWorkload
from .layer_view import View
from .options import options_type
from .questions import Compiled
from .table import Table, Why

_log = Log("dovetail")

_CANCELLED, _OUT_OF_MEMORY, _FORKED, _LEAVE = -2, -3, -5, 1  # of abi.h
_DEVICE_STATES = {1: "driver_missing", 2: "no_device", 3: "device_busy"}
_ARTEFACT_OK, _ARTEFACT_RECOMPILE, _ARTEFACT_UNUSABLE = range(3)
_VERDICTS = {_ARTEFACT_RECOMPILE: "must be compiled again", _ARTEFACT_UNUSABLE: "is unusable"}
_DETERMINISTIC, _ASYNC, _FLOAT16, _BFLOAT16, _INTEGERS = 1, 2, 4, 8, 16
_HOST_MEMORY = -1


class TableMemory(NamedTuple):
    """What a table says of one of its memories; see `dovetail_memory`."""

    kind: str
    alignment: int
    offsets: bool
    host_visible: bool
    images: bool
    imports_host: bool


def load_backend(
    path: str | os.PathLike[str], *, expected_id: str | None = None, claims: Claims | None = None
) -> NativeBackend:
    """Open a shared library that holds a backend table (`dovetail_backend` in abi.h).

    The library stays in the process for good; its table is closed once nothing of it is in use.

    Args:
        path: The library.
        expected_id: The id that its manifest gives.
        claims: What its manifest claims; None if it claims nothing, so that its `supports` alone
            decides what it takes.

    Raises:
        BackendError: It cannot be opened, was built for another ABI (`ABI_MISMATCH`), or is not
            what it says or must be (`BACKEND_CONTRACT`).
    """
    table = Table.open(path)
    if expected_id is not None and table.id != expected_id:
        table.close()
        raise table.broken(f"says that its id is {table.id!r}; its manifest says {expected_id!r}")
    if claims is None and "supports" not in table.functions:
        table.close()
        raise table.broken("has no supports(), and its manifest claims nothing: it would take no layer")
    return NativeBackend(table, claims)


class NativeBackend(IBackend):
    """Adapter of one table. `load_backend` makes it.

    Attributes:
        path: The library.
        version: Of the backend, as its table says.
        abi: Major and minor of the ABI that it was built for.
    """

    def __init__(self, table: Table, claims: Claims | None = None) -> None:
        self._table = table
        self.claims = claims
        try:
            self._id = BackendId(table.id)
        except BackendError as error:
            raise table.broken(f"has no usable id: {error.message}") from error
        self.path, self.version, self.abi = table.path, table.version, table.abi
        # Instances differ: each table has options and versions of its own.
        self.options_type = options_type(table)  # type: ignore[misc]
        self.kind_versions = questions.kind_versions(table)  # type: ignore[misc]
        self._devices: tuple[Device, ...] = questions.devices(table)
        self._compiled_kind = compiled_kind(table.id)
        self._memories: dict[int, list[TableMemory]] = {}
        self._shown_options: tuple[Any, View] | None = None
        self._shown_device: tuple[Device, View] | None = None
        self._guard = threading.RLock()
        _open.add(self)

    @property
    def id(self) -> BackendId:
        return self._id

    def close(self) -> None:
        """Close the table, now or once nothing of it is in use; idempotent.

        The library stays loaded.
        """
        self._table.close()

    # -- without a device --------------------------------------------------------------------------

    def capabilities(self) -> Capabilities:
        bits = self._table.capabilities
        return Capabilities(*(bool(bits & one) for one in (_DETERMINISTIC, _ASYNC, _FLOAT16, _BFLOAT16, _INTEGERS)))

    def devices(self) -> Sequence[Device]:
        return self._devices

    def supports(self, layer: Layer, options: Any, device: Device) -> Support:
        if self.claims is not None:
            claimed = self.claims.support(layer, device)
            if not claimed.supported or "supports" not in self._table.functions:
                return claimed
        try:
            view = View.of_layer(layer)
        except DovetailError as error:
            if error.code is not ErrorCode.ATTRIBUTE_INVALID:
                raise
            return Support.no("attribute", error.message)
        status, why = questions.supports(self._table, self.shown_device(device), view, self.shown(options))
        if status == 1:
            return Support.yes()
        if status == 0 and why.code and why.text:
            return Support.no(why.code, why.text, why.subject or None)
        if status == 0:
            raise self._table.broken(f"refused layer {layer.name!r} ({layer.kind}) without a code and a text")
        return self.fail("supports", status, why)

    def optimize_subgraph(self, view: SubgraphView, options: Any, device: Device) -> OptimizationViews:
        views = OptimizationViews(view)
        if "compile_subgraph" not in self._table.functions:
            views.untouched(view)
            return views
        for part in view.convex_parts():
            shown = View.of_part(part)
            status, why = questions.claim(self._table, self.shown_device(device), shown, self.shown(options))
            if status == 0:
                digests = part_digests(part) if "artefact_save" in self._table.functions and folder_of(options) else None
                text = why.text or words_for(part)
                views.private_layer(part, self._compiled_kind, shown=shown, digests=digests, text=text)
            elif status == _LEAVE and "create_workload" in self._table.functions:
                views.untouched(part)
            elif status == _LEAVE:
                views.failed(part, "its compiler leaves these layers alone, and it has no workloads of single layers")
            elif why.text:
                views.failed(part, why.text)
            else:
                raise self._table.broken(f"claim_subgraph() answered {status} without a text")
        return views

    def compiled(self, claimed: CompiledPart, resources: HostResources, options: Any, device: Device) -> Compiled:
        """Compile a part that was claimed, or load what an earlier process made of it.

        Raises:
            BackendError: The table could not (`COMPILE_FAILED`).
        """
        key = None if claimed.digests is None else resources.artefacts.key_of(claimed.digests)
        if key is not None:
            loaded = self._from_artefact(resources, key, device)
            if loaded is not None:
                return loaded
        status, why, compiled = questions.compile_part(
            self._table, self.shown_device(device), claimed.shown, resources.threads, self.shown(options)
        )
        if compiled is None:
            if not why.text:
                raise self._table.broken(f"compile_subgraph() answered {status} without a text")
            raise BackendError(
                why.text,
                code=ErrorCode.COMPILE_FAILED,
                hint="the text is the backend's own; allow fallback, or name another backend for these layers",
                reason=why.code,
                subject=why.subject,
                status=status,
            )
        if key is not None:
            saved, reason, content = questions.artefact_save(self._table, compiled)
            if saved == 0:
                resources.artefacts.write(key, content)
            else:
                _log.info("backend %s: what was compiled is not kept: %s", self._id, reason.text or f"code {saved}")
        return compiled

    def extension(self, name: str) -> int:
        """Return the address of a table of the backend's own beyond abi.h, by name; 0 if absent."""
        return questions.extension(self._table, name)

    def _from_artefact(self, resources: HostResources, key: ArtefactKey, device: Device) -> Compiled | None:
        store = resources.artefacts
        content = store.read(key)
        if content is None:
            _log.info("backend %s: no artefact: %s", self._id, store.why_miss(key))
            return None
        path = store.path(key)
        verdict, why = questions.artefact_check(self._table, self.shown_device(device), content)
        if verdict != _ARTEFACT_OK:
            what = _VERDICTS.get(verdict, f"was answered with {verdict}")
            _log.info("backend %s: artefact %s %s: %s", self._id, path, what, why.text or "no reason given")
            return None
        status, why, compiled = questions.artefact_load(self._table, self.shown_device(device), resources.threads, content)
        if compiled is None:
            _log.info("backend %s: artefact %s could not be loaded: %s", self._id, path, why.text or f"code {status}")
            return None
        _log.info("backend %s: artefact %s loaded", self._id, path)
        return compiled

    # -- with a device -----------------------------------------------------------------------------

    def create_context(self, device: int, resources: HostResources, options: Any) -> IBackendContext | None:
        state, why = questions.device_state(self._table, device)
        if state in _DEVICE_STATES:
            self.unavailable(_DEVICE_STATES[state], why)
        if state != 0:
            self.fail("device_state", state, why)
        if "context_open" not in self._table.functions:
            return NativeContext(self._table, 0, device)
        status, why, context = device_calls.context_open(self._table, device, resources.threads, self.shown(options))
        if status != 0:
            if why.code in _DEVICE_STATES.values():
                self.unavailable(why.code, why)
            self.fail("context_open", status, why)
        return NativeContext(self._table, context, device)

    def memory_domains(self, device: int) -> Sequence[MemoryDomain]:
        if "memory" not in self._table.functions:
            return (HOST,)
        return tuple(MemoryDomain(str(self._id), device, one.kind, one.host_visible) for one in self._memory(device))

    def tensor_domains(self, layer: Layer, options: Any, device: Device) -> TensorDomains | None:
        if "memory" not in self._table.functions or "tensor_memory" not in self._table.functions:
            return None
        domains = self.memory_domains(device.index)
        view = None if isinstance(layer.descriptor, CompiledPart) else View.of_layer(layer)

        def domain(info: TensorInfo | None, slot: int, is_output: bool) -> MemoryDomain:
            if info is None:
                return domains[0]
            number = device_calls.tensor_memory(
                self._table, self.shown_device(device), view, View.of_tensor(info), slot, is_output, self.shown(options)
            )
            if not _HOST_MEMORY <= number < len(domains):
                raise self._table.broken(f"tensor_memory() answered {number}; there are {len(domains)} memories")
            return HOST if number == _HOST_MEMORY else domains[number]

        return TensorDomains(
            [domain(info, slot, False) for slot, info in enumerate(layer.input_infos)],
            [domain(info, slot, True) for slot, info in enumerate(layer.output_infos)],
        )

    def importable_domains(self, device: int) -> frozenset[MemoryDomain]:
        has_memory = "memory" in self._table.functions
        return frozenset({HOST}) if has_memory and any(one.imports_host for one in self._memory(device)) else frozenset()

    def create_memory_manager(self, context: IBackendContext | None, domain: MemoryDomain) -> IMemoryManager | None:
        number = self.memory_domains(domain.device).index(domain)
        return NativeMemoryManager(self, self._table, context, domain, number, self._memory(domain.device)[number])

    def _memory(self, device: int) -> list[TableMemory]:
        if device not in self._memories:
            status, why, memories = device_calls.memories(self._table, device)
            if memories is None:
                self.fail("memory", status, why)
            self._memories[device] = [TableMemory(*one) for one in memories]
        return self._memories[device]

    def number_of(self, domain: MemoryDomain) -> int:
        """Return the number that the table gives a memory."""
        return _HOST_MEMORY if domain == HOST else self.memory_domains(domain.device).index(domain)

    def queues(self, context: IBackendContext | None) -> Any:
        if not self._table.capabilities & _ASYNC:
            return None
        status, why, capsule = device_calls.queues(self._table, address(context))
        if capsule is None:
            self.fail("queues", status, why)
        return capsule

    def create_workload_factory(
        self, context: IBackendContext | None, resources: HostResources, options: Any
    ) -> IWorkloadFactory:
        return NativeWorkloadFactory(self, self._table, context, resources, options)

    # -- shared ------------------------------------------------------------------------------------

    def shown(self, options: Any) -> View:
        """Return the C view of options.

        The last one is kept, because every layer asks for the same.
        """
        kept = self._shown_options
        if kept is None or kept[0] is not options:
            kept = (options, View.of_options(options))
            self._shown_options = kept
        return kept[1]

    def shown_device(self, device: Device) -> View:
        """Return the C view of a device; the last one is kept."""
        kept = self._shown_device
        if kept is None or kept[0] is not device:
            kept = (device, View.of_device(device))
            self._shown_device = kept
        return kept[1]

    def fail(self, function: str, status: int, why: Why) -> NoReturn:
        """Raise what a function of the table failed with."""
        if not why.text:
            raise self._table.broken(f"{function}() answered {status} without a text")
        if status == _OUT_OF_MEMORY:
            raise MemoryError(why.text)
        raise BackendError(
            f"{function}() failed: {why.text}",
            code=ErrorCode.FORKED if status == _FORKED else ErrorCode.BACKEND_BROKEN,
            hint="the text is the backend's own; see its documentation",
            reason=why.code,
            subject=why.subject,
            status=status,
        )

    def unavailable(self, state: str, why: Why) -> NoReturn:
        """Raise that the device is not ready."""
        raise BackendUnavailableError(
            f"backend {str(self._id)!r}: {why.text or state.replace('_', ' ')}",
            hint="check the driver and who else uses the device, or name another backend",
            state=state,
            backend=str(self._id),
        )


class NativeContext(IBackendContext):
    """A device of a table in use by one process.

    Attributes:
        address: What `context_open` gave, 0 for a table without it.
        device: Its index.
    """

    def __init__(self, table: Table, address: int, device: int) -> None:
        self.address, self.device = address, device
        self._id, self._pid = table.id, os.getpid() if table.has_device else 0
        self._end: weakref.finalize[..., NativeContext] | None = None
        if "context_open" in table.functions:
            self._end = weakref.finalize(self, table.release_context, address, self._pid)
            self._end.atexit = False

    def check_process(self) -> None:
        """Refuse to be used in a forked child, unless there is no device in truth.

        Raises:
            BackendError: `FORKED`.
        """
        if self._pid and self._pid != os.getpid():
            raise BackendError(
                f"device {self.device} of backend {self._id!r} was opened before fork()",
                code=ErrorCode.FORKED,
                hint="make a new dovetail.Runtime() in the child, or use multiprocessing's 'spawn' method",
            )

    def close(self) -> None:
        if self._end is not None:
            self._end()


def address(context: IBackendContext | None) -> int:
    """Return the table's own context, 0 for none."""
    if not isinstance(context, NativeContext):
        return 0
    context.check_process()
    return context.address


class NativeMemoryManager(IMemoryManager):
    """One memory of a table's device.

    Attributes:
        number: Which of them.
    """

    pointers = False  # they are the table's own word for it

    def __init__(
        self,
        backend: NativeBackend,
        table: Table,
        context: IBackendContext | None,
        domain: MemoryDomain,
        number: int,
        memory: TableMemory,
    ) -> None:
        self.domain, self.number = domain, number
        # Each memory has its own.
        self.alignment, self.offsets, self.images = memory.alignment, memory.offsets, memory.images  # type: ignore[misc]
        self._backend, self._table, self._context = backend, table, context

    @property
    def mapping(self) -> tuple[int, int, int, int, int]:
        """What copies by mapping call, without the GIL."""
        return device_calls.mapping(self._table, address(self._context), self.number)

    def allocate(self, nbytes: int, alignment: int) -> ITensorHandle:
        made = device_calls.memory_allocate(self._table, address(self._context), self.number, nbytes, alignment)
        return self._checked("memory_allocate", nbytes, *made)

    def allocate_image(self, tensor: TensorInfo) -> ITensorHandle:
        made = device_calls.image_allocate(self._table, address(self._context), self.number, View.of_tensor(tensor))
        return self._checked("image_allocate", tensor.nbytes, *made)

    def _checked(self, function: str, nbytes: int, status: int, why: Why, data: int) -> ITensorHandle:
        if status == _OUT_OF_MEMORY:
            raise MemoryError(why.text or f"{nbytes} bytes in {self.domain}")
        if status != 0:
            self._backend.fail(function, status, why)
        return NativeMemory(self._table, self._context, self, data, nbytes)


class NativeMemory(ITensorHandle):
    """One allocation of a table."""

    def __init__(
        self, table: Table, context: IBackendContext | None, manager: NativeMemoryManager, data: int, nbytes: int
    ) -> None:
        self.domain, self.nbytes = manager.domain, nbytes
        self._table, self._context, self._data, self._number = table, context, data, manager.number
        self._pid = os.getpid()
        self._released = False

    @property
    def address(self) -> int:
        return self._data

    def release(self) -> None:
        if not self._released:
            self._released = True
            context = self._context.address if isinstance(self._context, NativeContext) else 0
            self._table.release_memory(context, self._number, self._data, self._pid)


class NativeWorkloadFactory(IWorkloadFactory):
    """Workloads of one network."""

    def __init__(
        self, backend: NativeBackend, table: Table, context: IBackendContext | None, resources: HostResources, options: Any
    ) -> None:
        self._backend, self._table, self._context = backend, table, context
        self._resources, self._options = resources, options
        self._device = backend.devices()[context.device if isinstance(context, NativeContext) else 0]

    def create_workload(self, layer: Layer) -> TableWorkload:
        descriptor = layer.descriptor
        if isinstance(descriptor, CompiledPart):
            compiled = descriptor.compiled_for(self._resources.threads)
            if compiled is None:
                compiled = self._backend.compiled(descriptor, self._resources, self._options, self._device)
                descriptor.keep(compiled, self._resources.threads)
            return self._of_compiled(compiled)
        view = View.of_layer(layer)
        made = device_calls.create_workload(
            self._table, address(self._context), view, self._resources.threads, self._backend.shown(self._options)
        )
        return self._checked("create_workload", *made)

    def create_copy(self, source: MemoryDomain, target: MemoryDomain, info: TensorInfo) -> TableWorkload:
        if any(domain != HOST and domain.owner != str(self._backend.id) for domain in (source, target)):
            raise NotImplementedError(f"no copy from {source} to {target}")
        start, end = self._backend.number_of(source), self._backend.number_of(target)
        made = device_calls.create_copy(self._table, address(self._context), start, end, View.of_tensor(info))
        return self._checked("create_copy", *made)

    def release(self, layer: Layer) -> None:
        if isinstance(layer.descriptor, CompiledPart):
            layer.descriptor.release()

    def _of_compiled(self, compiled: Compiled) -> TableWorkload:
        shown = self._backend.shown(self._options)
        made = device_calls.create_compiled_workload(
            self._table, address(self._context), compiled, self._resources.threads, shown
        )
        return self._checked("create_compiled_workload", *made)

    def _checked(self, function: str, status: int, why: Why, workload: TableWorkload | None) -> TableWorkload:
        if workload is None:
            self._backend.fail(function, status, why)
        return workload


_open: weakref.WeakSet[NativeBackend] = weakref.WeakSet()


@atexit.register
def _close_at_exit() -> None:
    """Close all tables at process end, except those that a network never unloaded still uses."""
    for backend in list(_open):
        backend.close()
