"""The project's own backends conform, like those of any vendor."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import dovetail_reference
from dovetail import DType, Support
from dovetail_reference import ReferenceBackend
from dovetail_sdk.conformance.checks import checks_up_to
from dovetail_sdk.conformance.results import Report, Status, Verdict
from dovetail_sdk.conformance.runner import run_checks
from dovetail_sdk.conformance.supervisor import Orders, Supervisor
from dovetail_sdk.conformance.target import open_target

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def conformed(report: Report) -> None:
    assert [(one.check.id, one.text, one.cases) for one in report.problems] == []
    assert report.verdict is Verdict.CONFORMS, report.objection


def test_the_reference_backend_conforms_in_every_kind_and_element_type_that_it_must_take():
    report = Supervisor(Orders("CpuRef", seconds=800)).run(checks_up_to(4), 4)
    conformed(report)
    assert not report.not_judged_by_kind
    claims = ReferenceBackend().claims
    wanted = {(kind, str(dtype)) for kind, several in claims.items() for claim in several for dtype in claim.dtypes}
    assert len(wanted) > 400
    idle = [
        pair
        for pair in sorted(wanted)
        if not (report.counts[pair].claimed and (report.counts[pair].run or report.counts[pair].folded))
    ]
    assert idle == []


class Forgetful(ReferenceBackend):
    """Forgot one element type of one kind, which its manifest goes on claiming."""

    manifest = json.loads(Path(dovetail_reference.__file__).with_name("dovetail-backend.json").read_text())

    def supports(self, layer, options, device):
        if layer.kind == "dovetail.Softmax" and layer.input_infos[0].dtype is DType.FLOAT16:
            return Support.no("dtype", "softmax of float16 is not implemented")
        return super().supports(layer, options, device)


def test_an_element_type_that_went_missing_is_noticed():
    (check,) = checks_up_to(2, ["operators.computes[[]dovetail.Softmax[]]"])
    report = run_checks([check], open_target(Forgetful()), level=2)
    assert report.verdict is Verdict.FAILS
    assert all("false claim" in case.text and "float16" in case.id for case in report.problems[0].cases)


@pytest.mark.parametrize("claim", ["none", "layers", "whole"])
def test_the_asynchronous_device_conforms(hard, monkeypatch, claim):
    folder = os.path.dirname(os.path.dirname(hard.__file__))
    monkeypatch.setenv("PYTHONPATH", folder, prepend=os.pathsep)
    orders = Orders("dovetail_hard.backends:TestDevice", {"claim": claim}, seconds=800)
    report = Supervisor(orders).run(checks_up_to(4), 4)
    conformed(report)
    assert next(one for one in report.results if "late_errors" in one.check.id).status is Status.PASSED
    assert report.counts["dovetail.ElementwiseBinary", "float32"].run > 5
