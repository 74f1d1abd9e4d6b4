"""A backend that runs in processes of its own, as the rest of the core sees it.

What its manifest claims is decided here. Only what its own code must say is asked of a process. A
part is placed there, compiles nothing, and becomes one workload here.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary, ref

from ..contract.backend_id import BackendId
from ..contract.claims import Claims
from ..contract.device import Device
from ..contract.interfaces import Capabilities, HostResources, IBackend, IBackendContext, IWorkloadFactory
from ..contract.private_layer import PrivateLayer
from ..contract.subgraph import OptimizationViews, SubgraphView
from ..contract.support import Support
from ..graph.element_types import DType
from ..graph.layer import Layer
from ..graph.tensor import TensorInfo
from ..ground.errors import BackendError, ErrorCode
from ..ground.foreign_text import described, one_line
from ..ground.records import Record
from .messages import MAX_STEPS, Message
from .parts import FlatPart, flattened_layer, flattened_view, written
from .template import Template, environment_of_processes, look_at_limits, require_system
from .worker import LoadedPart, Remains, SharedFile, Worker, nonsense


class IsolatedOptions(Record, frozen=True):
    """Options as the caller gave them; only the backend's process knows what they mean.

    Attributes:
        given: Values by name, or an instance of the backend's `options_type`.
    """

    given: Any = None


class _Facts(Record, frozen=True):
    """What a backend's own code says of itself, under some options."""

    devices: tuple[Device, ...]
    capabilities: Capabilities
    kind_versions: Mapping[str, int]
    decides: bool
    device: int | None
    reduces: DType | None


