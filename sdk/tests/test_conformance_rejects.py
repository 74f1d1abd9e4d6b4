"""The kit must reject each broken backend, for the right reason, and accept the right one."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dovetail import DovetailError
from dovetail_sdk.conformance.checks import Check, all_checks, checks_up_to
from dovetail_sdk.conformance.results import CheckResult, Status, Verdict
from dovetail_sdk.conformance.runner import run_check, run_checks
from dovetail_sdk.conformance.subject import Settings, Subject
from dovetail_sdk.conformance.supervisor import Orders, Supervisor
from dovetail_sdk.conformance.target import open_target

FOLDER = Path(__file__).parent
BELOW = ("identity.*", "contract.*", "lifecycle.*")
ADDING = "operators.computes[dovetail.ElementwiseBinary]"


@pytest.fixture(scope="module")
def broken() -> Iterator[ModuleType]:
    """The module `broken_backends`, also for child processes."""
    name = "broken_backends"
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # "broken_backends:Class" finds it there
    spec.loader.exec_module(module)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(FOLDER), *([before] if before else [])])
    yield module
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before
    del sys.modules[name]


def check_of(id: str) -> Check:
    return next(check for check in all_checks() if check.id == id)


def run_one(name: str, id: str, seconds: float | None = None) -> CheckResult:
    check = check_of(id)
    return run_check(dataclasses.replace(check, seconds=seconds or check.seconds), open_target(f"broken_backends:{name}"))


def everything(result: CheckResult) -> str:
    return "\n".join([result.text, *(f"{case.id}: {case.text}" for case in result.cases)])


@pytest.mark.parametrize("name", ["Correct", "WithoutClaims"])
def test_a_correct_backend_conforms(broken: ModuleType, name: str) -> None:
    report = run_checks(checks_up_to(2, [*BELOW, ADDING]), open_target(f"broken_backends:{name}"))
    assert [(one.check.id, one.text, one.cases) for one in report.problems] == []
    assert report.verdict is Verdict.CONFORMS
    assert report.counts["dovetail.ElementwiseBinary", "float32"].run >= 10
    assert report.counts["dovetail.ElementwiseBinary", "float64"].run == 0
    assert report.counts["dovetail.ElementwiseBinary", "float64"].refused >= 10
    claimed = report.counts["dovetail.ElementwiseBinary", "float32"].claimed
    assert claimed == (0 if name == "WithoutClaims" else report.counts["dovetail.ElementwiseBinary", "float32"].run)


def test_both_sides_of_each_claimed_boundary_are_tried(broken: ModuleType) -> None:
    shapes: set[tuple[int, ...]] = set()

    class Curious(broken.Correct):  # type: ignore[misc, name-defined]  # the module is known at run time only
        def supports(self, layer: Any, options: Any, device: Any) -> Any:
            shapes.add(layer.output_infos[0].sizes)
            return super().supports(layer, options, device)

    result = run_check(check_of(ADDING), open_target(Curious()))
    assert result.status is Status.PASSED, everything(result)
    assert {0, 1, 2, 7, 8, 9} <= {shape[-1] for shape in shapes if shape}  # the claim is 1 to 8
    assert {0, 3, 4, 5} <= {len(shape) for shape in shapes}  # the claim is at most 4


REJECTED = [
    ("WrongId", "identity.manifest_is_valid", "'CpuOther'"),
    ("NewerAbi", "identity.manifest_is_valid", "ABI 7.0"),
    ("MisspeltClaim", "identity.claims_are_wellformed", "did you mean 'operation'"),
    ("UnknownClaim", "identity.claims_are_wellformed", "did you mean dovetail.ElementwiseBinary"),
    ("NoDevice", "identity.devices_are_named", "no device"),
    ("NoCapabilities", "identity.capabilities_are_wellformed", "not a Capabilities"),
    ("ThawedOptions", "identity.options_have_defaults", "not frozen"),
    ("OptionsWithoutDefaults", "identity.options_have_defaults", "have no defaults"),
    ("Clairvoyant", "identity.kind_versions_exist", "version 99"),
    ("RefusesWithoutReason", "contract.supports_answers", "without a code and a reason"),
    ("RaisesInSupports", "contract.supports_answers", "raised KeyError"),
    ("AnswersTrue", "contract.supports_answers", "not a Support"),
    ("SupportsAtRandom", "contract.supports_is_deterministic", "and then, of the same layer"),
    ("AcceptsEverything", "contract.refuses_strange_kinds", "made up for this check"),
    ("SameWorkloadTwice", "contract.workloads_are_fresh", "same workload twice"),
    ("AsynchronousWithoutQueues", "contract.queues_fit_capabilities", "queues() returned None"),
    ("OverlappingMemory", "contract.memory_is_handed_out", "one address twice"),
    ("MemoryOfSomebodyElse", "contract.memory_domains_are_valid", "'GpuOther'"),
    ("HookRaises", "lifecycle.teardown_in_any_order", "the driver is gone"),
    ("SecondContextBreaksFirst", "lifecycle.runtimes_are_apart", "the device was closed"),
    ("LeaksMemory", "lifecycle.loads_leak_nothing", "bytes"),
    ("LeaksFiles", "lifecycle.loads_leak_nothing", "open files"),
    ("DiesAtExit", "lifecycle.interpreter_ends", "exit code 3"),
    ("DoesNotSurviveFork", "lifecycle.survives_fork", "my threads are gone"),
    ("WrongNumbers", ADDING, "allowed difference"),
    ("WrongAtTheBoundary", ADDING, "channels=8"),
    ("WrongOutsideTheClaim", ADDING, "channels=9"),
    ("FalseClaim", ADDING, "false claim"),
    *(
        ("FalseFusion", ADDING, f"ElementwiseBinary/float32/activation={name}:")
        for name in ("linear", "selu", "celu", "softplus", "softsign", "mish", "shrink", "thresholded_relu")
    ),
    ("FalseFusion", ADDING, "ElementwiseBinary/float32/activation=selu:"),
    ("KeepsState", ADDING, "values before"),
    ("WritesItsInput", ADDING, "wrote to its input 0"),
    ("WritesItsConstant", ADDING, "wrote to its constant"),
    ("LeavesOutputUnwritten", ADDING, "elements are wrong"),
    ("AddsOnTop", ADDING, "elements are wrong"),
    ("BroadcastsTheWrongWay", ADDING, "broadcast_"),
    ("RoundsThroughHalf", ADDING, "float32[2, 3, 4, 5]"),
    ("IntegersThroughFloat", ADDING, "ElementwiseBinary/int32/"),
    ("WrongSubstitution", ADDING, "elements are wrong"),
    ("WrongWay", "choices.ways_are_right", "privately"),
    ("OtherWaysEachTime", "choices.ways_are_right", "offers other things when it is asked again"),
    ("RefusesWhatItAccepted", ADDING, "it is accepted, but then"),
    ("CallsExit", ADDING, "SystemExit: no licence"),
]


@pytest.mark.parametrize(("name", "id", "word"), REJECTED, ids=[name for name, _, _ in REJECTED])
def test_a_broken_backend_is_rejected_for_the_right_reason(broken: ModuleType, name: str, id: str, word: str) -> None:
    result = run_one(name, id)
    assert result.status is Status.FAILED, everything(result)
    assert word in everything(result)
    assert result.check.troubleshooting


def test_every_function_that_is_claimed_behind_a_sum_is_judged(broken: ModuleType) -> None:
    failed = {case.id.rpartition("=")[2] for case in run_one("FalseFusion", ADDING).cases if "/activation=" in case.id}
    assert failed >= {"linear", "selu", "celu", "softplus", "softsign", "mish", "shrink", "thresholded_relu"}
    assert "relu" not in failed


def test_what_no_case_reaches_is_told(broken: ModuleType) -> None:
    result = run_one("ClaimsBeyondReach", ADDING)
    assert result.status is Status.PASSED, everything(result)
    told = {what: reason for kind, dtype, what, reason in result.unreached if dtype == "float32"}
    beyond = "the kit tries nothing beyond 65536"
    assert told == {"output.-1 123457": "", "a.elements 98765432": beyond, "a.elements above 98765432": beyond}
    assert not run_one("Correct", ADDING).unreached


def test_ways_that_are_right_pass_and_a_backend_without_any_has_none_to_prove(broken: ModuleType) -> None:
    result = run_one("ManyWays", "choices.ways_are_right")
    assert result.status is Status.PASSED, everything(result)
    assert any("in other ways" in note for note in result.notes)
    assert run_one("Correct", "choices.ways_are_right").status is Status.NOT_APPLICABLE


def test_only_the_wrong_cases_fail(broken: ModuleType) -> None:
    result = run_one("WrongAtTheBoundary", ADDING)
    assert {case.id for case in result.cases} == {f"ElementwiseBinary/{dtype}/channels=8" for dtype in ("float32", "int32")}
    good = run_one("Correct", ADDING)
    both = result.counts["dovetail.ElementwiseBinary", "float32"], good.counts["dovetail.ElementwiseBinary", "float32"]
    assert both[0].run == both[1].run
    assert 0 < both[0].failed < both[0].run / 4


def test_a_backend_that_refuses_everything_proves_nothing(broken: ModuleType) -> None:
    report = run_checks(checks_up_to(2), open_target("broken_backends:RefusesEverything"))
    assert report.problems == []
    assert report.verdict is Verdict.FAILS
    assert "nothing ran" in report.objection


def test_a_hang_is_ended_and_told_with_its_stack(broken: ModuleType) -> None:
    try:
        result = run_one("Hangs", ADDING, seconds=1.0)
    finally:  # else its thread would be in a load for as long as this process lives
        broken.Hangs.ended.set()
        for thread in [thread for thread in threading.enumerate() if ADDING in thread.name]:
            thread.join(60)
    assert result.status is Status.FAILED
    assert result.text.startswith("hung: nothing came for 1 s")
    assert "self.ended.wait(3600)" in result.text


def test_a_slow_check_that_goes_on_is_no_hang(broken: ModuleType) -> None:
    def slow(subject: Subject) -> None:
        for number in range(8):
            subject.step(f"part {number}")
            time.sleep(0.2)

    check = dataclasses.replace(check_of("lifecycle.reloads"), function=slow, seconds=1.0)
    assert run_check(check, open_target("broken_backends:Correct")).status is Status.PASSED


def test_known_failures_are_told_apart(broken: ModuleType) -> None:
    settings = Settings(tolerate=("ElementwiseBinary/int32/*",))
    result = run_check(check_of(ADDING), open_target("broken_backends:FalseClaim"), settings)
    assert result.status is Status.EXPECTED
    settings = Settings(tolerate=("ElementwiseBinary/float32/*",))
    assert run_check(check_of(ADDING), open_target("broken_backends:FalseClaim"), settings).status is Status.FAILED


def test_without_time_nothing_is_proven(broken: ModuleType) -> None:
    report = run_checks(checks_up_to(2, [ADDING, "identity.*"]), open_target("broken_backends:Correct"), Settings(deadline=0.0))
    assert report.verdict is not Verdict.CONFORMS
    assert all(result.status is Status.NOT_RUN for result in report.results)
    assert "budget" in report.results[-1].text


# -- processes -------------------------------------------------------------------------------------


def supervised(name: str, *patterns: str, seconds: float = 60) -> dict[str, CheckResult]:
    report = Supervisor(Orders(f"broken_backends:{name}", seconds=seconds)).run(checks_up_to(2, patterns), 2)
    return {result.check.id: result for result in report.results}


def test_a_crash_costs_one_check_and_names_its_case(broken: ModuleType) -> None:
    results = supervised("Crashes", "identity.", ADDING, "operators.claims_are_judged")
    assert results[ADDING].status is Status.FAILED
    assert "SIGSEGV" in results[ADDING].text
    assert "channels=7" in results[ADDING].text
    assert results["operators.claims_are_judged"].status is Status.PASSED
    assert results["identity.id_is_valid"].status is Status.PASSED


def test_a_backend_that_ends_the_process_is_reported(broken: ModuleType) -> None:
    results = supervised("EndsTheProcess", ADDING, "operators.claims_are_judged")
    assert "exit code 5" in results[ADDING].text
    assert results["operators.claims_are_judged"].status is Status.PASSED


def test_a_crash_while_loading_is_reported(broken: ModuleType) -> None:
    results = supervised("crashes_on_import", "identity.")
    assert results["process.loads"].status is Status.FAILED
    assert "SIGABRT" in results["process.loads"].text
    assert results["identity.id_is_valid"].status is Status.NOT_RUN


def test_a_hang_in_a_child_is_ended(broken: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    check = dataclasses.replace(check_of("lifecycle.reloads"), seconds=2.0)
    rest = check_of("operators.claims_are_judged")
    report = Supervisor(Orders("broken_backends:Hangs", seconds=60)).run([check, rest], 2)
    results = {result.check.id: result for result in report.results}
    assert results[check.id].text.startswith("hung")
    assert "create_workload_factory" in results[check.id].text
    assert results[rest.id].status is Status.PASSED


def test_a_hang_is_ended_soon_after_the_time_for_everything(broken: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dovetail_sdk.conformance.supervisor._GRACE", 0.2)
    started = time.monotonic()
    report = Supervisor(Orders("broken_backends:Hangs", seconds=3)).run([check_of("lifecycle.reloads")], 4)
    assert time.monotonic() - started < 60  # a check may take 120 s
    (result,) = [result for result in report.results if result.check.id == "lifecycle.reloads"]
    assert (result.status, result.text.startswith("hung")) == (Status.FAILED, True)


def test_a_correct_backend_conforms_in_children(broken: ModuleType) -> None:
    report = Supervisor(Orders("broken_backends:Correct", seconds=60)).run(checks_up_to(2), 2)
    assert [(one.check.id, one.text, one.cases) for one in report.problems] == []
    assert report.backend == "CpuSmall"
    assert report.verdict is Verdict.CONFORMS


# -- devices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", [0, 1])
def test_claims_are_judged_by_what_the_device_says_of_itself(broken: ModuleType, device: int) -> None:
    """Device 1 alone has what the claims ask for, and there one of them is false."""
    report = run_checks([check_of(ADDING)], open_target(f"broken_backends:FalseClaimOfOneDevice:{device}"))
    if device:
        assert report.verdict is Verdict.FAILS
        assert "false claim" in everything(report.results[0])
    else:
        assert "no case lies within a claim on device 0 (narrow)" in report.objection
    assert report.device == ("1 (wide)" if device else "0 (narrow)")


def test_a_backend_is_loaded_on_the_device_that_is_judged(broken: ModuleType) -> None:
    results = {}
    for device in (0, 1):
        target = open_target(f"broken_backends:WrongOnOneDevice:{device}")
        results[device] = run_check(check_of(ADDING), target).status
    assert results == {0: Status.PASSED, 1: Status.FAILED}


def test_a_device_that_is_not_there_is_refused(broken: ModuleType) -> None:
    with pytest.raises(DovetailError, match="CpuSmall has 1 devices: CPU") as caught:
        open_target("broken_backends:Correct:3")
    assert caught.value.code == "BACKEND_UNAVAILABLE"
