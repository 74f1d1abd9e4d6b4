"""An `IBackend` made of the table that a shared library exports; see 'The backend table' in `abi.h`."""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ..backend_id import BackendId
from ..descriptor import Array, Descriptor, Infos, descriptor_class
from ..errors import BackendError, BackendUnavailableError, ErrorCode
from ..graph import Layer
from ..interfaces import (
    HOST,
    Capabilities,
    IBackend,
    IBackendContext,
    IMemoryManager,
    ITensorHandle,
    IWorkloadFactory,
    MemoryDomain,
    Support,
)
from ..network import Network
from ..progress import report
from ..subgraph import OptimizationViews, SubgraphView
from ..tensor import TensorInfo
from .artefacts import ArtefactFolder
from .attribute_types import AttributeType, option_attributes
from .table import Answer, Compiled, DeviceContext, MemoryFacts, Table
from .views import AttributesView
from .views import SubgraphView as TableView

_LOGGER = logging.getLogger("dovetail.backend")

# Flags and answers of abi.h; a test keeps them equal.
DETERMINISTIC, ASYNC, FLOAT16, BFLOAT16 = 1, 2, 4, 8
COPY_FROM_HOST, COPY_TO_HOST = 0, 1
CANCELLED, OUT_OF_MEMORY = -2, -3
DEVICE_STATES = {1: "driver_missing", 2: "no_device", 3: "device_busy"}
"""States of the registry, by `DOVETAIL_DEVICE_...`; also the codes with which `context_open` may fail."""

ARTEFACTS = "artefacts"
"""The adapter's own option: a folder in which what was compiled is kept."""


def load_backend(path: str | os.PathLike[str], *, expected_id: str | None = None) -> NativeBackend:
    """Open a shared library and make a backend of its table.

    Args:
        path: The library.
        expected_id: Id in its manifest.

    Raises:
        BackendError: The library cannot be loaded, has no table or refuses to open (`BACKEND_BROKEN`), speaks another version
            (`ABI_MISMATCH`), or breaks the contract (`BACKEND_CONTRACT`), as by another id than the manifest's.
    """
    backend = NativeBackend(Table.open(path))
    if expected_id is not None and backend.id != expected_id:
        raise BackendError(
            f"{backend.path} calls itself {str(backend.id)!r}, its manifest {expected_id!r}",
            code=ErrorCode.BACKEND_CONTRACT,
            hint="tell the backend's vendor: manifest and table must name the same id",
            library=backend.path,
        )
    return backend


class CompiledLayer(Descriptor):
    """A private layer: a part of the graph that the backend compiled into one step. Each backend has a kind of its own.

    Attributes:
        digest: What was compiled, as a hash: equal digests compute the same.
    """

    variadic: ClassVar[bool] = True
    required_inputs: ClassVar[int] = 0
    compiled: Compiled
    outputs: tuple[TensorInfo, ...]

    def keep(self, compiled: Compiled, outputs: Sequence[TensorInfo]) -> None:
        """Hold on to the result of a compilation, which is no attribute: it cannot be written down."""
        object.__setattr__(self, "compiled", compiled)
        object.__setattr__(self, "outputs", tuple(outputs))

    @property
    def output_count(self) -> int:
        return len(self.outputs)

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        return self.outputs


def _compiled_kind(backend: BackendId) -> type[CompiledLayer]:
    @descriptor_class
    class Kind(CompiledLayer, kind=f"{backend}.Compiled"):
        digest: str = ""

    Kind.__name__ = Kind.__qualname__ = f"{backend}Compiled"
    return Kind


class NativeContext(IBackendContext):
    """An open device."""

    def __init__(self, device: DeviceContext) -> None:
        self.device = device

    def close(self) -> None:
        self.device.close()