class IsolatedBackend(IBackend):
    """Stands for a backend whose code runs elsewhere.

    Args:
        name: Its id.
        manifest: What it says of itself.
        claims: What that claims.
        how: How a process makes it.

    Class attributes:
        is_isolated: For code that does not import this module, as few programs need it.
    """

    is_isolated = True
    options_type = IsolatedOptions

    def __init__(self, name: BackendId, manifest: Mapping[str, Any] | None, claims: Claims | None, how: Message) -> None:
        require_system(str(name))
        self._name = name
        self.manifest, self.claims = manifest, claims
        self._template = Template(str(name), how)
        self._lock = threading.RLock()  # one question at a time, and none while processes are ended
        self._options: dict[str, tuple[int, SharedFile]] = {}
        self._numbers = 0
        self._facts: dict[str, _Facts] = {}
        self._asking: Worker | None = None
        self._environment = environment_of_processes()
        self._ended: deque[Remains] = deque()
        self._users = 0
        _stand_ins.add(self)

    def forget(self) -> None:
        """In a forked child of the host: release the process that the parent uses.

        Networks that were loaded before are the parent's, too; they cannot run here.
        """
        self._lock = threading.RLock()
        if self._asking is not None:
            self._asking.forget()
            self._asking = None
        self._ended.clear()
        self._users = 0

    @property
    def id(self) -> BackendId:
        return self._name

    # -- what its own code says --------------------------------------------------------------------

    def asked(self, message: Message, options: IsolatedOptions, *files: SharedFile) -> Message:
        """Ask a process of the backend something, and return what it replied."""
        while not self._lock.acquire(timeout=0.01):
            look_at_limits()
        try:
            self._bury()
            self._follow_environment()
            if self._asking is None:
                self._asking = Worker(self._template, self._ended, is_of_network=False)
            number, file = self._options_file(options)
            descriptors = [one.descriptor for one in (file, *files)]
            return self._asking.call({**message, "options": number}, descriptors)
        finally:
            self._lock.release()

    def _follow_environment(self) -> None:
        """End the process that is asked, if the host's environment has changed; the lock is held.

        A backend reads variables when it is asked: which driver to open, which devices there are.
        """
        if self._is_as_it_was():
            return
        self._environment = environment_of_processes()
        self._facts.clear()
        if self._asking is not None:
            self._asking.close()
            self._asking = None
            self._bury()

    def _is_as_it_was(self) -> bool:
        """Tell whether the environment is still the one in which the backend was asked."""
        return environment_of_processes() == self._environment

    def _options_file(self, options: IsolatedOptions) -> tuple[int, SharedFile]:
        key = repr(options.given)
        if key not in self._options:
            try:
                file = SharedFile(written(options.given, "dovetail-options"))
            except (pickle.PicklingError, TypeError, AttributeError) as error:
                raise self._not_pickled("its options", error) from error
            self._numbers += 1
            self._options[key] = (self._numbers, file)
        return self._options[key]

    def _not_pickled(self, what: str, error: BaseException) -> BackendError:
        return BackendError(
            f"backend {self._name!s} is isolated, and {what} cannot be sent to its process: {described(error)}",
            code=ErrorCode.BACKEND_CONTRACT,
            hint="what crosses to another process is pickled: define its class at the top of a module",
        )

    def facts(self, options: IsolatedOptions) -> _Facts:
        """Return what its code says of itself, asked once per options and environment."""
        key = repr(options.given)
        if key not in self._facts or not self._is_as_it_was():
            try:
                reply = self.asked({"do": "describe"}, options)
                self._facts[key] = _facts_of(reply)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                self.end_if_idle()
                raise nonsense(f"backend {str(self._name)!r}") from error
            except BaseException:
                self.end_if_idle()
                raise
        return self._facts[key]

    @property
    def kind_versions(self) -> Mapping[str, int]:  # type: ignore[override]  # of a class elsewhere
        return self._any_facts().kind_versions

    def _any_facts(self) -> _Facts:
        """Return what does not depend on options, from whatever was asked first."""
        known = next(iter(self._facts.values()), None) if self._is_as_it_was() else None
        return known or self.facts(IsolatedOptions())

    def devices(self) -> Sequence[Device]:
        return self._any_facts().devices

    def capabilities(self) -> Capabilities:
        return self._any_facts().capabilities

    def device_of(self, options: IsolatedOptions) -> int | None:
        return self.facts(options).device

    def reduces(self, options: IsolatedOptions) -> DType | None:
        return self.facts(options).reduces

    def supports(self, layer: Layer, options: IsolatedOptions, device: Device) -> Support:
        """Decide by the claims; where its code decides, ask it about the layer by itself."""
        if not self.facts(options).decides:
            return super().supports(layer, options, device)
        file = self._file(flattened_layer(layer), f"layer {layer.name!r}")
        reply = self.asked({"do": "supports", "device": device.index}, options, file)
        code, reason, attribute = (reply.get(name) for name in ("code", "reason", "attribute"))
        return Support(
            reply.get("supported") is True,
            code if isinstance(code, str) else "",
            reason if isinstance(reason, str) else "",
            attribute if isinstance(attribute, str) else None,
        )

    def _file(self, part: FlatPart, what: str) -> SharedFile:
        try:
            return SharedFile(written(part, f"dovetail-{self._name}-part"))
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise self._not_pickled(what, error) from error

    # -- placing -----------------------------------------------------------------------------------

    def optimize_subgraph(self, view: SubgraphView, options: IsolatedOptions, device: Device) -> OptimizationViews:
        views = OptimizationViews(view)
        parts = view.convex_parts()
        while parts:
            part = parts.pop(0)
            if not part.outputs:  # nobody reads what it computes
                views.untouched(part)
                continue
            flat = flattened_view(part)
            file = self._file(flat, f"the part of layer {part.layers[0].name!r}")
            reply = self.asked({"do": "place", "device": device.index}, options, file)
            if "words" in reply:
                outputs = tuple(slot.known_info for slot in part.outputs)
                compile = partial(_compiled, file=file, part=flat, outputs=outputs, device=device.index)
                views.compile_whole(part, compile, _words(part, reply["words"]), _steps(reply.get("steps")))
                continue
            refused = _refusals(reply, len(part.layers)) or dict.fromkeys(range(len(part.layers)), _reason(reply))
            for number, reason in refused.items():
                views.failed(part.layers[number], reason)
            left = [layer for number, layer in enumerate(part.layers) if number not in refused]
            if left:
                parts += view.part(left).convex_parts()
        return views

    # -- running -----------------------------------------------------------------------------------

    def create_context(self, device: int, resources: HostResources, options: IsolatedOptions) -> IBackendContext:
        return _Context(self)

    def create_workload_factory(
        self, context: IBackendContext | None, resources: HostResources, options: IsolatedOptions
    ) -> IWorkloadFactory:
        with self._lock:
            number, file = self._options_file(options)
            self._users += 1
        worker = Worker(self._template, self._ended, is_of_network=True)
        if isinstance(context, _Context):
            context.made(worker)
        return _Factory(worker, {"options": number, "threads": resources.threads}, file)

    def _bury(self) -> None:
        """Wait for processes that were killed; the lock is held."""
        while self._ended:
            remains = self._ended.popleft()
            remains.end_process()
            self._users -= remains.is_of_network

    def start_ahead(self) -> None:
        """Begin to start its processes: soon they are needed."""
        self._template.start_ahead()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let its processes live for the block, whatever is loaded and unloaded within."""
        with self._lock:
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
            self.end_if_idle()

    def end_if_idle(self) -> None:
        """End all processes, if no network is loaded; they start again when they are needed."""
        with self._lock:
            self._bury()
            if self._users <= 0:  # less in a forked child, to which what was used before means nothing
                if self._asking is not None:
                    self._asking.close()
                    self._asking = None
                    self._bury()
                self._template.close()
                self._options.clear()


class _Context(IBackendContext):
    """Ends the processes with the last network."""

    def __init__(self, backend: IsolatedBackend) -> None:
        self._backend = backend
        self._loading: dict[int, list[ref[Worker]]] = {}

    def before_load(self, network: str) -> None:
        self._loading[threading.get_ident()] = []

    def made(self, worker: Worker) -> None:
        """Note the process of a network that this thread is loading."""
        self._loading.get(threading.get_ident(), []).append(ref(worker))

    def after_load(self, network: str, error: BaseException | None) -> None:
        made = self._loading.pop(threading.get_ident(), [])
        if error is not None:  # the caller may hold it, and with it all that failed
            for worker in filter(None, [one() for one in made]):
                worker.close()
            self._backend.end_if_idle()

    def after_unload(self, network: str) -> None:
        self._backend.end_if_idle()

    def close(self) -> None:
        self._backend.end_if_idle()


class _Factory(IWorkloadFactory):
    """Has parts of one network loaded in one process."""

    def __init__(self, worker: Worker, message: Message, options: SharedFile) -> None:
        self.worker = worker
        self.message = message
        self.options = options

    def create_workload(self, layer: Layer) -> Any:
        raise BackendError(
            f"layer {layer.name!r} ({layer.kind}) was not placed in a process of its own", code=ErrorCode.BACKEND_CONTRACT
        )

    def release(self, layer: Layer) -> None:
        """Let go of a part's file, which its workload alone needs from now on."""
        if isinstance(layer.descriptor, PrivateLayer):
            layer.descriptor.release()


