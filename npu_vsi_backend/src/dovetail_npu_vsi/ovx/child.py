"""The child process: it opens the vendor's libraries, which may abort, hang or print in it."""

from __future__ import annotations

import os
import pickle
import sys
from typing import TYPE_CHECKING, Any

from ..errors import VsiError
from . import messages, printed
from .binary import Head
from .places import Places

if TYPE_CHECKING:
    from .executable import Binary, Device


def main() -> None:
    """Answer messages from standard input until it ends."""
    replies = os.dup(1)
    os.dup2(2, 1)  # what the libraries print is no answer
    child = _Child(replies)
    while True:
        kind, content = messages.receive(0)
        if not kind:
            break
        try:
            child.answer(kind, content)
        except VsiError as error:
            messages.send(replies, messages.FAILURE, pickle.dumps((messages.text_of(error), str(error.code), error.hint or "")))
    child.close()
    sys.stderr.flush()
    # Nobody waits for what the libraries do at the end of a process.
    os._exit(0)


class _Child:
    def __init__(self, replies: int) -> None:
        self._replies = replies
        self._device: Device | None = None
        self._binary: Binary | None = None
        self._operands: list[memoryview] = []
        self._printed_before = 0

    def answer(self, kind: bytes, content: bytes) -> None:
        if kind == messages.COMPILE:
            self._compile(*pickle.loads(content))
        elif kind == messages.PROBE:
            self._probe(*pickle.loads(content))
        elif kind == messages.LOAD:
            self._load(*pickle.loads(content))
        elif kind == messages.RUN:
            self._run(content)
        elif kind == messages.TIME:
            self._time()

    def close(self) -> None:
        self._operands = []
        if self._binary is not None:
            self._binary.close()
        self._binary = self._device = None

    def _send(self, kind: bytes, *parts: Any) -> None:
        messages.send(self._replies, kind, *parts)

    def _open(self, places: Places) -> Device:
        from .executable import Device
        from .library import open_openvx

        if self._device is None:
            open_openvx(places.openvxes)
            self._device = Device()
        return self._device

    def _probe(self, places: Places) -> None:
        from .library import open_ovxlib, ovxlib_version

        open_ovxlib(places.ovxlibs)
        device = self._open(places)
        versions = {"openvx": f"{device.implementation} {device.version}", "ovxlib": ".".join(map(str, ovxlib_version()))}
        self._send(messages.PROBED, pickle.dumps((device.target, versions)))

    def _compile(self, places: Places, program: Any, chip: Any) -> None:
        from .compiling import compiled
        from .library import open_openvx, open_ovxlib

        open_openvx(places.openvxes)
        open_ovxlib(places.ovxlibs)

        def report(fraction: float, text: str) -> None:
            self._send(messages.PROGRESS, messages.FRACTION.pack(fraction), text.encode())

        self._send(messages.BINARY, compiled(program, chip, report))

    def _load(self, places: Places, content: bytes) -> None:
        from .executable import Binary

        device = self._open(places)
        if device.target:
            Head.of(content).must_fit(device.target)
        self._binary = Binary(device, content, True)
        self._operands = self._binary.memories()
        self._send(messages.OPERANDS, pickle.dumps(self._binary.operands))

    def _run(self, content: bytes) -> None:
        if self._binary is None:
            raise VsiError("a run was asked for before a binary was loaded")
        at = 0
        results = []
        for memory, (is_output, *_) in zip(self._operands, self._binary.operands, strict=True):
            if is_output:
                results.append(memory)
            else:
                memory[:] = memoryview(content)[at : at + len(memory)]
                at += len(memory)
        self._printed_before = printed.length()
        self._binary.submit()
        self._binary.wait()
        self._send(messages.RESULTS, *results)

    def _time(self) -> None:
        """Tell what the last run took by OpenVX, and of operations what the driver printed."""
        found = None if self._binary is None else self._binary.performance()
        times: list[tuple[str, str, float, float]] = []
        if found is not None:
            begin, seconds = found
            times.append(("", "", seconds, begin))
            for name, engine, part in printed.operations(printed.text(self._printed_before)):
                times.append((name, engine, part, begin))
                begin += part
        self._send(messages.TIMES, pickle.dumps(times))


if __name__ == "__main__":
    main()
