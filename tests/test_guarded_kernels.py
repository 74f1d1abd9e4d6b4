"""Check that the project's kernels stay inside their tensors, on each instruction set."""

from __future__ import annotations

import pytest

from dovetail_neon.kernels import instruction_sets
from dovetail_sdk.conformance.guarded.search import Wanted, case_ids, search

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

OPERATORS, NETWORKS = 240, 30
"""Of a run in CI; `dovetail guarded` runs any number."""
SUBJECTS = [("CpuRef", {}), *(("CpuAcc", {"isa": name}) for name, present in instruction_sets().items() if present)]


@pytest.mark.parametrize(("backend", "options"), SUBJECTS, ids=[f"{name}-{o.get('isa', 'C')}" for name, o in SUBJECTS])
def test_kernels_stay_inside_their_tensors(backend, options):
    searched = search(Wanted(backend, case_ids(OPERATORS, NETWORKS), options))
    assert searched.findings == []
    assert (searched.done, searched.skipped, searched.left) == (OPERATORS + NETWORKS, {}, 0)
