"""Reports, the command, and the small parts of the kit."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import Result

from dovetail import DType
from dovetail.contract.conditions import Condition, Range
from dovetail.contract.quantities import Quantity
from dovetail_sdk.commands.conform import options_of, seconds_of, unreached_lines
from dovetail_sdk.conformance.cases import EXACT, Tolerance
from dovetail_sdk.conformance.checks import Check, Level, all_checks, check, checks_up_to, pattern_hint, troubleshooting_of
from dovetail_sdk.conformance.comparing import from_bfloat16, mismatch, to_bfloat16
from dovetail_sdk.conformance.reports import write_report
from dovetail_sdk.conformance.reports.page import cell_state
from dovetail_sdk.conformance.results import CheckResult, Counts, Report, Status, Verdict, end_event
from dovetail_sdk.conformance.trials import awkward_array
from dovetail_sdk.conformance.variants import boundary_values

FOLDER = Path(__file__).parent


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process and its children find `broken_backends`."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("PYTHONPATH", str(FOLDER), prepend=os.pathsep)
    yield
    sys.modules.pop("broken_backends", None)


def result_of(id: str, level: int, status: Status, text: str = "", **counts: int) -> CheckResult:
    one = CheckResult(
        Check(id, Level(level), "does <this>", "Look at `that` & <there>.", lambda subject: None, "x" if level == 2 else None)
    )
    if counts:
        one.take({"event": "count", "kind": "dovetail.Softmax", "dtype": "float32", "numbers": counts})
    if counts.get("failed"):
        one.take({"event": "case", "id": "Softmax/float32/axis=1", "text": "got <nan>\x00, expected 1"})
    one.take(end_event(status, text, 0.25, {"growth": 3}))
    return one


@pytest.fixture
def report() -> Report:
    one = Report(
        "AcmeNpu", 2, environment={"seed": 3, "date": "2026-01-01", "files": {"acme/a.so": "ff"}, "versions": {"numpy": "2"}}
    )
    one.results = [
        result_of("identity.id", 0, Status.PASSED),
        result_of("contract.x", 1, Status.NOT_APPLICABLE, "it has no queues"),
        result_of(
            "operators.computes[dovetail.Softmax]", 2, Status.FAILED, "1 case failed\nsecond line", run=4, claimed=5, failed=1
        ),
        result_of("operators.computes[dovetail.Split]", 2, Status.NOT_RUN, "the budget is used up"),
    ]
    one.results[2].take({"event": "not judged", "kind": "acme.Swish", "dtype": "int8"})
    return one


class Balance(HTMLParser):
    """Checks that every tag is closed, and that nothing is fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag not in ("link", "img", "iframe")
        assert not {"src", "href"} & {name for name, _ in attributes}
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_else(report: Report, tmp_path: Path) -> None:
    write_report(report, tmp_path / "out.html")
    text = (tmp_path / "out.html").read_text()
    reader = Balance()
    reader.feed(text)
    assert reader.open == []
    assert "http" not in text
    assert "does not conform" in text
    assert 'title="dovetail.Softmax of float32: a case is wrong; 5 claimed, 4 run' in text
    assert 'title="acme.Swish of int8: claimed, but nothing could judge it' in text
    assert "got &lt;nan&gt;" in text
    assert "Look at <code>that</code> &amp; &lt;there&gt;." in text
    assert text.count('class="check"') == len(report.results)


def test_junit_counts_failures_and_skips(report: Report, tmp_path: Path) -> None:
    write_report(report, tmp_path / "out.xml")
    suites = ElementTree.parse(tmp_path / "out.xml").getroot()
    assert [suite.get("name") for suite in suites] == ["level 0: identity", "level 1: contract", "level 2: operators"]
    operators = suites[2]
    assert (operators.get("tests"), operators.get("failures"), operators.get("skipped")) == ("3", "2", "1")
    failure = operators.find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == "1 case failed"
    assert "Troubleshooting: Look at `that`" in (failure.text or "")


def test_junit_fails_where_the_run_as_a_whole_proves_nothing(tmp_path: Path) -> None:
    empty = Report("AcmeNpu", 2, [result_of("contract.x", 1, Status.NOT_APPLICABLE, "nothing")])
    assert empty.verdict is Verdict.FAILS
    write_report(empty, tmp_path / "out.xml")
    assert ElementTree.parse(tmp_path / "out.xml").getroot().find(".//failure") is not None


