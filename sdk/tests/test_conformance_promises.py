"""Promised bits and declared deviations: backends that keep them, and backends that do not."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import Result

from dovetail import DType, Network
from dovetail.contract.claims import Claim
from dovetail.contract.promises import Deviation
from dovetail_sdk.conformance.cases import EXACT, Bits, Case, Tolerance
from dovetail_sdk.conformance.checks import all_checks, checks_up_to
from dovetail_sdk.conformance.evaluation import Estimate, evaluate
from dovetail_sdk.conformance.judging import Rule
from dovetail_sdk.conformance.reports import write_report
from dovetail_sdk.conformance.results import CheckResult, Report, Status, Verdict
from dovetail_sdk.conformance.runner import run_check, run_checks
from dovetail_sdk.conformance.subject import Settings
from dovetail_sdk.conformance.suite import warn_of_unseen
from dovetail_sdk.conformance.target import open_target

FOLDER = Path(__file__).parent
ADDING = "operators.computes[dovetail.ElementwiseBinary]"
PROMISES = "identity.promises_are_wellformed"
CHECKS = {check.id: check for check in all_checks()}


@pytest.fixture(scope="module", autouse=True)
def backends() -> Iterator[ModuleType]:
    """The module `promising_backends`, also for child processes."""
    before = os.environ.get("PYTHONPATH")
    sys.path.insert(0, str(FOLDER))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(FOLDER), *([before] if before else [])])
    yield importlib.import_module("promising_backends")
    sys.path.remove(str(FOLDER))
    os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)
    for name in ("promising_backends", "broken_backends"):
        sys.modules.pop(name, None)


def run_one(name: str, id: str = ADDING, **settings: Any) -> CheckResult:
    return run_check(CHECKS[id], open_target(f"promising_backends:{name}"), Settings(**settings))


def report_of(name: str, *patterns: str, **settings: Any) -> Report:
    checks = checks_up_to(2, patterns or (ADDING, PROMISES))
    return run_checks(checks, open_target(f"promising_backends:{name}"), Settings(**settings))


# -- bits ------------------------------------------------------------------------------------------


def test_promised_bits_are_held_with_zero_tolerance() -> None:
    kept, broken = run_one("PromisesBits"), run_one("RoundsDown")
    assert kept.status is Status.PASSED, kept.text
    assert {standard for standard, _, _ in kept.bits} == {"ieee"}
    assert broken.status is Status.FAILED
    assert all("/float32/" in case.id for case in broken.cases)
    assert "bit-exact by ieee" in broken.cases[0].text


def test_bits_that_are_not_promised_are_held_only_where_they_are_asked_for() -> None:
    assert run_one("RoundsDownWithoutPromise").status is Status.PASSED
    asked = run_one("RoundsDownWithoutPromise", bit_exact=True)
    assert asked.status is Status.FAILED
    assert "bit-exact by ieee" in asked.cases[0].text
    assert run_one("PromisesBits", bit_exact=True).status is Status.PASSED


def test_promised_bits_that_no_standard_defines_are_listed_as_not_judged() -> None:
    result = run_one("PromisesUnknownBits")
    assert result.status is Status.PASSED
    assert not result.bits
    assert any("bits by the standard 'litert'" in what for _, _, what, _ in result.unreached)


def case_of(expected: Any, tolerance: Tolerance, **bits: Bits) -> Case:
    return Case(lambda graph, slots: (), (), (np.asarray(expected),), (tolerance,), (bits,) if bits else ())


QUANTUM = Tolerance(0.0, 1.0, "one quantum")
TIES = {
    "litert": Bits(np.asarray([3, -3], np.int8)),
    "onnx": Bits(np.asarray([2, -2], np.int8), np.asarray([False, True])),
}


@pytest.mark.parametrize(
    ("rule", "got", "right"),
    [
        (Rule(), [3, -3], True),
        (Rule(), [4, -3], False),
        (Rule("litert"), [3, -3], True),
        (Rule("litert"), [2, -2], False),
        (Rule("onnx"), [2, -2], True),
        (Rule("onnx"), [2, -3], True),  # where the standard leaves the result open
        (Rule("onnx"), [2, -5], False),  # but the tolerance does not
        (Rule("onnx"), [3, -3], False),
        (Rule("ieee"), [3, -2], True),  # defines nothing here: the tolerance holds
        (Rule(bit_exact=True), [3, -3], True),
        (Rule(bit_exact=True), [2, -2], True),
        (Rule(bit_exact=True), [3, -2], False),  # one standard for all of a result
    ],
)
def test_each_standard_rounds_ties_its_own_way(rule: Rule, got: list[int], right: bool) -> None:
    case = case_of(np.asarray([2, -3], np.int8), QUANTUM, **TIES)
    finding = rule.judge(case, [np.asarray(got, np.int8)], [DType.INT8])
    assert (finding.problem == "") is right, finding.text


def test_a_rule_says_by_which_standard_a_case_is_exact() -> None:
    tied = case_of(np.asarray([2], np.int8), QUANTUM, **TIES)
    plain = case_of(np.asarray([2], np.int8), EXACT)
    assert [Rule(standard).held_to(tied) for standard in (None, "onnx", "litert", "ieee")] == ["", "onnx", "litert", ""]
    assert Rule(bit_exact=True).held_to(tied) == "litert or onnx"
    assert Rule().held_to(plain) == Rule("onnx").held_to(plain) == "kind"


# -- deviations ------------------------------------------------------------------------------------


def test_a_declared_deviation_has_a_state_of_its_own_and_fails_nothing() -> None:
    report = report_of("DeviatesAsDeclared")
    result = next(one for one in report.results if one.check.id == ADDING)
    assert result.status is Status.DEVIATES
    assert "differ by no more than the manifest declares" in result.text
    assert not result.cases
    assert report.verdict is Verdict.CONFORMS
    counts = report.counts["dovetail.ElementwiseBinary", "float32"]
    assert 0 < counts.deviating < counts.run
    assert not counts.failed
    (known,) = report.deviations
    assert known.state == "deviates as declared"
    assert len(known.cases) == counts.deviating
    assert known.described == (
        "dovetail.ElementwiseBinary of float32, where operation: add: sums are too large (by at most 0.5), "
        "because the adder has a carry stuck"
    )


@pytest.mark.parametrize("name", ["DeviatesFurther", "DeviatesElsewhere", "LosesNumbersToo"])
def test_more_than_what_is_declared_fails(name: str) -> None:
    report = report_of(name)
    assert report.verdict is Verdict.FAILS
    assert next(one for one in report.results if one.check.id == ADDING).cases


def test_a_deviation_that_no_longer_occurs_is_reported() -> None:
    report = report_of("DeviatesNoMore")
    (known,) = report.deviations
    assert known.state == "declared, not seen"
    assert report.verdict is Verdict.CONFORMS
    with pytest.warns(UserWarning, match="declared, not seen: dovetail.ElementwiseBinary of float32"):
        warn_of_unseen(report)
    (unjudged,) = report_of("DeviatesNoMore", PROMISES).deviations
    assert unjudged.state == "declared, not judged"


def test_lost_nan_may_be_declared() -> None:
    result = run_one("LosesNan")
    assert result.status is Status.DEVIATES, result.text
    assert all("values=special" in id for id in result.deviations[0].cases)


def test_bounds_of_graphs_have_room_for_a_declared_deviation(backends: ModuleType) -> None:
    net = Network("room")
    a = net.input("a", (2, 3))
    net.output(net.binary(a, a, "add"), "y")
    deviation = Deviation("dovetail.ElementwiseBinary", Claim((DType.FLOAT32,)), "off", "why", 0.5, 0.25)
    feeds = {"a": np.full((2, 3), 2.0, np.float32)}
    plain = evaluate(net, feeds)["y"]
    wide = evaluate(net, feeds, lambda layer: (deviation,))["y"]
    assert isinstance(wide, Estimate)
    np.testing.assert_allclose(wide.worst - plain.worst, 0.5 + 0.25 * 4.0)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("MisspeltPromise", "did you mean 'operation'"),
        ("MalformedPromise", "lacks why"),
        ("UnknownLateFailure", "the options of 'late_failure' in its manifest cannot be built"),
    ],
)
def test_a_promise_that_cannot_be_held_is_refused(name: str, text: str) -> None:
    result = run_one(name, PROMISES)
    assert result.status is Status.FAILED
    assert text in result.text


def test_promises_without_fault_pass_and_none_do_not_apply() -> None:
    assert run_one("PromisesBits", PROMISES).status is Status.PASSED
    assert run_one("RoundsDownWithoutPromise", PROMISES).status is Status.NOT_APPLICABLE


# -- what people and programs see ------------------------------------------------------------------


def test_reports_show_deviations_apart(tmp_path: Path) -> None:
    report = report_of("DeviatesAsDeclared")
    for suffix in ("json", "xml", "html"):
        write_report(report, tmp_path / f"report.{suffix}")
    data = json.loads((tmp_path / "report.json").read_text())
    (known,) = data["deviations"]
    assert (known["state"], known["what"], known["bound"]) == ("deviates as declared", "sums are too large", "by at most 0.5")
    assert known["cases"][0]["text"]
    assert {check["status"] for check in data["checks"]} == {"passed", "deviates as declared"}
    tree = ElementTree.parse(tmp_path / "report.xml")
    (suite,) = (one for one in tree.iter("testsuite") if one.get("name") == "declared deviations")
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "1")
    assert "deviates as declared" in str(next(suite.iter("skipped")).get("message"))
    page = (tmp_path / "report.html").read_text()
    assert '<span class="badge deviates">deviates as declared</span>' in page
    assert ">D<small>" in page


def test_conform_shows_deviations_and_bits(dovetail: Callable[..., Result]) -> None:
    shown = dovetail("conform", "promising_backends:DeviatesAsDeclared", "--level", 2, "--only", ADDING.split("[")[1][:-1])
    assert shown.exit_code == 0, shown.output
    assert "DEVIATES AS DECLARED dovetail.ElementwiseBinary of float32" in shown.output
    assert "1 deviates as declared" in shown.output
    assert "deviating as declared" in shown.output
    exact = dovetail("conform", "promising_backends:RoundsDownWithoutPromise", "--level", 2, "--only", "Binary", "--bit-exact")
    assert exact.exit_code == 1
    assert "bit-exact as asked for, judged with zero tolerance by the standard 'ieee'" in exact.output
