"""Check that `dev.py simulate` finds planted defects of kernels, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from tools.simulate import simulator

PLANTED = """
import numpy as np
import pytest

import dovetail
from dovetail import Network
from dovetail_cl import GpuAccBackend, programs
from dovetail_cl.devices import opened

PLANTS = {
    "none": ("", ""),
    "stray": ("BEGIN(Y, y);", "BEGIN(Y, y); y += 1;"),
    "race": ("barrier(CLK_LOCAL_MEM_FENCE);", ""),
}


@pytest.fixture(params=PLANTS)
def way(request, monkeypatch):
    source = programs.source_of
    monkeypatch.setattr(programs, "source_of", lambda file: source(file).replace(*PLANTS[request.param]))
    monkeypatch.setitem(opened(0).facts, "kind", "gpu")
    return GpuAccBackend()


def test_sums(way):
    network = Network("sums")
    network.output(network.reduce(network.input("x", (2, 300)), "sum", 1), name="y")
    with dovetail.load(network, [way]) as net:
        net.run({"x": np.ones((2, 300), np.float32)})


def test_without_kernels():
    assert False
"""


@pytest.mark.skipif(simulator() is None, reason="needs oclgrind: Debian's package of that name")
def test_planted_defects_are_told(root, tmp_path):
    planted = tmp_path / "test_planted.py"
    planted.write_text(PLANTED)
    command = [sys.executable, "-m", "pytest", "-p", "tools.simulate", "--races", "-v", str(planted)]
    told = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True).stdout
    results = dict(re.findall(r"::test_(\S+) (PASSED|FAILED)", told))
    assert results == {"sums[none]": "PASSED", "sums[stray]": "FAILED", "sums[race]": "FAILED"}, told
    assert "Invalid write of size 4" in told
    assert "data race" in told