class NativeBackend(IBackend):
    """A backend that is a C table; created by `load_backend`."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._id = BackendId(table.id)
        self.path: str = table.path
        self.version: str = table.version
        self.kind_versions = dict(table.kind_versions())  # type: ignore[misc]  # of this library, so of the instance
        self.options_type = _options_type(table)  # type: ignore[misc]  # as above
        self.compiled_kind = _compiled_kind(self._id)
        self._hints = {field.name: field.type for field in dataclasses.fields(self.options_type)}

    @property
    def id(self) -> BackendId:
        return self._id

    def capabilities(self) -> Capabilities:
        flags = self.table.capabilities
        return Capabilities(
            deterministic=bool(flags & DETERMINISTIC),
            asynchronous=bool(flags & ASYNC),
            float16=bool(flags & FLOAT16),
            bfloat16=bool(flags & BFLOAT16),
        )

    def devices(self) -> Sequence[str]:
        return tuple(self.table.devices())

    # -- placement ------------------------------------------------------------------------------------------------------------

    def supports(self, layer: Layer, options: Any) -> Support:
        if layer.kind == self.compiled_kind.kind:
            return Support.yes()
        status, why = self.table.supports(_view_of(layer), self.option_view(options))
        if status == 1:
            return Support.yes()
        if status < 0:
            raise self._error("supports", status, why)
        if not why.code or not why.text:
            raise self.table.contract(
                f"supports() refused layer {layer.name!r} ({layer.kind}) without a reason",
                "fill in `code` and `text` of the answer, see dovetail_explain in layer_view.h",
            )
        return Support.no(why.code, why.text, why.subject or None)

    def optimize_subgraph(self, view: SubgraphView, options: Any) -> OptimizationViews:
        views = OptimizationViews(view)
        if not self.table.compiles:
            views.untouched(view)
            return views
        inputs, outputs = view.inputs, view.outputs
        status, compiled, why, digest = self._compile(view.layers, inputs, outputs, options)
        if status == 0:
            views.substitute(view, self._replacement(view, compiled, digest))
        elif status > 0 and self.table.runs_layers:
            views.untouched(view)
        elif status > 0:
            views.failed(view, "it was left to create_workload, which the backend does not have")
        elif not why.text:
            raise self.table.contract("compile_subgraph() failed without a reason", "fill in `code` and `text` of the answer")
        else:
            views.failed(view, f"[{why.code}] {why.text}{f' ({why.subject})' if why.subject else ''}")
        return views

    def _replacement(self, view: SubgraphView, compiled: Compiled, digest: str) -> Network:
        network = Network(str(self._id))
        feeds = [
            network.input(f"in{i}", slot.shape, slot.dtype, slot.known_info.quantization) for i, slot in enumerate(view.inputs)
        ]
        descriptor = self.compiled_kind(digest=digest)
        descriptor.keep(compiled, [slot.known_info for slot in view.outputs])
        first, last = view.layers[0].name, view.layers[-1].name
        name = first if len(view) == 1 else f"{first} ... {last}"
        layer = network.add(descriptor, *feeds, name=f"{self._id}: {name}", sources_of=view.sources)
        for i, slot in enumerate(layer.outputs):
            network.output(slot, f"out{i}")
        return network

    def _compile(
        self, layers: Sequence[Layer], inputs: Sequence[Any], outputs: Sequence[Any], options: Any
    ) -> tuple[int, Any, Answer, str]:
        """Compile, or take from the folder of artefacts. Returns status, result, why and the digest."""
        view = TableView(layers, inputs, outputs)
        option_view = self.option_view(options)
        digest = subgraph_digest(f"{self._id} {self.version}", layers, inputs, outputs, self._plain_options(options))
        folder = None
        kept_in: str = getattr(options, ARTEFACTS) if self.table.has_artefacts and options is not None else ""
        if kept_in:
            folder = ArtefactFolder(Path(kept_in), self.table)
            compiled = folder.find(digest)
            if compiled is not None:
                return 0, compiled, Answer("", "", ""), digest

        def told(fraction: float, what: str) -> None:
            report(str(self._id), fraction, what)

        status, compiled, why = self.table.compile(view, option_view, told)
        if compiled is not None and folder is not None:
            folder.keep(digest, compiled)
        return status, compiled, why, digest

    # -- options --------------------------------------------------------------------------------------------------------------

    def _plain_options(self, options: Any) -> dict[str, Any]:
        values = (
            {f.name: getattr(options, f.name) for f in dataclasses.fields(self.options_type)} if options is not None else {}
        )
        values.pop(ARTEFACTS, None)
        return values

    def option_view(self, options: Any) -> AttributesView:
        """Return the options as C sees them."""
        return AttributesView(option_attributes(self._plain_options(options), self._hints))

    # -- a device -------------------------------------------------------------------------------------------------------------

    def create_context(self, device: int, options: Any) -> IBackendContext | None:
        names = self.table.devices()
        if not names or device >= len(names):
            raise BackendUnavailableError(
                f"backend {self._id} has no device {device}; it has {len(names)}: {', '.join(names) or 'none'}",
                hint="name one of its devices, or attach the device",
                backend=str(self._id),
                state="no_device",
            )
        state, why = self.table.device_state(device)
        if state != 0:
            raise self._unavailable(DEVICE_STATES.get(state, "no_device"), device, why)
        status, context, why = self.table.context_open(device, self.option_view(options))
        if status < 0 and why.code in DEVICE_STATES.values():
            raise self._unavailable(why.code, device, why)
        if status < 0:
            raise self._error("context_open", status, why)
        return NativeContext(context)

    def _unavailable(self, state: str, device: int, why: Answer) -> BackendUnavailableError:
        return BackendUnavailableError(
            f"backend {self._id}, device {device}: {why.text or state.replace('_', ' ')}",
            hint={
                "driver_missing": "install the driver of the device",
                "no_device": "attach the device, or name one of the others",
                "device_busy": "wait until whoever uses the device lets go of it, and try again",
            }[state],
            backend=str(self._id),
            state=state,
        )

    def create_workload_factory(
        self, context: IBackendContext | None, memory: IMemoryManager, options: Any
    ) -> IWorkloadFactory:
        return NativeFactory(self, context, options)

    def queues(self, context: IBackendContext | None) -> Any:
        if not self.table.capabilities & ASYNC:
            return None
        status, capsule, why = self.table.queues(_device(context))
        if status < 0:
            raise self._error("queues", status, why)
        return capsule

    # -- memory ---------------------------------------------------------------------------------------------------------------

    def _memory_facts(self, device: int) -> MemoryFacts:
        status, facts, why = self.table.memory(device)
        if facts is None:
            raise self._error("memory", status, why)
        return facts

    def memory_domain(self, device: int) -> MemoryDomain:
        if not self.table.has_memory:
            return HOST
        return MemoryDomain(str(self._id), device, self._memory_facts(device).kind)

    def create_memory_manager(self, context: IBackendContext | None) -> IMemoryManager | None:
        if not self.table.has_memory:
            return None
        device = _device(context)
        return NativeMemory(self, device, self._memory_facts(device.device))

    def _error(self, method: str, status: int, why: Answer) -> BackendError:
        code = ErrorCode.OUT_OF_MEMORY if status == OUT_OF_MEMORY else ErrorCode.BACKEND_BROKEN
        said = f"[{why.code}] {why.text}" if why.text else f"it gave no reason (status {status})"
        return BackendError(
            f"backend {self._id}: {method} failed: {said}",
            code=code,
            hint="the text is the backend's own; its documentation knows more",
            backend=str(self._id),
            phase=method,
            reason=why.code,
        )


class NativeFactory(IWorkloadFactory):
    """Makes the workloads of one network."""

    def __init__(self, backend: NativeBackend, context: IBackendContext | None, options: Any) -> None:
        self.backend = backend
        self.device = _device(context)
        self.options = options

    def create_workload(self, layer: Layer) -> Any:
        backend, table = self.backend, self.backend.table
        view = backend.option_view(self.options)
        descriptor = layer.descriptor
        if isinstance(descriptor, CompiledLayer):
            status, made, why = table.create_compiled_workload(self.device, descriptor.compiled, view)
        elif table.runs_layers:
            status, made, why = table.create_workload(self.device, _view_of(layer), view)
        else:
            return self._compile_alone(layer, view)
        if status < 0:
            raise backend._error("create_workload", status, why)
        return made

    def _compile_alone(self, layer: Layer, view: AttributesView) -> Any:
        """Compile a part of one layer, for a backend that knows nothing smaller."""
        backend = self.backend
        part_inputs = [
            slot.source for i, slot in enumerate(layer.inputs) if slot.source is not None and layer.constant(i) is None
        ]
        inputs = list(dict.fromkeys(part_inputs))
        status, compiled, why, _ = backend._compile([layer], inputs, layer.outputs, self.options)
        if status != 0:
            raise backend._error("compile_subgraph", status, why)
        status, made, why = backend.table.create_compiled_workload(self.device, compiled, view)
        if status < 0:
            raise backend._error("create_compiled_workload", status, why)
        return made

    def create_copy(self, source: MemoryDomain, target: MemoryDomain, info: TensorInfo) -> Any:
        direction = COPY_FROM_HOST if source == HOST else COPY_TO_HOST
        status, made, why = self.backend.table.create_copy(self.device, direction, info)
        if status < 0:
            raise self.backend._error("create_copy", status, why)
        return made


class NativeMemory(IMemoryManager):
    """Arenas in the memory of a device."""

    def __init__(self, backend: NativeBackend, device: DeviceContext, facts: MemoryFacts) -> None:
        self.backend = backend
        self.device = device
        self.domain = MemoryDomain(str(backend.id), device.device, facts.kind)
        self.alignment = facts.alignment  # type: ignore[misc]  # of this memory, so of the instance
        self.host_visible = facts.host_visible  # type: ignore[misc]  # as above
        self.offsets = facts.offsets  # type: ignore[misc]  # as above

    def allocate(self, nbytes: int, alignment: int) -> ITensorHandle:
        status, address, why = self.backend.table.memory_allocate(self.device, nbytes, alignment)
        if status < 0:
            raise MemoryError(why.text or f"{self.domain} does not have {nbytes} bytes")
        return NativeHandle(self, address, nbytes)


class NativeHandle(ITensorHandle):
    """One allocation."""

    def __init__(self, memory: NativeMemory, address: int, nbytes: int) -> None:
        self.memory: NativeMemory | None = memory
        self.domain = memory.domain
        self.nbytes = nbytes
        self._address = address

    @property
    def address(self) -> int:
        return self._address

    def release(self) -> None:
        memory, self.memory = self.memory, None
        if memory is not None:
            memory.backend.table.memory_release(memory.device, self._address)


def _device(context: IBackendContext | None) -> DeviceContext:
    assert isinstance(context, NativeContext)  # the core hands back what create_context made
    return context.device


def _view_of(layer: Layer) -> TableView:
    return TableView([layer])


def _options_type(table: Table) -> type[Any]:
    """Make the dataclass of a table's options."""
    fields: list[Any] = []
    annotations = {
        AttributeType.BOOL: bool,
        AttributeType.INT: int,
        AttributeType.FLOAT: float,
        AttributeType.STRING: str,
        AttributeType.INTS: tuple[int, ...],
        AttributeType.FLOATS: tuple[float, ...],
        AttributeType.STRINGS: tuple[str, ...],
    }
    for name, number, values, _ in table.options():
        kind = AttributeType(number) if number in set(AttributeType) else AttributeType.NONE
        scalar = kind in (AttributeType.BOOL, AttributeType.INT, AttributeType.FLOAT, AttributeType.STRING)
        if kind not in annotations or not name.isidentifier() or name == ARTEFACTS or (scalar and len(values) != 1):
            raise table.contract(
                f"option {name!r} of type {number} cannot be offered",
                "an option is named like a Python variable and is a number, a text, or a list of them",
            )
        value = values[0] if scalar else tuple(values)
        default = bool(value) if kind is AttributeType.BOOL else value
        fields.append((name, annotations[kind], dataclasses.field(default=default)))
    if table.has_artefacts:
        fields.append((ARTEFACTS, str, dataclasses.field(default="")))
    return dataclasses.make_dataclass(f"{table.id}Options", fields, frozen=True)


