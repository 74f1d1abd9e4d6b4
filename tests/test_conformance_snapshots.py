"""The kit compares what workloads compute before and after they were written down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dovetail_neon.backend import CpuAccBackend
from dovetail_neon.factory import CpuAccFactory
from dovetail_sdk.conformance.catalogue import all_operators
from dovetail_sdk.conformance.checks import all_checks
from dovetail_sdk.conformance.levels import snapshots
from dovetail_sdk.conformance.results import Status
from dovetail_sdk.conformance.runner import run_check
from dovetail_sdk.conformance.target import open_target

CHECK = next(check for check in all_checks() if check.id == "snapshots.restored_is_right")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class Forgetful(CpuAccFactory):
    """Loses bits of the weights when it takes up what it wrote."""

    def restore_workload(self, memory: memoryview) -> Any:
        written = np.frombuffer(memory, np.uint8)
        if len(written) > 4096:  # parameters, which lie before the weights, take less
            written[-256:] ^= 1
        return super().restore_workload(memory)


class ForgetfulBackend(CpuAccBackend):
    """Computes what it claims, but not what it wrote down."""

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> CpuAccFactory:
        factory = super().create_workload_factory(context, resources, options)
        factory.__class__ = Forgetful
        return factory


@pytest.mark.parametrize(("what", "status"), [("CpuAcc", Status.PASSED), ("CpuRef", Status.NOT_APPLICABLE)])
def test_what_was_written_down_is_right(what: str, status: Status) -> None:
    result = run_check(CHECK, open_target(what))
    assert (result.status, result.cases) == (status, [])


def test_a_backend_that_loses_what_it_wrote_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = "dovetail.FullyConnected"  # whose last bytes are weights
    monkeypatch.setattr(snapshots, "all_operators", lambda *_: {kind: all_operators()[kind]})
    result = run_check(CHECK, open_target(ForgetfulBackend(), open_target("CpuAcc").manifest))
    assert result.status is Status.FAILED
    assert any("other bits" in case.text for case in result.cases)