def test_json_says_everything(report: Report, tmp_path: Path) -> None:
    write_report(report, tmp_path / "out.json")
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["verdict"] == "does not conform"
    assert content["counts"] == [
        {
            "kind": "dovetail.Softmax",
            "dtype": "float32",
            "claimed": 5,
            "run": 4,
            "refused": 0,
            "failed": 1,
            "unclaimed": 0,
            "folded": 0,
            "exact": 0,
            "deviating": 0,
        }
    ]
    assert content["not_judged"] == [{"kind": "acme.Swish", "dtype": "int8"}]
    failed = next(one for one in content["checks"] if one["status"] == "failed")
    assert failed["facts"] == {"growth": 3}
    assert failed["cases"][0]["id"] == "Softmax/float32/axis=1"
    assert content["environment"]["files"] == {"acme/a.so": "ff"}


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        ([Status.PASSED], Verdict.CONFORMS),
        ([Status.PASSED, Status.NOT_APPLICABLE, Status.EXPECTED], Verdict.CONFORMS),
        ([Status.PASSED, Status.NOT_RUN], Verdict.INCOMPLETE),
        ([Status.FAILED, Status.NOT_RUN], Verdict.FAILS),
        ([Status.NOT_APPLICABLE], Verdict.FAILS),
        ([], Verdict.FAILS),
    ],
)
def test_verdicts(statuses: list[Status], verdict: Verdict) -> None:
    assert Report("A", 1, [result_of(f"x.{n}", 1, status) for n, status in enumerate(statuses)]).verdict is verdict


@pytest.mark.parametrize(
    ("counts", "not_judged", "state"),
    [
        (Counts(run=3), False, "passed"),
        (Counts(run=3, refused=1), False, "partial"),
        (Counts(refused=1), False, "refused"),
        (Counts(run=3, failed=1), True, "failed"),
        (Counts(folded=3), False, "folded"),
        (Counts(refused=2), True, "unknown"),
        (None, True, "unknown"),
        (None, False, ""),
        (Counts(), False, ""),
    ],
)
def test_cells_of_the_matrix(counts: Counts | None, not_judged: bool, state: str) -> None:
    assert cell_state(counts, not_judged=not_judged) == state


# -- comparing -------------------------------------------------------------------------------------


def test_comparing_names_the_worst_element() -> None:
    got = np.array([[1.0, 2.0], [3.5, 4.0]], np.float32)
    text = mismatch(got, np.array([[1.0, 2.1], [3.0, 4.0]]), Tolerance(0.0, 0.01, "a bound"), DType.FLOAT32)
    assert text == ("2 of 4 elements are wrong, worst at [1, 0]: got 3.5, expected 3.0, allowed difference 0.01 (a bound)")


