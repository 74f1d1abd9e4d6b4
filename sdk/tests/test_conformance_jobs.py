"""Checks of operators side by side: the same results in the same order, and one end for all."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dovetail_sdk.conformance.checks import Check, Level, all_checks, checks_up_to
from dovetail_sdk.conformance.endings import Event
from dovetail_sdk.conformance.reports.machine import as_json
from dovetail_sdk.conformance.results import Report, Status, Verdict
from dovetail_sdk.conformance.supervisor import Orders, Supervisor

FOLDER = Path(__file__).parent
ADDING = "operators.computes[dovetail.ElementwiseBinary]"
NORMALIZING = "operators.computes[dovetail.BatchNormalization]"


@pytest.fixture(autouse=True)
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let children find `broken_backends`."""
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FOLDER), *([before] if before else [])]))


def supervised(name: str, *patterns: str, jobs: int, seconds: float = 120, listen: Any = None) -> Report:
    supervisor = Supervisor(Orders(f"broken_backends:{name}", seconds=seconds), listen, jobs=jobs)
    return supervisor.run(checks_up_to(3, patterns), 3)


def without_times(report: Report) -> Any:
    def stripped(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: stripped(one) for name, one in value.items() if name != "seconds"}
        return [stripped(one) for one in value] if isinstance(value, list) else value

    return stripped(json.loads(as_json(report)))


def check_of(id: str) -> Check:
    return next(one for one in all_checks() if one.id == id)


def children() -> set[int]:
    """Return the processes below this one, at any depth."""
    found, pending = set[int](), [os.getpid()]
    while pending:
        for task in Path(f"/proc/{pending.pop()}/task").glob("*"):
            try:
                new = {int(word) for word in (task / "children").read_text().split()}
            except OSError:
                continue
            found |= new
            pending += new
    return found


def test_the_report_is_the_same_whatever_the_number_of_jobs() -> None:
    patterns = ("identity.", "operators.", "graphs.diamonds_are_right", "lifecycle.reloads")
    one, many = (supervised("Correct", *patterns, jobs=jobs) for jobs in (1, 3))
    assert [result.check.id for result in many.results] == [result.check.id for result in one.results]
    assert without_times(one) == without_times(many)
    assert one.verdict is Verdict.CONFORMS


def test_a_crash_costs_one_check() -> None:
    patterns = ("identity.", "operators.")
    results = {result.check.id: result for result in supervised("Crashes", *patterns, jobs=3).results}
    failed = results.pop(ADDING)
    assert failed.status is Status.FAILED
    assert "SIGSEGV" in failed.text
    assert "channels=7" in failed.text
    assert {result.status for result in results.values()} <= {Status.PASSED, Status.NOT_APPLICABLE}
    assert list(results)[1:-1] == [one.id for one in checks_up_to(3, patterns) if one.id != ADDING]


def test_operators_alone_run_side_by_side() -> None:
    running: list[str] = []
    most: dict[bool, int] = {}
    begun = set[str]()

    def listen(check: Check, event: Event) -> None:
        if event["event"] == "begin":
            running.append(check.id)
            begun.add(check.id)
            of_operators = check.level == Level.OPERATORS
            assert of_operators or len(running) == 1, running
            most[of_operators] = max(most.get(of_operators, 0), len(running))
        elif event["event"] == "end" and check.id in begun:
            running.remove(check.id)

    patterns = ("identity.", "operators.computes", "graphs.diamonds_are_right")
    report = supervised("Correct", *patterns, jobs=2, listen=listen)
    assert most == {False: 1, True: 2}
    assert not running
    assert len(begun) == len(report.results) - 2, "loads and exits are no checks that begin"


def test_a_hang_costs_its_own_time_while_others_go_on() -> None:
    hangs = dataclasses.replace(check_of(ADDING), seconds=3.0)
    others = [one for one in checks_up_to(2, ["operators.computes"]) if one.id not in (ADDING, NORMALIZING)][:6]
    ends: dict[str, float] = {}

    def listen(check: Check, event: Event) -> None:
        if event["event"] == "end":
            ends[check.id] = time.monotonic()

    report = Supervisor(Orders("broken_backends:Hangs", seconds=120), listen, jobs=2).run([hangs, *others], 2)
    results = {result.check.id: result for result in report.results}
    assert results[ADDING].status is Status.FAILED
    assert "hung: nothing more came within 3 s" in results[ADDING].text
    assert {results[one.id].status for one in others} == {Status.NOT_APPLICABLE}, "the backend claims none of these"
    assert max(ends[one.id] for one in others) < ends[ADDING], "nothing waited for it"


def test_a_backend_that_cannot_be_loaded_is_said_once() -> None:
    report = supervised("crashes_on_import", "operators.", "graphs.diamonds", jobs=3)
    loads, *rest = report.results
    assert loads.status is Status.FAILED
    assert "SIGABRT" in loads.text
    assert {(one.status, one.text) for one in rest} == {(Status.NOT_RUN, "the backend could not be loaded")}


def test_the_time_for_everything_holds() -> None:
    report = supervised("Correct", "operators.", jobs=2, seconds=0.001)
    assert report.verdict is not Verdict.CONFORMS
    assert not [one for one in report.results if one.check.level == 2 and one.status is Status.PASSED]


def test_what_a_listener_raises_ends_all() -> None:
    before = children()

    def listen(check: Check, event: Event) -> None:
        if check.level == Level.OPERATORS:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        supervised("Hangs", ADDING, NORMALIZING, jobs=2, listen=listen)
    assert children() <= before


def test_an_interrupt_ends_all(tmp_path: Path) -> None:
    (tmp_path / "asked_in_vain.py").write_text(
        "import time\nfrom broken_backends import Correct\n\n\nclass HangsWhenAsked(Correct):\n"
        "    def supports(self, *_):\n        time.sleep(3600)\n"
    )
    command = [sys.executable, "-m", "dovetail_sdk", "conform", "asked_in_vain:HangsWhenAsked", "--jobs", "2"]
    path = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]])
    before = children()
    process = subprocess.Popen(
        [*command, "--only", ADDING, "--only", NORMALIZING],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        deadline = time.monotonic() + 60
        while len(children() - before) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(2.0)
        assert len(children() - before) == 3, "the command and two children"
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, output
    assert b"Traceback" not in output
    assert children() <= before


@pytest.mark.parametrize("jobs", ["0", "-1", "x"])
def test_a_number_of_jobs_is_one_or_more(dovetail: Any, jobs: str) -> None:
    done = dovetail("conform", "CpuRef", "--jobs", jobs)
    assert done.exit_code == 2
    assert "--jobs" in done.output