def _compiled(factory: _Factory, *, file: SharedFile, part: FlatPart, outputs: Sequence[TensorInfo], device: int) -> Any:
    """Have a part compiled by the process of the network that is being loaded."""
    name = part.layers[part.members[0]].name
    question = ({**factory.message, "device": device, "name": name}, factory.options)
    return LoadedPart(factory.worker, file, part, outputs, question).load()


def _facts_of(reply: Message) -> _Facts:
    """Read what a process says of its backend.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: It is not of the form that it should be.
    """
    devices = []
    for index, one in enumerate(reply["devices"]):
        for name, value in one["facts"].items():
            if not isinstance(name, str) or not isinstance(value, str | int | float):
                raise TypeError(name)
        memory, half = one["memory_bytes"], one["half_precision"]
        if not isinstance(memory, int | None) or not isinstance(half, bool | None):
            raise TypeError("memory_bytes or half_precision")
        devices.append(Device(index, str(one["name"]), memory, half, str(one["revision"]), one["facts"]))
    said = {str(name): value is True for name, value in reply["capabilities"].items()}
    known = {name: said.get(name, False) for name in Capabilities._fields if name != "asynchronous"}
    label, device = reply["reduces"], reply["device"]
    reduced = {one.label: one for one in (DType.FLOAT16, DType.BFLOAT16)}
    return _Facts(
        tuple(devices),
        Capabilities(**known),
        {str(name): int(version) for name, version in reply["kind_versions"].items()},
        reply["decides"] is True,
        device if isinstance(device, int) else None,
        None if label is None else reduced[label],
    )


