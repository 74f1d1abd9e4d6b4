"""Run guarded cases in child processes.

A kernel that leaves its tensors ends one, and the next goes on with the rest.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ..endings import ConformanceFailure
from ..processes import ChildProcess, Patience, cause_of_death

_CASE_SECONDS = 120.0
"""A case that takes longer hangs."""
_GRACE = 5.0
"""A case that began in time hangs if it takes this much longer than the time for everything."""
_ENDED = "the process ended by itself, with exit code 0"
_UNMADE = "could not be made"
_PORTION = 2000
"""Cases that one child is told of at once: an argument has an end."""


@dataclass(frozen=True)
class Wanted:
    """What is run.

    Attributes:
        target: An id, or "module:attribute".
        cases: Their ids, such as "operator/0".
        options: Options of the backend, by name.
        seed: Of all random numbers.
        operators: Modules with an `OPERATOR` each, for kinds of the vendor's own.
        seconds: Time for everything; None for any.
        most: Findings after which a process begins no further case: each crash costs a start.
    """

    target: str
    cases: Sequence[str]
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    operators: Sequence[str] = ()
    seconds: float | None = None
    maximum: int = 1000


@dataclass(frozen=True)
class Finding:
    """A case that went wrong.

    Attributes:
        case: Its id.
        text: What it computes.
        problem: What was found.
    """

    case: str
    text: str
    problem: str

    @property
    def unmade(self) -> bool:
        """Return whether the backend kept the case from being made.

        Of further cases that meet the same problem nothing is told.
        """
        return self.text == _UNMADE


class Refused(ConformanceFailure):
    """There is no such backend, option or module, or it cannot be loaded."""


@dataclass
class Searched:
    """What came out.

    Attributes:
        done: Cases that ran, those with a finding included.
        skipped: Why other cases could not be made, by id.
        left: Cases for which no time was left.
        findings: What went wrong.
    """

    done: int = 0
    skipped: dict[str, str] = field(default_factory=dict)
    left: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Searched) -> None:
        """Take in what another search found."""
        self.done += other.done
        self.left += other.left
        self.skipped |= other.skipped
        known = {one.problem for one in self.findings if one.unmade}
        self.findings += [one for one in other.findings if not (one.unmade and one.problem in known)]


def case_ids(operators: int, networks: int, shard: int = 0, shards: int = 1) -> list[str]:
    """Return the ids of so many single layers and networks; with shards, those of one shard."""
    numbered = [("operator", number) for number in range(operators)] + [("network", number) for number in range(networks)]
    return [f"{what}/{number}" for index, (what, number) in enumerate(numbered) if index % shards == shard]


def search(wanted: Wanted, *, jobs: int = 1, told: Callable[[str], None] = lambda text: None) -> Searched:
    """Run cases; none of them can keep the next from running.

    Args:
        wanted: Which, and of which backend.
        jobs: Processes at once.
        told: Called with a line now and then.

    Raises:
        Refused: The backend, an option of it or a module cannot be loaded.
        ConformanceFailure: The process died while it opened the backend.
    """
    deadline = None if wanted.seconds is None else time.monotonic() + wanted.seconds
    total = Searched()
    with ThreadPoolExecutor(jobs) as pool:
        parts = [_Part(wanted, wanted.cases[job::jobs], deadline, told) for job in range(jobs)]
        for searched in pool.map(_Part.run, parts):
            total.add(searched)
    total.findings.sort(key=lambda one: (one.case.partition("/")[0], int(one.case.partition("/")[2])))
    return total


class _Part:
    """The share of one process at a time."""

    def __init__(self, wanted: Wanted, cases: Iterable[str], deadline: float | None, told: Callable[[str], None]) -> None:
        self.wanted, self.waiting, self.deadline, self.told = wanted, deque(cases), deadline, told
        self.result = Searched()
        self.taken: Any = None  # so that the next child need not ask again

    def run(self) -> Searched:
        while self.waiting:
            if self.deadline is not None and time.monotonic() > self.deadline:
                break
            if len(self.result.findings) >= self.wanted.maximum:
                break
            self._one_child()
        self.result.left += len(self.waiting)
        return self.result

    def _one_child(self) -> None:
        """Run cases until done, out of time, or the child dies; unlist what was begun."""
        portion = [self.waiting[index] for index in range(min(len(self.waiting), _PORTION))]
        seconds = None if self.deadline is None else self.deadline - time.monotonic()
        orders = {
            "target": self.wanted.target,
            "cases": portion,
            "options": dict(self.wanted.options),
            "seed": self.wanted.seed,
            "operators": list(self.wanted.operators),
            "seconds": seconds,
            "taken": self.taken,
        }
        opened = done = hung = False
        refused = ""
        handled = 0
        begun: tuple[str, str] | None = None
        patience = Patience(self._patience())
        with ChildProcess(__name__.replace(".search", ".child"), orders) as child:
            try:
                for event in child.events(patience):
                    patience.renew(self._patience())
                    match event["event"]:
                        case "refused":
                            refused = event["text"]
                        case "opened":
                            opened = True
                        case "taken":
                            self.taken = event["kinds"]
                        case "begin":
                            begun = (event["case"], event["text"])
                            handled += 1
                            self.waiting.popleft()
                        case "end":
                            self._end(event["case"], begun, event["text"])
                            begun = None
                        case "skipped":
                            handled += 1
                            self.waiting.popleft()
                            self.result.skipped[event["case"]] = event["text"]
                        case "unmade":
                            handled += 1
                            self._unmade(self.waiting.popleft(), event["text"])
                        case "done" | "late":
                            done = True
            except TimeoutError:
                hung = True
            code = child.end(0 if hung else 15.0)
            cause = cause_of_death(code, hung, round(patience.seconds, 1), child.tail())
            died = cause or _ENDED
        if refused:
            raise Refused(refused)
        if begun is not None:
            self._end(begun[0], begun, died)
        elif done:
            if cause:  # destructors and exit handlers run when the interpreter is taken down
                self._add(
                    Finding(portion[max(handled - 1, 0)], "ending the process after this case", _first_things_first(cause))
                )
        elif hung and self.deadline is not None and time.monotonic() > self.deadline:
            self.told(f"no case was under way when the time was over: {died}")
        elif not opened:
            raise ConformanceFailure(f"the backend could not be opened for guarded cases: {died}")
        elif handled < len(portion):
            self._unmade(self.waiting.popleft(), died)
        else:
            self._add(Finding(portion[-1], "closing the backend after this case", _first_things_first(died)))

    def _patience(self) -> float:
        """Return the seconds that the next event may take, at most to the end of all the time."""
        if self.deadline is None:
            return _CASE_SECONDS
        return min(_CASE_SECONDS, max(self.deadline - time.monotonic(), 0.0) + _GRACE)

    def _unmade(self, id: str, problem: str) -> None:
        self.result.skipped[id] = problem
        finding = Finding(id, _UNMADE, _first_things_first(problem))
        if all(one.problem != finding.problem for one in self.result.findings if one.unmade):
            self._add(finding)

    def _add(self, finding: Finding) -> None:
        self.result.findings.append(finding)
        self.told(f"{finding.case}: {finding.text}: {finding.problem.partition(chr(10))[0]}")

    def _end(self, id: str, begun: tuple[str, str] | None, problem: str) -> None:
        self.result.done += 1
        if problem:
            self._add(Finding(id, begun[1] if begun else "", _first_things_first(problem)))
        elif self.result.done % 1000 == 0:
            self.told(f"{self.result.done} cases, {len(self.waiting)} to go, {len(self.result.findings)} findings")


def _first_things_first(problem: str) -> str:
    """Put what the guard said of a fault before how the process died."""
    said = [line.removeprefix("dovetail guard: ") for line in problem.splitlines() if line.startswith("dovetail guard: ")]
    return "\n".join([*said[:1], problem])