@pytest.mark.parametrize(
    ("got", "expected", "tolerance", "dtype", "right"),
    [
        (np.float32([np.nan, np.inf]), np.array([np.nan, np.inf]), EXACT, DType.FLOAT32, True),
        (np.float32([np.nan]), np.array([1.0]), Tolerance(1.0, 1.0, "x"), DType.FLOAT32, False),
        (np.float32([1.0]), np.array([np.nan]), Tolerance(1.0, 1.0, "x"), DType.FLOAT32, False),
        (np.float32([np.inf]), np.array([-np.inf]), Tolerance(1.0, 1.0, "x"), DType.FLOAT32, False),
        (np.float32([0.1]), np.array([0.1]), EXACT, DType.FLOAT32, True),  # the nearest float32 of the wider value
        (np.float32([0.1]) + np.float32(1e-8), np.array([0.1]), EXACT, DType.FLOAT32, False),
        (np.float16([np.inf]), np.array([70000.0]), EXACT, DType.FLOAT16, True),
        (np.float16([65504]), np.array([70000.0]), Tolerance(0.01, 0.0, "x"), DType.FLOAT16, True),
        (np.float16([-np.inf]), np.array([70000.0]), Tolerance(0.01, 0.0, "x"), DType.FLOAT16, False),
        (np.int8([3]), np.int8([4]), EXACT, DType.INT8, False),
        (np.int8([3]), np.int8([4]), Tolerance(0.0, 1.0, "one quantum"), DType.INT8, True),
        (np.int8([-128]), np.int8([127]), Tolerance(0.0, 1.0, "no wrap"), DType.INT8, False),
        (np.int64([2**62]), np.int64([2**62 + 1]), EXACT, DType.INT64, False),  # equal in float64
        (np.uint64([2**64 - 1]), np.uint64([2**64 - 2]), Tolerance(0.0, 0.5, "x"), DType.UINT64, False),
        (np.float32([[1.0]]), np.array([1.0]), EXACT, DType.FLOAT32, False),
        (np.float64([1.0]), np.array([1.0]), EXACT, DType.FLOAT32, False),
        (np.zeros((0, 3), np.float32), np.zeros((0, 3)), EXACT, DType.FLOAT32, True),
        (np.uint16([0x3F80]), np.array([1.0]), EXACT, DType.BFLOAT16, True),
        (np.uint16([0x3F80]), np.uint16([0x3F80]), EXACT, DType.BFLOAT16, True),
        (np.uint16([0x3F80]), np.array([1.01]), EXACT, DType.BFLOAT16, False),
        (np.uint16([0x3F80]), np.array([1.01]), Tolerance(0.02, 0.0, "x"), DType.BFLOAT16, True),
        (np.uint8([165]).view(np.bool_), np.array([True]), EXACT, DType.BOOL, False),
        (np.array([True, False]), np.array([True, False]), EXACT, DType.BOOL, True),
    ],
)
def test_comparing(got: Any, expected: Any, tolerance: Tolerance, dtype: DType, right: bool) -> None:
    assert (mismatch(got, expected, tolerance, dtype) == "") is right


def test_bfloat16_is_rounded_once() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.random.default_rng(0).normal(size=4096).astype(np.float32)
    values = np.concatenate([values, np.float32([np.inf, -np.inf, 0.0, -0.0, 3.4e38, 1e-45, 65280.0])])
    assert np.array_equal(to_bfloat16(values), values.astype(ml_dtypes.bfloat16).view(np.uint16))
    just_above_a_tie = 1.0 + 2.0**-8 + 2.0**-40  # float32 takes it for the tie, which goes to even, which is below
    assert from_bfloat16(to_bfloat16(np.array([just_above_a_tie])))[0] == 1.0 + 2.0**-7
    assert np.isnan(from_bfloat16(to_bfloat16(np.array([np.nan])))[0])


def test_awkward_arrays_hold_the_same_values() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    made = [awkward_array(array, number) for number in range(3)]
    assert all(np.array_equal(one, array) and not one.flags.writeable for one in made)
    assert [one.flags.c_contiguous for one in made] == [False, True, False]
    assert not made[1].flags.aligned
    for shape in ((), (0,), (1,)):
        assert all(awkward_array(np.ones(shape, np.int64), number).shape == shape for number in range(3))


def condition(*alternatives: Any) -> Condition:
    ranges = [one for one in alternatives if isinstance(one, Range)]
    return Condition(Quantity("c"), [one for one in alternatives if not isinstance(one, Range)], ranges)


@pytest.mark.parametrize(
    ("limits", "like", "values"),
    [
        (condition(Range(1, 8)), 3, [1, 0, 2, 8, 7, 9]),
        (condition(Range(multiple_of=8)), 8, [8, 16, 7, 9]),
        (condition(Range(4, multiple_of=16)), 8, [16, 32, 15, 17, 3, 5]),
        (condition("NHWC"), "NCHW", ["NHWC"]),
        (condition(Range(1, 2)), (1, 1), [(1, 1), (0, 0), (0, 1), (2, 2), (2, 1), (3, 3), (3, 1)]),
        (condition(Range(maximum=1 << 40)), 3, []),
        (condition(None, 3), 3, [3]),
        (condition(2, Range(4, multiple_of=4)), 3, [2, 3, 4, 5, 8]),
        (condition(Range(1, Quantity("d"))), 3, [0, 1, 2]),
    ],
)
def test_values_on_both_sides_of_a_boundary(limits: Condition, like: Any, values: list[Any]) -> None:
    assert sorted(map(str, dict.fromkeys(boundary_values(limits, like)))) == sorted(map(str, values))


