"""Run checks in child processes: a crash or hang costs one check, the next child goes on.

Several children may judge operators side by side. All other checks have the machine to themselves,
because some look at times, at threads, or at what a process holds.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

from .checks import Check, Level
from .endings import Event
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
        listen: Told of every event, as it happens; of one at a time.
        jobs: So many checks of operators are run at a time, each in a child.
    """

    def __init__(self, orders: Orders, listen: Listener | None = None, *, jobs: int = 1) -> None:
        self.orders = orders
        self.deadline = None if orders.seconds is None else time.monotonic() + orders.seconds
        self.id, self.device = orders.target, ""
        self.jobs = jobs
        self._told = listen or (lambda check, event: None)
        self._lock = threading.RLock()  # of all that follows, and of `listen`
        self._children: set[ChildProcess] = set()
        self._is_stopped = False
        self._opening, self._ending = CheckResult(LOADS), CheckResult(EXITS)
        self._unloadable = ""
        self._ends: list[str] = []

    def run(self, checks: Sequence[Check], level: int) -> Report:
        """Run checks; none of them can keep the next from running."""
        started = time.monotonic()
        results: dict[str, CheckResult] = {check.id: CheckResult(check) for check in checks}
        waiting: deque[Check] = deque()
        for at_once, group in self._groups(checks):
            is_loadable = not waiting
            waiting += group
            if is_loadable and at_once == 1:
                self._take_turns(waiting, results)
            elif is_loadable:
                self._side_by_side(at_once, waiting, results)
        for check in waiting:
            results[check.id].text = "the backend could not be loaded"
        if self._opening.status is Status.NOT_RUN and self._unloadable:
            self._finish(self._opening, Status.FAILED, self._unloadable)
        if self._ends:
            died = next(filter(None, self._ends), "")
            self._finish(self._ending, Status.FAILED if died else Status.PASSED, died)
        all_results = [self._opening, *results.values()]
        report = Report(self.id, level, all_results, bit_exact=self.orders.bit_exact, device=self.device)
        if level >= EXITS.level and self._ending.status is not Status.NOT_RUN:
            report.results.append(self._ending)
        report.seconds = time.monotonic() - started
        return report

    def _groups(self, checks: Sequence[Check]) -> Iterable[tuple[int, list[Check]]]:
        """Part checks into such as run one after the other, and such as run side by side."""
        if self.jobs == 1:
            return [(1, list(checks))] if checks else []
        groups = [
            (of_operators, list(group)) for of_operators, group in groupby(checks, lambda one: one.level == Level.OPERATORS)
        ]
        return [(min(self.jobs, len(group)) if of_operators else 1, group) for of_operators, group in groups]

    def _side_by_side(self, count: int, waiting: deque[Check], results: dict[str, CheckResult]) -> None:
        """Have several children take what waits, each the next one."""
        with ThreadPoolExecutor(count, thread_name_prefix="conform") as pool:
            try:
                for one in as_completed([pool.submit(self._take_turns, waiting, results) for _ in range(count)]):
                    one.result()
            except BaseException:  # Ctrl-C, or what `listen` raised: nobody waits for the others
                with self._lock:
                    self._is_stopped = True
                    for child in self._children:
                        child.stop()
                raise

    def _take_turns(self, waiting: deque[Check], results: dict[str, CheckResult]) -> None:
        """Run what waits in one child after the other, until nothing does or none opens."""
        while waiting and not self._is_stopped:
            opened, done, died = self._one_child(_taking(waiting), results)
            with self._lock:
                if opened and self._opening.status is Status.NOT_RUN:
                    self._finish(self._opening, Status.PASSED, "")
                elif not opened:
                    self._unloadable = self._unloadable or died
                if done:
                    self._ends.append(died)
            if done or not opened:
                return

    def listen(self, check: Check, event: Event) -> None:
        """Tell whoever listens."""
        with self._lock:
            self._told(check, event)

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
        self, take: Callable[[], Check | None], results: dict[str, CheckResult], *, cautious: bool = False
    ) -> tuple[bool, bool, str]:
        """Run one check after the other until none is left or the child dies.

        Args:
            take: Returns the next check; None: there is none.
            results: Get what is told, by the id of the check.
            cautious: Have cases run one by one.

        Returns:
            Whether the backend was opened, whether all was run, and why the child died, if it did.
        """
        opened = done = hung = False
        refusal = ""
        began = time.monotonic()
        current: CheckResult | None = None
        given: Check | None = None
        patience = Patience(self._patience(OPENING_SECONDS))
        content = {
            **asdict(self.orders),
            "seconds": self._seconds(),
            "cautious": cautious,
        }
        with ChildProcess("dovetail_sdk.conformance.child", content) as child:
            self._watch(child)
            try:
                for event in child.events(patience):
                    match event["event"]:
                        case "opened":
                            opened, self.id, self.device = True, event["id"], event["device"]
                        case "refused":
                            refusal = event["text"]
                        case "ready":
                            given = take()
                            child.answer(given.id if given is not None else "")
                            patience.renew(self._patience(OPENING_SECONDS))
                        case "begin" if given is not None:
                            current = results[given.id] = CheckResult(given)
                            patience.renew(self._patience(given.seconds))
                            began = time.monotonic()
                            self.listen(given, event)
                        case "done":
                            done = True
                        case _ if current is not None:
                            current.take(event)
                            self.listen(current.check, event)
                            patience.renew(self._patience(current.check.seconds))
                            if event["event"] == "end":
                                current = given = None
                                patience.renew(self._patience(OPENING_SECONDS))
            except TimeoutError:
                hung = True
            code = child.end(0 if hung else _ENDING_SECONDS)
            died = refusal or cause_of_death(code, hung, round(patience.seconds, 1), child.tail())
            with self._lock:
                self._children.discard(child)
        if self._is_stopped:
            return opened, done, died
        if opened and not done and current is None:  # it died between two checks: the next one must not wait for ever
            given = given or take()
            current = None if given is None else results.setdefault(given.id, CheckResult(given))
        if current is not None:
            self._bury(current, died, time.monotonic() - began, results, cautious=cautious)
        return opened, done, died

    def _watch(self, child: ChildProcess) -> None:
        """Have a child be stopped with the others."""
        with self._lock:
            self._children.add(child)
            if self._is_stopped:
                child.stop()

    def _bury(self, result: CheckResult, died: str, seconds: float, results: dict[str, CheckResult], *, cautious: bool) -> None:
        """Report the check in which a child died; one with many cases is run again case by case."""
        doing = f", while: {result.last_step}" if result.last_step else ""
        self._finish(
            result, Status.FAILED, f"{died.partition(chr(10))[0]}{doing}\n{died.partition(chr(10))[2]}".strip(), seconds
        )
        if not cautious and result.check.level == Level.OPERATORS:
            again: dict[str, CheckResult] = {}
            self._one_child(_taking(deque([result.check])), again, cautious=True)
            retried = again.get(result.check.id)
            if retried is not None and retried.status is Status.FAILED:
                results[result.check.id] = retried


def _taking(waiting: deque[Check]) -> Callable[[], Check | None]:
    """Return what takes the next of those that wait, of whatever thread."""

    def take() -> Check | None:
        try:
            return waiting.popleft()
        except IndexError:
            return None

    return take
