"""Run checks in child processes: a crash or a hang costs one check, and the next child goes on with the rest."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import IO, Any

from .checks import Check, Level
from .endings import Event
from .results import CheckResult, Report, Status, end_event
from .runner import Listener

OPENING_SECONDS = 60.0
"""Longest time that importing and creating the backend may take."""
_ENDING_SECONDS = 15.0
_TAIL = 4000  # characters of what a child printed that go into a report

LOADS = Check(
    "process.loads",
    Level.IDENTITY,
    "can be loaded, as its users do",
    "Run `dovetail backends` and `dovetail doctor`; import the backend's module by hand to see the whole error.",
    lambda subject: None,
)
EXITS = Check(
    "process.exits",
    Level.CONTRACT,
    "lets the process end",
    "Look at destructors, threads and exit handlers of the backend: they run while the interpreter is being taken down.",
    lambda subject: None,
)


@dataclass(frozen=True)
class Orders:
    """What a child is told.

    Attributes:
        target: An id, or "module:attribute".
        options: Options of the backend, by name.
        seed: Of all random numbers.
        seconds: Time for everything; None for any.
        operators: Modules with an `OPERATOR` each, for kinds of the vendor's own.
        tolerate: Globs over ids of cases that are known to fail.
        late_failure: Options under which work that was enqueued fails on the device; None if there are none like that.
    """

    target: str
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    seconds: float | None = None
    operators: Sequence[str] = ()
    tolerate: Sequence[str] = ()
    late_failure: Mapping[str, Any] | None = None


class _Patience:
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


class _Child:
    """One process, its pipe of events, and what it printed."""

    def __init__(self, orders: Orders, checks: Sequence[Check], seconds: float | None, *, cautious: bool) -> None:
        reading, writing = os.pipe()
        self._reading = reading
        self._rest = b""
        self.printed: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the child
        content = {
            **asdict(orders),
            "seconds": seconds,
            "checks": [check.id for check in checks],
            "cautious": cautious,
            "descriptor": writing,
        }
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dovetail_sdk.conformance.child", json.dumps(content, default=str)],
            stdin=subprocess.DEVNULL,
            stdout=self.printed,
            stderr=subprocess.STDOUT,
            pass_fds=(writing,),
            env=environment,
        )
        os.close(writing)
        self._selector = selectors.DefaultSelector()
        self._selector.register(reading, selectors.EVENT_READ)

    def events(self, patience: _Patience) -> Iterator[Event]:
        """Return events as they come, until the pipe closes.

        Raises:
            TimeoutError: None came in time.
        """
        while True:
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

    def end(self, wait: float) -> int:
        """Wait for the end; a process that does not come to it is asked for a dump of its threads and killed."""
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
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._selector.close()
        os.close(self._reading)
        self.printed.close()


@contextmanager
def _child(orders: Orders, checks: Sequence[Check], seconds: float | None, *, cautious: bool = False) -> Iterator[_Child]:
    child = _Child(orders, checks, seconds, cautious=cautious)
    try:
        yield child
    finally:
        child.close()


class Supervisor:
    """Runs checks in children and puts together what they tell.

    Args:
        orders: What is tested, and how.
        listen: Told of every event, as it happens.
    """

    def __init__(self, orders: Orders, listen: Listener | None = None) -> None:
        self.orders = orders
        self.listen = listen or (lambda check, event: None)
        self.deadline = None if orders.seconds is None else time.monotonic() + orders.seconds
        self.id = orders.target

    def run(self, checks: Sequence[Check], level: int) -> Report:
        """Run checks; none of them can keep the next from running."""
        started = time.monotonic()
        results: dict[str, CheckResult] = {check.id: CheckResult(check) for check in checks}
        waiting = list(checks)
        opening = CheckResult(LOADS)
        ending = CheckResult(EXITS)
        while waiting:
            opened, done, died = self._one_child(waiting, results)
            if opened:
                self._finish(opening, Status.PASSED, "")
            elif opening.status is not Status.PASSED:
                self._finish(opening, Status.FAILED, died)
            if not opened:
                for check in waiting:
                    results[check.id].text = "the backend could not be loaded"
                break
            if done and died:
                self._finish(ending, Status.FAILED, died)
            elif done:
                self._finish(ending, Status.PASSED, "")
            if done:
                break
        report = Report(self.id, level, [opening, *results.values()])
        if level >= EXITS.level and ending.status is not Status.NOT_RUN:
            report.results.append(ending)
        report.seconds = time.monotonic() - started
        return report

    def _finish(self, result: CheckResult, status: Status, text: str, seconds: float = 0.0) -> None:
        event = end_event(status, text, seconds)
        result.take(event)
        self.listen(result.check, event)

    def _seconds(self) -> float | None:
        return None if self.deadline is None else self.deadline - time.monotonic()

    def _one_child(
        self, waiting: list[Check], results: dict[str, CheckResult], *, cautious: bool = False
    ) -> tuple[bool, bool, str]:
        """Run what waits until it is done or the child dies; takes what was run, or killed the child, off the list.

        Returns:
            Whether the backend was opened, whether all was run, and why the child died, if it did.
        """
        opened = done = hung = False
        refusal = ""
        current: CheckResult | None = None
        patience = _Patience(OPENING_SECONDS)
        with _child(self.orders, waiting, self._seconds(), cautious=cautious) as child:
            try:
                for event in child.events(patience):
                    match event["event"]:
                        case "opened":
                            opened, self.id = True, event["id"]
                        case "refused":
                            refusal = event["text"]
                        case "begin":
                            check = waiting[0]
                            current = results[check.id] = CheckResult(check)
                            patience.renew(check.seconds)
                            self.listen(check, event)
                        case "done":
                            done = True
                        case _ if current is not None:
                            current.take(event)
                            self.listen(current.check, event)
                            if event["event"] == "end":
                                waiting.pop(0)
                                current = None
                                patience.renew(OPENING_SECONDS)
            except TimeoutError:
                hung = True
            code = child.end(0 if hung else _ENDING_SECONDS)
            died = refusal or _cause_of_death(code, hung, patience.seconds, child.tail())
        if (
            opened and not done and current is None and waiting
        ):  # it died between two checks: the next one must not wait for ever
            current = results[waiting[0].id]
        if current is not None:
            waiting.pop(0)
            self._bury(current, died, patience.used, results, cautious=cautious)
        return opened, done, died

    def _bury(self, result: CheckResult, died: str, seconds: float, results: dict[str, CheckResult], *, cautious: bool) -> None:
        """Report the check in which a child died; one that tries many cases at once is run again, case by case."""
        doing = f", while: {result.last_step}" if result.last_step else ""
        self._finish(
            result, Status.FAILED, f"{died.partition(chr(10))[0]}{doing}\n{died.partition(chr(10))[2]}".strip(), seconds
        )
        if not cautious and result.check.level == Level.OPERATORS:
            again: dict[str, CheckResult] = {}
            self._one_child([result.check], again, cautious=True)
            retried = again.get(result.check.id)
            if retried is not None and retried.status is Status.FAILED:
                results[result.check.id] = retried


def _cause_of_death(code: int, hung: bool, limit: float, tail: str) -> str:
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
