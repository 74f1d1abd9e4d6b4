"""Serve a backend's networks in a process of its own, one request after the other.

The process waits in C for a request in shared memory. It runs a part whose tensors lie there, or
looks at its socket: place a part, load one, answer a question. `isolation/worker.py` is the other
end.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from ..contract.backend_calls import devices_of
from ..contract.backend_id import BackendId
from ..contract.interfaces import Device, IBackend
from ..graph.tensor import TensorInfo
from ..ground.errors import DovetailError, ErrorCode, PlacementError, RunTimeoutError
from ..isolation.channel import (
    CANCELLED,
    CHANNEL_BYTES,
    FAILED,
    MAX_SPANS,
    OK,
    OUT_OF_MEMORY,
    TEXT_BYTES,
    ServingEnd,
    SharedBytes,
)
from ..isolation.messages import MAX_STEPS, EndedError, Message, described_error, receive, send
from ..isolation.parts import FlatPart, input_infos, network_of, placed, read
from ..optimizer import CompileRequest, build_options, optimize
from ..runtime import LoadedNetwork, Runtime
from ..runtime.profiled_run import Span, joined

_TRACE = 6000
"""Characters of a traceback in the answer to a run: quotes and escapes take their room in it."""


class _StopRunError(Exception):
    """The host wants a run to end."""


class _Loaded(NamedTuple):
    """A part that is loaded, and bound to the shared memory."""

    network: LoadedNetwork
    binding: Any
    arrays: Sequence[Any]


class _OneBackend:
    """A registry of the one backend of this process."""

    def __init__(self, backend: IBackend) -> None:
        self._backend = backend

    def get(self, id: BackendId) -> IBackend:
        return self._backend

    def default_preferences(self) -> Sequence[BackendId]:
        return (self._backend.id,)

    def device_failed(self, backend: IBackend, error: Any) -> None:
        """Hear nothing: the host is told by the error itself."""

    def device_opened(self, backend: IBackend) -> None:
        """Hear nothing: the host opens its own context."""


def serve(connection: socket.socket, channel: int, backend: Any) -> None:
    """Serve until the host ends this process.

    Args:
        connection: To the host.
        channel: Descriptor of the shared memory.
        backend: Makes the backend, if the template did not.
    """
    end = ServingEnd(SharedBytes(channel, CHANNEL_BYTES, True))
    os.close(channel)
    worker = _Worker(connection, end, backend)
    signal.signal(signal.SIGINT, worker.stop)
    while True:
        number, deadline = end.next()
        if number >= 0:
            worker.run(number, deadline)
        elif not worker.look():
            return


class _Worker:
    def __init__(self, connection: socket.socket, end: ServingEnd, backend: Any) -> None:
        self._connection = connection
        self._end = end
        self._maker = backend
        self._options: dict[int, Any] = {}
        self._loaded: dict[int, _Loaded] = {}
        self._runtimes: dict[int, Runtime] = {}
        self._is_running = False

    # -- runs --------------------------------------------------------------------------------------

    def stop(self, number: int, frame: FrameType | None) -> None:
        """End the run in progress, if that is the one that the host wants to end."""
        if self._is_running and self._end.is_stopped:
            self._is_running = False
            raise _StopRunError

    def run(self, number: int, deadline: int) -> None:
        """Run a part and answer."""
        status, text = OK, b""
        try:
            self._is_running = True
            timeout = None if deadline == 0 else max((deadline - time.monotonic_ns()) / 1e9, 1e-6)
            if self._end.is_profiled:
                self._run_profiled(self._loaded[number], timeout)
            else:
                self._loaded[number].binding.run(timeout=timeout)
            self._is_running = False
        except (_StopRunError, RunTimeoutError):
            status = CANCELLED
        except BaseException as error:  # whatever the backend raised, the host tells of it
            status, text = self._failure(error)
        self._is_running = False
        self._end.answer(status, text)

    def _run_profiled(self, loaded: _Loaded, timeout: float | None) -> None:
        """Run a part, and have the host know when its devices worked."""
        with loaded.network.profiling() as profile:
            loaded.binding.run(timeout=timeout)
        spans: list[Span] = []
        for run in profile.each_run:
            several = len({span.step for span in run.spans}) > 1
            for span in run.spans:
                step = run.steps[span.step].name
                name = f"{step}: {span.name}" if several and span.name else span.name or (step if several else "")
                spans.append(span._replace(name=name))
        self._end.tell([(span.name, span.begin, span.end) for span in joined(spans, MAX_SPANS)])

    @staticmethod
    def _failure(error: BaseException) -> tuple[int, bytes]:
        status = FAILED
        if isinstance(error, DovetailError) and error.code is ErrorCode.OUT_OF_MEMORY:
            status = OUT_OF_MEMORY
        if isinstance(error, DovetailError) and error.code is ErrorCode.CANCELLED:
            return CANCELLED, b""
        text = json.dumps(described_error(error, longest=_TRACE)).encode()
        if len(text) > TEXT_BYTES:
            text = json.dumps(described_error(type(error)("its text is too long"), longest=0)).encode()
        return status, text

    # -- the socket --------------------------------------------------------------------------------

    def look(self) -> bool:
        """Take a message from the socket and reply; false once the host is gone."""
        poller = select.poll()
        poller.register(self._connection, select.POLLIN)
        if not poller.poll(0):  # the host wrote before it asked: somebody else wrote over the channel
            return True
        try:
            message, descriptors = receive(self._connection)
        except EndedError:
            return False
        reply: Message
        try:
            for number in message["unload"]:
                self._unload(number)
            reply = {"reply": getattr(self, f"_{message['do']}")(message, descriptors)}
        except BaseException as error:  # whatever the backend raised, the host raises it
            reply = {"error": described_error(error)}
        finally:
            for one in descriptors:
                os.close(one)
        self._end.answer(OK)
        send(self._connection, reply)
        return True

    def _backend(self) -> IBackend:
        backend: IBackend = self._maker.made()
        return backend

    def _options_of(self, message: Message, descriptor: int) -> Any:
        number = message["options"]
        if number not in self._options:
            self._options[number] = build_options(self._backend(), read(descriptor))
        return self._options[number]

    def _describe(self, message: Message, descriptors: Sequence[int]) -> Message:
        backend, options = self._backend(), self._options_of(message, descriptors[0])
        origin, kind = f"backend {str(backend.id)!r}", type(backend)
        capabilities = backend.capabilities()
        reduces = backend.reduces(options)
        return {
            "devices": [one.identity for one in devices_of(origin, backend)],
            "capabilities": {name: bool(value) for name, value in capabilities._asdict().items()},
            "kind_versions": {str(name): int(value) for name, value in backend.kind_versions.items()},
            "decides": kind.supports is not IBackend.supports,
            "device": backend.device_of(options),
            "reduces": None if reduces is None else reduces.label,
        }

    def _supports(self, message: Message, descriptors: Sequence[int]) -> Message:
        options, backend = self._options_of(message, descriptors[0]), self._backend()
        _, (layer,) = network_of(read(descriptors[1]), "question")
        answer = backend.supports(layer, options, self._device(message["device"]))
        return {
            "supported": bool(answer.supported),
            "code": str(answer.code),
            "reason": str(answer.reason),
            "attribute": None if answer.attribute is None else str(answer.attribute),
        }

    def _device(self, index: int) -> Device:
        devices = devices_of(f"backend {str(self._backend().id)!r}", self._backend())
        return devices[index] if index < len(devices) else Device(name="not on this machine")

    def _request(self, message: Message, options: Any) -> CompileRequest:
        backend = self._backend()
        return CompileRequest(
            backends=[f"{backend.id}:{message['device']}"],
            options={str(backend.id): options},
            registry=_OneBackend(backend),
            fallback=False,
            passes=False,  # the host's were there before
            apart=False,
            integer_layers=False,
            isolate=(),
        )

    def _place(self, message: Message, descriptors: Sequence[int]) -> Message:
        options = self._options_of(message, descriptors[0])
        network, members = network_of(read(descriptors[1]), "part")
        numbers = {layer.name: number for number, layer in enumerate(members)}
        try:
            placed_part = optimize(network, **_arguments(self._request(message, options)))
        except PlacementError as error:
            refusals = error.details.get("refusals", {})
            refused = [
                [numbers[name], "; ".join(f"[{one.code}] {one.reason}" for one in given)]
                for name, given in refusals.items()
                if name in numbers
            ]
            return {"refused": refused, "reason": error.message}
        layers = placed_part.placement.layers
        said = [one.words for one in layers if one.words and one.reason == "private"]
        steps = [list(step) for one in layers for step in one.steps]
        return {"words": "; ".join(said[:3]) + ("; ..." if len(said) > 3 else ""), "steps": steps[:MAX_STEPS]}

    def _load(self, message: Message, descriptors: Sequence[int]) -> Message:
        before = set(sys.modules)
        memory = self._load_part(message, descriptors).memory
        own = {"dovetail", type(self._backend()).__module__.partition(".")[0]}
        return {
            "modules": sorted(name for name in set(sys.modules) - before if name.partition(".")[0] in own),
            "held": memory.constant_bytes + memory.private_bytes,
        }

    def _load_part(self, message: Message, descriptors: Sequence[int]) -> LoadedNetwork:
        options = self._options_of(message, descriptors[0])
        part: FlatPart = read(descriptors[1])
        network, _ = network_of(part, message["name"])
        outputs = [layer.inputs[0].info for layer in network.outputs]
        infos = [*input_infos(part), *(info for info in outputs if info is not None)]
        threads = message["threads"]
        if threads not in self._runtimes:
            self._runtimes[threads] = Runtime(threads=threads)
        request = self._request(message, options).replaced(progress=self._progress)
        loaded = self._runtimes[threads].load(network, optimize=request)
        arrays = _arrays(descriptors[2], infos)
        names = [layer.name for layer in (*network.inputs, *network.outputs)]
        inputs = dict(zip(names[: len(network.inputs)], arrays, strict=False))
        results = dict(zip(names[len(network.inputs) :], arrays[len(network.inputs) :], strict=True))
        self._loaded[message["number"]] = _Loaded(loaded, loaded.bind(inputs, results), arrays)
        return loaded

    def _progress(self, backend: str, fraction: float, what: str) -> None:
        send(self._connection, {"progress": fraction, "what": str(what)[:1000]})

    def _unload(self, number: int) -> None:
        gone = self._loaded.pop(number, None)  # a process that took another's place may not have had it
        if gone is not None:
            gone.binding.close()
            gone.network.unload()


def _arguments(request: CompileRequest) -> dict[str, Any]:
    return {name: getattr(request, name) for name in CompileRequest._fields}


def _arrays(descriptor: int, infos: Sequence[TensorInfo]) -> list[Any]:
    """Return arrays in shared memory, one for each info."""
    places = placed(infos)
    memory = memoryview(SharedBytes(descriptor, max(places.nbytes, 1), True))
    return [
        np.ndarray(info.sizes, info.dtype.numpy, buffer=memory, offset=offset if nbytes else 0)
        for info, (offset, nbytes) in zip(infos, places.places, strict=True)
    ]
