"""Run checks in this process, each by itself: whatever one does, the next one starts afresh."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from .checks import Check
from .endings import BudgetExhausted, ConformanceFailure, Event, NotApplicable
from .results import CheckResult, Report, Status, end_event
from .subject import Settings, Subject
from .target import Target

Listener = Callable[[Check, Event], None]
"""Told of every event of every check, as it happens."""

_MAX_LINES = 30
"""Lines of a traceback or of a dump that go into a report."""


def run_check(check: Check, target: Target, settings: Settings | None = None, listen: Listener | None = None) -> CheckResult:
    """Run one check; what it raises becomes its result.

    The check runs on a thread of its own, so that one which hangs can be reported and left behind.
    """
    settings = settings or Settings()
    result = CheckResult(check)
    ended = threading.Event()
    latest = time.monotonic()

    def take(event: Event) -> None:
        nonlocal latest
        if ended.is_set():  # of a check that was given up
            return
        latest = time.monotonic()
        result.take(event)
        if listen is not None:
            listen(check, event)

    def body() -> None:
        closing = perform(check, target, settings, take)
        take(closing)
        ended.set()

    thread = threading.Thread(target=body, name=f"check {check.id}", daemon=True)
    started = time.monotonic()
    thread.start()
    while not ended.wait(0.2) and time.monotonic() - latest < check.seconds:
        pass
    if not ended.is_set():
        stack = _stack_of(thread)
        text = f"hung: nothing came for {check.seconds:g} s, while: {result.last_step or 'starting'}\n{stack}"
        take(end_event(Status.FAILED, text, time.monotonic() - started))
        ended.set()
    return result


def perform(check: Check, target: Target, settings: Settings, emit: Callable[[Event], None]) -> Event:
    """Call a check on the calling thread; returns the event that says how it ended."""
    started = time.monotonic()
    failed: list[str] = []
    expected: list[str] = []
    deviating: dict[str, None] = {}

    def passed_on(event: Event) -> None:
        if event["event"] == "case":
            is_expected = any(fnmatchcase(event["id"], pattern) for pattern in settings.tolerate)
            (expected if is_expected else failed).append(event["id"])
        elif event["event"] == "deviates":
            deviating[event["id"]] = None
        emit(event)

    def ended(status: Status, text: str = "", **facts: object) -> Event:
        return end_event(status, text, time.monotonic() - started, facts)

    try:
        if settings.deadline is not None and time.monotonic() >= settings.deadline:
            raise BudgetExhausted("the budget is used up")
        with Subject(target, settings, passed_on) as subject:
            check.run(subject)
    except BudgetExhausted as error:
        outcome = ended(Status.NOT_RUN, str(error))
        return ended(Status.FAILED, f"{_summary(failed)}; {error}") if failed else outcome
    except NotApplicable as reason:
        outcome = ended(Status.NOT_APPLICABLE, str(reason))
    except ConformanceFailure as error:
        outcome = ended(Status.FAILED, error.text, **error.facts)
    except BaseException as error:  # SystemExit too: a backend must not end the run of the kit
        lines = "".join(traceback.format_exception(error)).strip().splitlines()[-_MAX_LINES:]
        outcome = ended(Status.FAILED, f"{type(error).__name__}: {error}\n" + "\n".join(lines))
    else:
        outcome = ended(Status.PASSED)
    if failed and outcome["status"] != Status.FAILED:
        outcome = ended(Status.FAILED, _summary(failed))
    elif expected and outcome["status"] == Status.PASSED:
        outcome = ended(Status.EXPECTED, _summary(expected))
    elif deviating and outcome["status"] == Status.PASSED:
        outcome = ended(Status.DEVIATES, _summary(list(deviating), "differ by no more than the manifest declares"))
    return outcome


def _summary(cases: list[str], what: str = "failed") -> str:
    shown = ", ".join(cases[:3]) + (", ..." if len(cases) > 3 else "")
    return f"{len(cases)} case{'s' if len(cases) > 1 else ''} {what}: {shown}"


def _stack_of(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    lines = traceback.format_stack(frame) if frame is not None else []
    return "".join(lines[-_MAX_LINES // 2 :]).rstrip()


def run_checks(
    checks: Iterable[Check],
    target: Target,
    settings: Settings | None = None,
    listen: Listener | None = None,
    level: int | None = None,
) -> Report:
    """Run checks one after the other in this process."""
    selected = tuple(checks)
    started = time.monotonic()
    report = Report(str(target.backend.id), level if level is not None else max((one.level for one in selected), default=0))
    report.device = target.described_device
    report.bit_exact = settings is not None and settings.bit_exact
    report.results = [run_check(one, target, settings, listen) for one in selected]
    report.seconds = time.monotonic() - started
    return report
