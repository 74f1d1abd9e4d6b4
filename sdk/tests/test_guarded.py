"""Guarded cases find kernels that leave their tensors, name them, go on, and find nothing else."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from dovetail_sdk.cli import main
from dovetail_sdk.conformance.checks import all_checks
from dovetail_sdk.conformance.guarded import search as searching
from dovetail_sdk.conformance.guarded.cases import Cases
from dovetail_sdk.conformance.guarded.search import Searched, Wanted, case_ids, search
from dovetail_sdk.conformance.results import CheckResult, Status
from dovetail_sdk.conformance.runner import run_check
from dovetail_sdk.conformance.subject import Settings, Subject
from dovetail_sdk.conformance.target import open_target

FOLDER = Path(__file__).parent


@pytest.fixture(autouse=True)
def found_by_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process and others import "broken_backends_guarded"."""
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])]))


def searched(name: str, *, operators: int = 2, networks: int = 0) -> Searched:
    return search(Wanted(f"broken_backends_guarded:{name}", case_ids(operators, networks)))


def judged(id: str, name: str) -> CheckResult:
    check = next(check for check in all_checks() if check.id == id)
    return run_check(check, open_target(f"broken_backends_guarded:{name}"))


BROKEN = {
    "ReadsBehindTheEnd": ("on ReadsBehindTheEnd touched memory at byte 0 behind the end of the tensor", signal.SIGSEGV),
    "ReadsBehindItsConstant": ("touched memory at byte 0 behind the end of the constant", signal.SIGSEGV),
    "WritesBeforeTheStart": ("wrote at 1 bytes before the start of the tensor", None),
    "WritesItsInput": ("wrote at byte 0 of, which it may only read, the tensor", signal.SIGSEGV),
    "UsesFreshMemory": ("changes with what lies in memory that nobody wrote", None),
    "OverrunsItsWorkspace": ("touched memory at byte 0 behind the end of the workspace", signal.SIGSEGV),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_fault_is_found_for_the_right_reason_and_costs_one_case(name: str) -> None:
    text, ended_by = BROKEN[name]
    result = searched(name)
    assert result.done == 2
    assert 1 <= len(result.findings) <= 2
    for finding in result.findings:
        assert text in finding.problem, finding
        assert finding.text
        assert (ended_by is not None) == ("died with SIGSEGV" in finding.problem)


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    result = searched("Inside", operators=12, networks=2)
    assert result == Searched(done=14)


@pytest.mark.parametrize("id", ["guarded.layers_stay_inside", "guarded.networks_stay_inside"])
def test_the_checks_of_level_4_tell_the_vendor(id: str) -> None:
    result = judged(id, "ReadsBehindTheEnd")
    assert result.status is Status.FAILED
    assert "on ReadsBehindTheEnd touched memory at byte 0 behind the end" in result.text


def test_an_object_that_no_other_process_finds_is_not_judged() -> None:
    check = next(check for check in all_checks() if check.id == "guarded.layers_stay_inside")
    backend = open_target("broken_backends_guarded:Inside").backend
    assert run_check(check, open_target(backend)).status is Status.NOT_APPLICABLE


def test_a_case_is_the_same_whenever_it_is_made() -> None:
    with Subject(open_target("broken_backends_guarded:Inside"), Settings(seed=3)) as subject:
        first = [Cases(subject).make(id) for id in ("operator/5", "network/2")]
        again = [Cases(subject).make(id) for id in ("network/2", "operator/5")][::-1]
        other = Cases(Subject(subject.target, Settings(seed=4))).make("network/2")
    for one, two in zip(first, again, strict=True):
        assert one.text == two.text
        assert {name: array.tobytes() for name, array in one.feeds.items()} == {
            name: array.tobytes() for name, array in two.feeds.items()
        }
    assert other.text != first[1].text


def test_a_search_ends_early_with_enough_findings() -> None:
    wanted = Wanted("broken_backends_guarded:ReadsBehindTheEnd", case_ids(6, 0), maximum=1)
    result = search(wanted)
    assert len(result.findings) == 1
    assert result.done + result.left == 6


def test_shards_share_the_cases() -> None:
    shards = [case_ids(10, 5, shard, 4) for shard in range(4)]
    assert sorted(id for shard in shards for id in shard) == sorted(case_ids(10, 5))
    assert {len(shard) for shard in shards} == {3, 4}


def test_the_command_counts_and_ends_with_1_if_something_was_found() -> None:
    arguments = ["guarded", "broken_backends_guarded:ReadsBehindTheEnd", "--only", "operator/0", "--json"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 1, done.output
    content = json.loads(done.stdout)
    assert (content["done"], [finding["case"] for finding in content["findings"]]) == (1, ["operator/0"])
    done = CliRunner().invoke(main, ["guarded", "broken_backends_guarded:Inside", "--operators", "4", "--networks", "2"])
    assert done.exit_code == 0, done.output
    assert "6 cases ran, 0 could not be made, 0 had no time left, 0 findings" in done.stdout
    assert CliRunner().invoke(main, ["guarded", "CpuRef", "--shard", "8/8"]).exit_code == 2


def test_a_kernel_that_ends_the_process_with_status_0_is_found() -> None:
    result = searched("EndsTheProcess")
    assert (result.done, result.left, result.skipped) == (2, 0, {})
    assert {finding.problem.partition("\n")[0] for finding in result.findings} <= {
        "the process ended by itself, with exit code 0"
    }
    assert result.findings


def test_a_backend_that_ends_the_process_when_it_is_asked_is_found_once() -> None:
    result = searched("EndsTheProcessWhenAsked")
    assert (result.done, sorted(result.skipped)) == (0, ["operator/0", "operator/1"])
    assert [finding.problem for finding in result.findings] == ["the process ended by itself, with exit code 0"]


def test_a_backend_that_ends_the_process_when_it_is_closed_is_found() -> None:
    result = searched("EndsTheProcessWhenClosed")
    assert (result.done, result.left, result.skipped) == (2, 0, {})
    assert [(finding.case, finding.text) for finding in result.findings] == [
        ("operator/1", "closing the backend after this case")
    ]
    assert result.findings[0].problem == "the process ended by itself, with exit code 0"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("CrashesAfterClosing", "the process died with SIGSEGV"),
        ("EndsWithAStatus", "the process ended itself with exit code 3"),
    ],
)
def test_a_crash_after_everything_was_reported_is_found(name: str, problem: str) -> None:
    result = searched(name)
    assert (result.done, result.left, result.skipped) == (2, 0, {})
    assert [(finding.case, finding.text) for finding in result.findings] == [
        ("operator/1", "ending the process after this case")
    ]
    assert result.findings[0].problem.startswith(problem)


