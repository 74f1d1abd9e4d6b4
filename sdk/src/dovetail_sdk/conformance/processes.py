"""Child processes that tell what they do, line by line, and how one of them ended."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import IO, Any

from .endings import Event

_TAIL = 4000  # characters of what a child printed that go into a report


class Patience:
    """How long to wait for the next event."""

    def __init__(self, seconds: float) -> None:
        self.renew(seconds)

    def renew(self, seconds: float) -> None:
        """Begin to wait for something that may take `seconds`."""
        self.seconds = seconds
        self.since = time.monotonic()

    @property
    def used(self) -> float:
        """Seconds since `renew`."""
        return time.monotonic() - self.since

    @property
    def left(self) -> float:
        """Seconds until patience is lost."""
        return self.seconds - self.used


class ChildProcess:
    """One process, its pipe of events, and what it printed.

    Args:
        module: What it runs: called with one argument, the orders as JSON.
        orders: Plain data; `descriptor` is added, where it is to write its events, one line of JSON
            each, and `answers`, where it reads what `answer` says, a line each.
    """

    def __init__(self, module: str, orders: Mapping[str, Any]) -> None:
        reading, writing = os.pipe()
        answers, self._answering = os.pipe()
        self._reading = reading
        self._rest = b""
        self._is_stopped = False
        self.printed: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the child
        content = {**orders, "descriptor": writing, "answers": answers}
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(content, default=str)],
            stdin=subprocess.DEVNULL,
            stdout=self.printed,
            stderr=subprocess.STDOUT,
            pass_fds=(writing, answers),
            env=environment,
        )
        os.close(writing)
        os.close(answers)
        self._selector = selectors.DefaultSelector()
        self._selector.register(reading, selectors.EVENT_READ)

    def events(self, patience: Patience) -> Iterator[Event]:
        """Return events as they come, until the pipe closes, or `stop` was called.

        Raises:
            TimeoutError: None came in time.
        """
        while not self._is_stopped:
            while b"\n" in self._rest:
                line, _, self._rest = self._rest.partition(b"\n")
                yield json.loads(line)
            if patience.left <= 0:
                raise TimeoutError
            if self._selector.select(min(patience.left, 1.0)):
                chunk = os.read(self._reading, 1 << 16)
                if not chunk:
                    return
                self._rest += chunk

    def answer(self, text: str) -> None:
        """Tell it something, in one line."""
        with suppress(BrokenPipeError):  # that it has ended shows in its events
            os.write(self._answering, text.encode() + b"\n")

    def stop(self) -> None:
        """Kill it, from any thread: whoever waits for its events soon waits no more."""
        self._is_stopped = True
        self.process.kill()

    def end(self, wait: float) -> int:
        """Wait for the end; dump the threads of a process that does not end, then kill it."""
        try:
            return self.process.wait(wait)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # faulthandler writes the stacks
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        return -signal.SIGABRT

    def tail(self) -> str:
        """Return the last that it printed."""
        size = self.printed.seek(0, os.SEEK_END)
        self.printed.seek(max(0, size - _TAIL))
        return self.printed.read().decode(errors="replace").strip()

    def close(self) -> None:
        """End it if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._selector.close()
        os.close(self._reading)
        os.close(self._answering)
        self.printed.close()

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def cause_of_death(code: int, hung: bool, limit: float, tail: str) -> str:
    """Say why a process ended, with the last that it printed; nothing if it ended well."""
    printed = f"\n{tail}" if tail else ""
    if hung:
        return f"hung: nothing more came within {limit:g} s, so the process was ended{printed}"
    if code == 0:
        return ""
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"the process died with {name}{printed}"
    return f"the process ended itself with exit code {code}{printed}"


def teller(descriptor: int) -> Callable[[Event], None]:
    """Return what a child tells events with."""

    def tell(event: Event) -> None:
        line = json.dumps(event, default=str).encode() + b"\n"
        try:
            while line:
                line = line[os.write(descriptor, line) :]
        except BrokenPipeError:  # whoever wanted to know is gone
            os._exit(1)

    return tell
