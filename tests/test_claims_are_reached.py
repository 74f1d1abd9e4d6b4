"""The kit's cases reach all that the project's manifests claim, or say why none can."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dovetail import BackendId, Device, IBackend
from dovetail_sdk.conformance.catalogue import standard_operators
from dovetail_sdk.conformance.levels.operators import ask_all
from dovetail_sdk.conformance.reached import unreached
from dovetail_sdk.conformance.subject import Subject
from dovetail_sdk.conformance.target import Target

ROOT = Path(__file__).parents[1]
MANIFESTS = {
    path.parent.name: path
    for folder in (
        "reference_backend",
        "neon_backend",
        "cl_backend",
        "npu_vsi_backend",
        "templates/backend",
        "templates/backend_npu",
        "templates/backend_runtime",
    )
    for path in (ROOT / folder / "src").glob("*/dovetail-backend.json")
}


class OnPaper(IBackend):
    """Takes what a manifest claims, and computes nothing."""

    id = BackendId("OnPaper")

    def create_workload_factory(self, context, resources, options):
        raise NotImplementedError

    def devices(self):
        return (Device(facts=dict(device_facts(self.manifest))),)


def device_facts(part):
    """Yield the facts of a device that some condition of a manifest asks for."""
    for name, value in part.items() if isinstance(part, dict) else ():
        if name.startswith("device."):
            yield name.removeprefix("device."), value[0] if isinstance(value, list) else value
        yield from device_facts(value)
    for one in part if isinstance(part, list) else ():
        yield from device_facts(one)


def missed(path):
    """Yield what no case reaches, in one element type of each claim, and why none can."""
    backend = OnPaper()
    backend.manifest = json.loads(path.read_text("utf-8"))
    subject = Subject(Target(backend, manifest=backend.manifest))
    for kind, claims in backend.claims.items():
        operator = standard_operators()[kind]
        for dtype in dict.fromkeys(next(one for one in operator.dtypes if one in claim.dtypes) for claim in claims):
            trials = ask_all(subject, operator, dtype, claims)
            for what, reason in unreached(operator, claims, dtype, trials, subject.device):
                yield f"{kind} of {dtype}: {what}", reason


@pytest.mark.parametrize("name", MANIFESTS)
def test_what_is_claimed_is_reached_or_has_a_reason(name):
    found = dict(missed(MANIFESTS[name]))
    assert [what for what, reason in found.items() if not reason] == []


def test_a_claim_that_nothing_reaches_has_no_reason(tmp_path):
    path = tmp_path / "dovetail-backend.json"
    claim = {"dtypes": ["float32"], "where": {"axis": [3, 77]}}
    facts = {"id": "OnPaper", "device": "cpu", "rank": 0, "description": "paper", "claims": {"dovetail.Softmax": [claim]}}
    path.write_text(json.dumps(facts))
    assert dict(missed(path)) == {"dovetail.Softmax of float32: axis 77": ""}
