"""The project's own backends conform, like those of any vendor."""

from __future__ import annotations

import os

import pytest

from dovetail_sdk.conformance.checks import checks_up_to
from dovetail_sdk.conformance.results import Report, Verdict
from dovetail_sdk.conformance.supervisor import Orders, Supervisor

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def conformed(report: Report) -> None:
    assert [(one.check.id, one.text, one.cases) for one in report.problems] == []
    assert report.verdict is Verdict.CONFORMS, report.objection


def test_the_reference_backend_conforms():
    conformed(Supervisor(Orders("CpuRef", seconds=800)).run(checks_up_to(4), 4))


@pytest.mark.parametrize("claim", ["none", "layers", "whole"])
def test_the_asynchronous_device_conforms(hard, monkeypatch, claim):
    folder = os.path.dirname(os.path.dirname(hard.__file__))
    monkeypatch.setenv("PYTHONPATH", folder)
    orders = Orders("dovetail_hard.backends:TestDevice", {"claim": claim}, seconds=800, late_failure={"fail_at": 0})
    report = Supervisor(orders).run(checks_up_to(4), 4)
    conformed(report)
    assert report.counts["dovetail.ElementwiseBinary", "float32"].run > 5