def subgraph_digest(
    label: str, layers: Sequence[Layer], inputs: Sequence[Any], outputs: Sequence[Any], options: Mapping[str, Any]
) -> str:
    """Hash all that decides what compiling gives: backend, options, kinds, attributes, infos, constants and connections."""
    total = hashlib.sha256()
    numbers: dict[Any, int] = {}

    def add(*things: object) -> None:
        total.update(repr(things).encode("utf-8", "backslashreplace"))

    def slot_text(slot: Any) -> None:
        if slot is None:
            add("none")
            return
        known = slot in numbers
        number = numbers.setdefault(slot, len(numbers))
        add(number, slot.known_info)
        value: Array | None = getattr(slot.layer.descriptor, "value", None) if slot.layer.kind == "dovetail.Constant" else None
        if value is not None and not known:
            total.update(value.tobytes())

    add(label, sorted(options.items()))
    for slot in inputs:
        slot_text(slot)
    for layer in layers:
        add(layer.kind, layer.descriptor.version)
        for name, value in layer.descriptor.attributes().items():
            add(name, (value.dtype.str, value.shape, value.tobytes()) if hasattr(value, "tobytes") else value)
        for source in layer.inputs:
            slot_text(source.source)
        for slot in layer.outputs:
            slot_text(slot)
    for slot in outputs:
        slot_text(slot)
    return total.hexdigest()
