"""Run ONNX's own backend suite through the adapter, on CpuRef alone and behind CpuAcc."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

from dovetail import PlacementError, UnsupportedModelError
from dovetail_onnx.backend import BACKENDS_VARIABLE, DovetailBackend

PASSING = 1583
"""How many cases pass at least, with onnx 1.23; raise it with what is reached."""

BACKENDS = ["CpuRef", "CpuAcc,CpuRef"]
RUNNING = {"CpuRef": 800, "CpuAcc": 1000}
"""Least number of cases in which each named backend has a part.

`CpuAcc` refuses what it computes no faster.
"""

HALF_STEPS = 2.0**-9
"""Two steps of float16, relative.

The expected numbers went through NumPy's half, operation by operation, and are themselves a step
off what is computed in a wider type and rounded once per layer. The suite's own 1e-3 is a single
step.
"""


def outcome(case: Any, running: Counter[str]) -> str:
    """Return "pass", or "unsupported" with a reason; else raise.

    Counts who had a part in it.
    """
    from onnx.backend.test.runner import Runner

    try:
        rep = DovetailBackend.prepare(case.model)
        results = [(rep.run(inputs), expected) for inputs, expected in case.data]
        running.update({row.backend for row in rep._network.placement.layers})
    except UnsupportedModelError as error:
        entries = error.details["unsupported"]
        assert entries
        assert all(entry["op"] and entry["reason"] for entry in entries)
        return "unsupported"
    except PlacementError:
        return "refused"
    for found, expected in results:
        half = any(getattr(array, "dtype", None) == np.float16 for array in expected)
        rtol = max(case.rtol, HALF_STEPS) if half else case.rtol
        Runner.assert_similar_outputs(expected, found, rtol, case.atol, model_dir=case.name)
    return "pass"


@pytest.mark.slow
@pytest.mark.parametrize("backends", BACKENDS)
def test_every_case_passes_or_is_named_unsupported(suite_cases, backends, monkeypatch) -> None:
    monkeypatch.setenv(BACKENDS_VARIABLE, backends)
    counts: Counter[str] = Counter()
    running: Counter[str] = Counter()
    wrong: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # comparing infinities and NaN is what some cases are about
        for case in suite_cases:
            try:
                counts[outcome(case, running)] += 1
            except Exception as error:  # every case is to be reported, whatever it raises
                wrong.append(f"{case.id}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
    assert not wrong, f"{dict(counts)}, and {len(wrong)} wrong:\n" + "\n".join(wrong)
    assert counts["pass"] >= PASSING, dict(counts)
    for name in backends.split(","):
        assert running[name] >= RUNNING[name], dict(running)


@pytest.mark.slow
@pytest.mark.parametrize("backends", BACKENDS)
def test_the_light_models_match(suite_cases, backends, monkeypatch) -> None:
    monkeypatch.setenv(BACKENDS_VARIABLE, backends)
    light = [case for case in suite_cases if case.kind == "light"]
    assert len(light) >= 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [(case.name, outcome(case, Counter())) for case in light] == [(case.name, "pass") for case in light]