# -- checks ----------------------------------------------------------------------------------------


def test_every_check_helps_and_has_an_id_of_its_own() -> None:
    checks = all_checks()
    assert len({one.id for one in checks}) == len(checks)
    assert all(len(one.troubleshooting) > 40 and one.title and not one.title.endswith(".") for one in checks)
    assert {one.level for one in checks} >= {Level.IDENTITY, Level.CONTRACT, Level.OPERATORS}


def test_a_check_without_troubleshooting_cannot_be_registered() -> None:
    def silent(subject: object) -> None:
        """Say nothing."""

    with pytest.raises(ValueError, match="Troubleshooting"):
        check(level=1, title="is silent")(silent)
    assert troubleshooting_of(silent) == ""


def test_checks_are_chosen_by_level_and_pattern() -> None:
    assert {one.level for one in checks_up_to(0)} == {Level.IDENTITY}
    assert [one.id for one in checks_up_to(5, ["identity.id_is_valid"])] == ["identity.id_is_valid"]
    assert len(checks_up_to(1, ["lifecycle.*"])) > 5


def test_patterns_do_not_mind_case() -> None:
    (softmax,) = checks_up_to(2, ["operators.computes[dovetail.Softmax]"])
    for pattern in ("softmax", "SOFTMAX", "*softmax[]]", "OPERATORS.*[[]Dovetail.Softmax[]]"):
        assert softmax in checks_up_to(2, [pattern]), pattern
    assert not checks_up_to(2, ["sofmax"])


@pytest.mark.parametrize(
    ("patterns", "level", "hint"),
    [
        (["sofmax"], 2, "did you mean 'Softmax'?"),
        (["*sofmax*"], 2, "did you mean 'Softmax'?"),
        (["dovetail.sofmax"], 2, "did you mean 'dovetail.Softmax'"),
        (["operatrs"], 2, "did you mean 'operators'?"),
        (["operatrs", "Pool2d"], 2, "did you mean 'operators'?; did you mean 'Pooling2d'"),
        (["suports_is_deterministic"], 1, "did you mean 'supports_is_deterministic'"),
        (["Softmax"], 1, "--level 2 has 'operators.computes[dovetail.Softmax]'"),
        (["nothing-like-this"], 2, "known: identity, contract, "),
    ],
)
def test_patterns_without_a_check_are_answered_by_what_there_is(patterns: list[str], level: int, hint: str) -> None:
    assert not checks_up_to(level, patterns)
    assert pattern_hint(patterns, level).startswith(hint)


# -- the command -----------------------------------------------------------------------------------

Invoke = Callable[..., Result]


def test_conform_passes_and_writes_all_reports(dovetail: Invoke, on_path: None, tmp_path: Path) -> None:
    reports = [tmp_path / f"out.{suffix}" for suffix in ("html", "json", "xml")]
    arguments = [text for path in reports for text in ("--report", str(path))]
    result = dovetail(
        "conform", "broken_backends:Correct", "--level", 2, "--only", "identity", "--only", "ElementwiseBinary", *arguments
    )
    assert result.exit_code == 0, result.output
    assert "CpuSmall at level 2: conforms" in result.output
    counts = re.search(r"cases: (\d+) claimed, (\d+) run", result.output)
    assert counts is not None
    assert counts[1] == counts[2] != "0"
    assert all(path.stat().st_size > 500 for path in reports)
    content = json.loads(reports[1].read_text())
    assert content["environment"]["versions"]["dovetail-sdk"]


def test_conform_fails_with_the_case_and_help(dovetail: Invoke, on_path: None) -> None:
    result = dovetail("conform", "broken_backends:FalseClaim", "--level", 2, "--only", "ElementwiseBinary")
    assert result.exit_code == 1
    assert "false claim: the manifest claims" in result.output
    assert "Troubleshooting:" in result.output
    assert "does not conform" in result.output
    assert result.output.index("FAILED operators.computes") < result.output.index("seconds"), "what failed comes first"


def test_checks_that_do_not_apply_are_counted_not_listed(dovetail: Invoke, on_path: None) -> None:
    result = dovetail("conform", "broken_backends:Correct", "--level", 0)
    assert "not applicable" not in result.output.partition("CpuSmall at level")[0]
    assert re.search(r"\d+ checks? do(es)? not apply to this backend", result.output)


