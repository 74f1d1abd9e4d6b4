"""Run checks in child processes: a crash or hang costs one check, the next child goes on."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from .checks import Check, Level
from .processes import ChildProcess, Patience, cause_of_death
from .results import CheckResult, Report, Status, end_event
from .runner import Listener

OPENING_SECONDS = 60.0
"""Longest time that importing and creating the backend may take."""
_ENDING_SECONDS = 15.0
_GRACE = 5.0
"""A check that began in time has this much longer than the time for everything."""

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
        late_failure: Options under which work that was enqueued fails on the device; None for those
            that the manifest names.
        bit_exact: Hold results to the bits that standards define even where they are not promised.
        isolate: Networks of the backend are loaded in a process of its own.
    """

    target: str
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    seconds: float | None = None
    operators: Sequence[str] = ()
    tolerate: Sequence[str] = ()
    late_failure: Mapping[str, Any] | None = None
    bit_exact: bool = False
    isolate: bool = False


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
        self.id, self.device = orders.target, ""

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
        report = Report(self.id, level, [opening, *results.values()], bit_exact=self.orders.bit_exact, device=self.device)
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

    def _patience(self, seconds: float) -> float:
        """Return the seconds to wait for what may take `seconds`: none beyond the budget's end."""
        left = self._seconds()
        return seconds if left is None else min(seconds, max(left, 0.0) + _GRACE)

    def _one_child(
        self, waiting: list[Check], results: dict[str, CheckResult], *, cautious: bool = False
    ) -> tuple[bool, bool, str]:
        """Run what waits until it is done or the child dies.

        What was run, or killed the child, is taken off the list.

        Returns:
            Whether the backend was opened, whether all was run, and why the child died, if it did.
        """
        opened = done = hung = False
        refusal = ""
        began = time.monotonic()
        current: CheckResult | None = None
        patience = Patience(self._patience(OPENING_SECONDS))
        content = {
            **asdict(self.orders),
            "seconds": self._seconds(),
            "checks": [check.id for check in waiting],
            "cautious": cautious,
        }
        with ChildProcess("dovetail_sdk.conformance.child", content) as child:
            try:
                for event in child.events(patience):
                    match event["event"]:
                        case "opened":
                            opened, self.id, self.device = True, event["id"], event["device"]
                        case "refused":
                            refusal = event["text"]
                        case "begin":
                            check = waiting[0]
                            current = results[check.id] = CheckResult(check)
                            patience.renew(self._patience(check.seconds))
                            began = time.monotonic()
                            self.listen(check, event)
                        case "done":
                            done = True
                        case _ if current is not None:
                            current.take(event)
                            self.listen(current.check, event)
                            patience.renew(self._patience(current.check.seconds))
                            if event["event"] == "end":
                                waiting.pop(0)
                                current = None
                                patience.renew(self._patience(OPENING_SECONDS))
            except TimeoutError:
                hung = True
            code = child.end(0 if hung else _ENDING_SECONDS)
            died = refusal or cause_of_death(code, hung, round(patience.seconds, 1), child.tail())
        if (
            opened and not done and current is None and waiting
        ):  # it died between two checks: the next one must not wait for ever
            current = results[waiting[0].id]
        if current is not None:
            waiting.pop(0)
            self._bury(current, died, time.monotonic() - began, results, cautious=cautious)
        return opened, done, died

    def _bury(self, result: CheckResult, died: str, seconds: float, results: dict[str, CheckResult], *, cautious: bool) -> None:
        """Report the check in which a child died; one with many cases is run again case by case."""
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