def test_a_case_that_hangs_ends_soon_after_the_time_for_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "_GRACE", 0.5)
    begin = time.monotonic()
    result = search(Wanted("broken_backends_guarded:Hangs", case_ids(4, 0), seconds=5.0))
    assert time.monotonic() - begin < 60  # without the bound: 120 s for each case
    assert result.done + result.left == 4
    assert result.left
    assert all("hung: nothing more came within" in finding.problem for finding in result.findings)


def test_the_exception_of_supports_is_told_once() -> None:
    result = searched("RaisesWhenAsked", operators=3, networks=2)
    assert result.done == 0
    assert len(result.skipped) == 5
    problems = [finding.problem for finding in result.findings]
    assert 1 <= len(problems) == len(set(problems)) <= 2  # of the first layer; networks ask about another one first
    for problem in problems:
        assert problem.startswith("supports() raised ValueError for dovetail.")
        assert ": not today" in problem
    both = Searched()
    both.add(result)
    both.add(result)  # as a second process would find them
    assert both.findings == result.findings


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["Nope"], "backend Nope is not installed"),
        (["not_there:Backend"], "'not_there:Backend' cannot be loaded: ModuleNotFoundError: No module named 'not_there'"),
        (["CpuRef", "--modules", "not_there"], "modules cannot be imported: ModuleNotFoundError: No module named 'not_there'"),
        (["CpuRef", "--modules", "json"], "module 'json' has no OPERATOR"),
        (["CpuRef", "--options", "nope=1"], "backend CpuRef has no option 'nope'"),
        (["CpuRef", "--only", "bogus"], "'bogus' is no case; write operator/12 or network/3"),
        (["CpuRef", "--only", "operator/-1"], "'operator/-1' is no case"),
    ],
)
def test_what_is_not_there_is_an_error_of_the_command_line(arguments: list[str], told: str) -> None:
    done = CliRunner().invoke(main, ["guarded", *arguments, "--operators", "2", "--networks", "0"])
    assert done.exit_code == 2, done.output
    assert told in " ".join(done.output.split())
    assert "Traceback" not in done.output
    assert "defect" not in done.output