def _words(part: SubgraphView, said: object) -> str:
    counted = "1 layer" if len(part) == 1 else f"{len(part)} layers"
    return f"{one_line(said) if isinstance(said, str) and said else counted}, in a process of its own"


def _steps(said: object) -> list[tuple[str, str]]:
    """Return what a process says of the steps of a part, as far as it is names and words."""
    given = said if isinstance(said, list) else []
    pairs = [one for one in given[:MAX_STEPS] if isinstance(one, list) and len(one) == 2]
    return [(one_line(name), one_line(words)) for name, words in pairs if isinstance(name, str) and isinstance(words, str)]


def _refusals(reply: Message, count: int) -> dict[int, str]:
    """Return the reasons for layers that were given back, by their number in the part."""
    found: dict[int, str] = {}
    refused = reply.get("refused")
    for one in refused if isinstance(refused, list) else ():
        if isinstance(one, list) and len(one) == 2 and isinstance(one[0], int) and 0 <= one[0] < count:
            found[one[0]] = one_line(str(one[1])) or _reason(reply)
    return found


def _reason(reply: Message) -> str:
    reason = reply.get("reason")
    return one_line(reason) if isinstance(reason, str) and reason else "its process gave it back without a reason"


_stand_ins: WeakSet[IsolatedBackend] = WeakSet()


def _forget_all() -> None:
    for stand_in in list(_stand_ins):
        stand_in.forget()


os.register_at_fork(after_in_child=_forget_all)

_of_registries: WeakKeyDictionary[Any, WeakValueDictionary[str, IsolatedBackend]] = WeakKeyDictionary()
_of_objects: WeakKeyDictionary[IBackend, IsolatedBackend] = WeakKeyDictionary()


def isolated(registry: Any, id: BackendId) -> IsolatedBackend:
    """Return the stand-in of a backend of a registry, whose code is not run in this process.

    Raises:
        BackendError: There is no such backend, or it is not admitted, or cannot be sent.
    """
    known = _of_registries.setdefault(registry, WeakValueDictionary())
    found = known.get(str(id))
    if found is None:
        candidate = registry.admitted(id)
        if isinstance(candidate, IBackend):
            return isolated_object(candidate)
        from ..discovery.manifest import claims_of

        claims = claims_of(candidate.manifest, candidate.path, at_once=False)
        found = IsolatedBackend(id, candidate.manifest, claims, {"candidate": candidate.as_json()})
        known[str(id)] = found
    return found


def isolated_object(backend: IBackend) -> IsolatedBackend:
    """Return the stand-in of a backend that is an object of the caller's.

    Raises:
        BackendError: It cannot be pickled (`BACKEND_CONTRACT`).
    """
    if isinstance(backend, IsolatedBackend):
        return backend
    found = _of_objects.get(backend)
    if found is None:
        name = BackendId(backend.id)
        try:
            how = {"pickled": pickle.dumps(backend, protocol=5)}
        except Exception as error:  # whatever its attributes raise
            raise BackendError(
                f"backend {name!s} cannot be isolated: it cannot be pickled: {described(error)}",
                code=ErrorCode.BACKEND_CONTRACT,
                hint="define its class at the top of a module that can be imported",
            ) from error
        found = IsolatedBackend(name, backend.manifest, backend.claims, how)
        _of_objects[backend] = found
    return found