def test_conform_as_json(dovetail: Invoke, on_path: None) -> None:
    result = dovetail("conform", "broken_backends:Correct", "--level", 0, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["verdict"] == "conforms"


def test_an_installed_backend_is_found_by_its_id(dovetail: Invoke) -> None:
    result = dovetail("conform", "CpuRef", "--level", 0)
    assert result.exit_code == 0, result.output
    assert "identity.listing_imports_nothing" in result.output


def test_a_used_up_budget_is_incomplete(dovetail: Invoke, on_path: None) -> None:
    result = dovetail("conform", "broken_backends:Correct", "--level", 2, "--budget", "0.001s", "--only", "operators")
    assert result.exit_code == 1
    assert "incomplete" in result.output


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("Nope", "--level", "0"), "is not installed"),
        (("CpuReff:1", "--level", "0"), "did you mean CpuRef?"),
        (("Cpu-Ref", "--level", "0"), "an id is a letter followed by"),
        (("CpuRef", "--budget", "soon"), "is not a time"),
        (("CpuRef", "--report", "out.pdf"), "the suffix must be"),
        (("CpuRef", "--report", "/nowhere/out.html"), "no folder"),
        (("CpuRef", "--options", "level"), "is not name=value"),
        (("CpuRef", "--only", "nothing-like-this"), "no check up to level"),
        (("CpuRef", "--only", "lifecycle", "--only", "sofmax"), "matches 'sofmax': did you mean 'Softmax'?"),
        (("CpuRef", "--only", "sofmax"), "matches 'sofmax': did you mean 'Softmax'?"),
        (("CpuRef", "--level", "0", "--options", "speed=3", "--only", "options"), "has no option 'speed'"),
        (("CpuRef", "--level", "0", "--operators", "json"), "has no OPERATOR"),
    ],
)
def test_conform_says_what_is_wrong_with_the_command(dovetail: Invoke, arguments: tuple[str, ...], word: str) -> None:
    result = dovetail("conform", *arguments)
    assert result.exit_code != 0
    assert word in result.output


def test_checks_of_a_backend_that_is_not_there_are_not_listed(dovetail: Invoke) -> None:
    result = dovetail("conform", "CpuReff")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "error [BACKEND_UNAVAILABLE] backend CpuReff is not installed" in result.stderr
    result = dovetail("conform", "no_such_module:Backend", "--level", "0")
    assert result.exit_code == 1
    assert "No module named 'no_such_module'" in result.stdout
    assert "identity." not in result.stdout
    assert f"{len(checks_up_to(0))} more checks were not run: the backend could not be loaded" in result.stdout
    assert "does not conform" in result.stdout


def test_times_and_options_are_read() -> None:
    context, parameter = None, None
    assert [seconds_of(context, parameter, text) for text in ("90", "1.5s", "10m", "1h")] == [90, 1.5, 600, 3600]  # type: ignore[arg-type]
    assert options_of(context, parameter, ("a=3", "b=true", "c=fast", "d=x=y")) == {"a": 3, "b": True, "c": "fast", "d": "x=y"}  # type: ignore[arg-type]


def test_the_kit_can_be_imported_without_pytest() -> None:
    import subprocess

    code = "import sys; sys.modules['pytest'] = None; import dovetail_sdk.conformance.supervisor, dovetail_sdk.conformance"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_kinds_of_which_the_same_is_not_judged_share_a_line() -> None:
    report, result = Report("AcmeNpu", 2), CheckResult(checks_up_to(2, ["operators.claims_are_judged"])[0])
    for kind in ("dovetail.Softmax", "dovetail.Concat"):
        for dtype in ("uint8", "int8"):
            for what in ("input.elements 9", "input.elements above 9"):
                event = {"event": "not judged", "kind": kind, "dtype": dtype, "what": what, "reason": "too large"}
                result.take(event)
    result.take({"event": "not judged", "kind": "acme.Swish", "dtype": "int8", "what": "axis 3"})
    report.results = [result]
    assert unreached_lines(report) == [
        "claimed, not judged: acme.Swish of int8: axis 3",
        "claimed, not judged: Concat, Softmax of int8, uint8: input.elements 9, input.elements above 9 (too large)",
    ]
