"""Check that disproportionate attributes cost no time or memory, in loading or running."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("hostile_networks.py")
MEMORY = 6 << 30
LATE = 10.0
"""Seconds. What is promised is 0.4 with a deadline of 0.2; before, it took minutes, or for ever."""
PHASES = {"transposed, long steps", "transposed, many phases", "transposed, dilated", "transposed, cut off"}
DECLINED = PHASES | {"reflect"}
"""What CpuAcc leaves to others: disproportionate phases, and a mode that it does not have."""


@pytest.fixture(scope="module")
def measured():
    """What the script says of a backend, by the names of the networks."""
    kept = {}

    def measure(backend):
        if backend not in kept:
            limits = (MEMORY, MEMORY)
            done = subprocess.run(
                [sys.executable, SCRIPT, backend],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limits),
            )
            assert done.returncode == 0, done.stderr
            kept[backend] = {line["name"]: line for line in map(json.loads, done.stdout.splitlines())}
        return kept[backend]

    return measure


@pytest.mark.parametrize("backend", ["CpuAcc", "CpuRef"])
def test_loads_at_once_and_stops_in_time(measured, backend):
    for name, line in measured(backend).items():
        if backend == "CpuAcc" and name in DECLINED:
            assert line["end"] == "NO_BACKEND_FOR_LAYER", name
        else:
            assert line["end"] in ("done", "TIMEOUT"), name
            assert line["load"] < LATE, name
        assert line["last"] < LATE, name


def test_results_are_the_same(measured):
    fast, plain = measured("CpuAcc"), measured("CpuRef")
    compared = 0
    for name, line in fast.items():
        if line.get("result") is not None and plain[name].get("result") is not None:
            assert line["result"] == pytest.approx(plain[name]["result"], rel=1e-6), name
            compared += 1
    assert compared >= 5


def test_windows_far_outside_by_hand(measured):
    """All windows but the first and last read whole rows; the dilated window reads row 0."""
    rows = [[float((4 * y + x) % 7 + 1) for x in range(4)] for y in range(4)]
    expected = {
        "max, few results": [value for row in rows for value in (row[0], *[max(row)] * 3, max(row[1:]))],
        "average, few results": [value for row in rows for value in (row[0], *[sum(row) / 4] * 3, sum(row[1:]) / 3)],
        "average with padding": [sum(column) / 2**30 for column in zip(*rows, strict=True)],
        "dilated": rows[0],
    }
    for backend in ("CpuAcc", "CpuRef"):
        for name, values in expected.items():
            assert measured(backend)[name]["result"] == pytest.approx(values, rel=1e-6), (backend, name)
