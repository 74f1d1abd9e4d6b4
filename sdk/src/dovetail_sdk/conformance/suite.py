"""The kit as a pytest class: a vendor's test suite is a subclass and one fixture.

::

    import pytest
    from dovetail_sdk.conformance import BackendConformance

    class TestAcme(BackendConformance):
        @pytest.fixture
        def backend(self):
            return "CpuAcme"

Nothing of the suite can be dropped by accident: overriding or removing a test is an error when the
class is made; a mark that skips or expects failure is an error when tests are collected; and a run
that left something out fails at its end. What is known to fail goes into `expected_failures`, with
its reason, and fails once it passes.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar

import pytest

from dovetail import IBackend

from .cases import Operator
from .checks import Check, all_checks, checks_up_to
from .environment import environment
from .reports import write_report
from .results import CheckResult, Report, Status
from .runner import run_check
from .subject import Settings
from .target import Target, open_target

_MAY_BE_SET = frozenset(
    {
        "backend",
        "bit_exact",
        "expected_failures",
        "late_failure",
        "level",
        "manifest",
        "operators",
        "options",
        "report",
        "required",
        "seed",
        "pytestmark",
    }
)
_MARKS = ("skip", "skipif", "xfail")


class BackendConformance:
    """Subclass it, and say in a fixture `backend` which one is tested.

    Class attributes:
        level: Checks up to this level run.
        options: Options of the backend, by name.
        late_failure: Options under which work that was enqueued fails on the device; None for those
            that the manifest names.
        bit_exact: Hold results to the bits that standards define even where they are not promised.
        seed: Of all random numbers.
        manifest: Of a backend that the fixture returns as an object.
        operators: How kinds of your own are judged.
        expected_failures: Reason by id of a check, or by id (or glob over ids) of cases of level 2,
            that is known to fail.
        required: Element types by kind, such as ``{"dovetail.Softmax": ["float32"]}``, of which
            cases must have run.
        report: Where to write a report: a path that ends in .html, .json or .xml.
    """

    level: ClassVar[int] = 4
    options: ClassVar[Mapping[str, Any]] = {}
    late_failure: ClassVar[Mapping[str, Any] | None] = None
    bit_exact: ClassVar[bool] = False
    seed: ClassVar[int] = 0
    manifest: ClassVar[Mapping[str, Any] | None] = None
    operators: ClassVar[Sequence[Operator]] = ()
    expected_failures: ClassVar[Mapping[str, str]] = {}
    required: ClassVar[Mapping[str, Sequence[str]]] = {}
    report: ClassVar[str | Path | None] = None
    _results: ClassVar[dict[str, CheckResult]]
    _target: ClassVar[Target | None] = None

    def __init_subclass__(cls, **extra: Any) -> None:
        super().__init_subclass__(**extra)
        cls._results = {}
        cls._target = None
        ours = {name for name in vars(BackendConformance) if not name.startswith("__")} - _MAY_BE_SET - {"_results", "_target"}
        for base in cls.__mro__[: cls.__mro__.index(BackendConformance)]:
            changed = sorted(ours & vars(base).keys())
            if changed:
                raise TypeError(
                    f"{base.__name__} overrides {', '.join(changed)} of the conformance suite; "
                    "write what is known to fail into expected_failures, with its reason"
                )

    @pytest.fixture
    def backend(self) -> str | IBackend:
        """Return what is tested: an id, "module:attribute", or a backend."""
        raise NotImplementedError("give the class a fixture `backend` that returns the id of the backend under test")

    @pytest.fixture
    def target(self, backend: str | IBackend) -> Target:
        """Find the backend once."""
        suite = type(self)
        if suite._target is None:
            suite._target = open_target(backend, self.manifest)
        return suite._target

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make one test of each check, unless somebody tampered with the suite."""
        marks = sorted({mark.name for mark in metafunc.definition.iter_markers() if mark.name in _MARKS})
        if marks:
            pytest.fail(
                f"{metafunc.function.__name__} is marked {', '.join(marks)}; write what is known to fail into "
                "expected_failures, with its reason",
                pytrace=False,
            )
        for id, reason in self.expected_failures.items():
            if not isinstance(reason, str) or not reason.strip():
                pytest.fail(f"expected_failures has no reason for {id!r}: say why it fails, and what would change that", False)
        if "check" in metafunc.fixturenames:
            metafunc.parametrize("check", checks_up_to(self.level), ids=lambda check: check.id)

    def test_conforms(self, check: Check, target: Target) -> None:
        """Run one check.

        Troubleshooting: The failure's text ends with what to look at for the check that failed.
        """
        result = run_check(check, target, self._settings())
        type(self)._results[check.id] = result
        reason = self.expected_failures.get(check.id)
        if reason is not None:
            if result.status is Status.FAILED:
                result.status = Status.EXPECTED
                pytest.xfail(reason)
            if result.status is Status.PASSED:
                pytest.fail(
                    f"{check.id} passes now: remove it from expected_failures (its reason was: {reason})", pytrace=False
                )
        if result.status is Status.FAILED:
            pytest.fail(failure_text(str(target.backend.id), result), pytrace=False)
        if result.status is Status.DEVIATES:
            pytest.xfail(f"{result.status}: {result.text}")
        if result.status is Status.NOT_APPLICABLE:
            pytest.skip(result.text)

    def test_run_proves_something(self, target: Target, pytestconfig: pytest.Config) -> None:
        """Look at the run as a whole.

        Something ran, what is required ran, and what is expected to fail still does.

        Troubleshooting: A backend whose `supports` refuses everything passes each check by itself;
        and an expected failure that does not fail any more must be taken off the list.
        """
        suite = type(self)
        wanted = checks_up_to(suite.level)
        missing = [check.id for check in wanted if check.id not in suite._results]
        if missing and _is_part(pytestconfig):
            pytest.skip("only a part of the suite was run")
        if missing:
            pytest.fail(f"{len(missing)} checks of the suite did not run: {', '.join(missing[:5])}", pytrace=False)
        results = [suite._results[check.id] for check in wanted]
        report = Report(str(target.backend.id), suite.level, results, bit_exact=suite.bit_exact, device=target.described_device)
        if suite.report is not None:
            name = target.name or str(target.backend.id)
            report.environment = environment(name, seed=suite.seed, options=dict(suite.options))
            write_report(report, Path(suite.report))
        problems = [report.objection] if report.objection else []
        problems += _not_run(report, suite.required)
        problems += _void_expectations(report, suite.expected_failures)
        if problems:
            pytest.fail("\n".join(problems), pytrace=False)
        warn_of_unseen(report)

    def _settings(self) -> Settings:
        checks = {check.id for check in all_checks()}
        cases = tuple(id for id in self.expected_failures if id not in checks)
        return Settings(
            options=self.options,
            seed=self.seed,
            operators=self.operators,
            tolerate=cases,
            late_failure=self.late_failure,
            bit_exact=self.bit_exact,
        )


def warn_of_unseen(report: Report) -> None:
    """Warn of each deviation that the manifest declares and that no case showed."""
    for known in report.deviations:
        if not known.cases and known.looked_for:
            warnings.warn(f"{known.state}: {known.described}", stacklevel=2)


def _is_part(config: pytest.Config) -> bool:
    """Tell whether a run is not meant to hold the whole suite.

    Tests were picked by name, or handed to several processes.
    """
    picked = any(getattr(config.option, name, None) for name in ("keyword", "markexpr", "deselect", "lf"))
    return picked or any("::" in argument for argument in config.args) or hasattr(config, "workerinput")


def _not_run(report: Report, required: Mapping[str, Sequence[str]]) -> list[str]:
    counts = report.counts
    return [
        f"{kind} of {dtype} is required, but no case of it ran"
        for kind, dtypes in required.items()
        for dtype in dtypes
        if (kind, dtype) not in counts or not counts[kind, dtype].run
    ]


def _void_expectations(report: Report, expected: Mapping[str, str]) -> list[str]:
    checks = {check.id for check in all_checks()}
    failed = [case.id for result in report.results for case in result.cases]
    return [
        f"{id!r} is in expected_failures, but no case that it matches failed: remove it"
        for id in expected
        if id not in checks and not any(fnmatchcase(case, id) for case in failed)
    ]


def failure_text(backend: str, result: CheckResult) -> str:
    """Return what a vendor reads about a check that failed."""
    lines = [f"{backend} {result.check.title}: {result.text}"]
    lines += [f"  {case.id}\n    {case.text}" for case in result.cases[:10]]
    if len(result.cases) > 10:
        lines.append(f"  ... and {len(result.cases) - 10} more")
    lines.append(f"Troubleshooting: {result.check.troubleshooting}")
    return "\n".join(lines)
