"""What `--isolate` asks for arrives, in every command that has it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dovetail import Network
from dovetail_sdk.conformance.checks import checks_up_to
from dovetail_sdk.conformance.subject import Settings, Subject
from dovetail_sdk.conformance.supervisor import Orders, Supervisor
from dovetail_sdk.conformance.target import open_target


def isolated_processes():
    """Return the templates of isolated backends among this process's children."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        found += (task / "children").read_text().split()
    return {pid for pid in found if "isolated_template" in Path(f"/proc/{pid}/cmdline").read_text()}


@pytest.mark.parametrize("ids", ["CpuRef", "CpuRef,CpuAcc"])
def test_explain_says_what_runs_elsewhere(dovetail, ids):
    shown = dovetail("explain", "digits", "-b", "CpuRef", "-b", "CpuAcc", "--isolate", ids)
    assert shown.exit_code == 0, shown.output
    assert "in a process of its own" in shown.output
    shown = dovetail("explain", "digits", "-b", "CpuRef", "--isolate", "")
    assert shown.exit_code == 0, shown.output
    assert "in a process of its own" not in shown.output


def test_run_and_benchmark_compute_the_same(dovetail, tmp_path):
    for name, more in (("here", ()), ("there", ("--isolate", "CpuRef"))):
        done = dovetail("run", "digits", "-b", "CpuRef", "-i", "random", "-o", tmp_path / f"{name}.npy", *more)
        assert done.exit_code == 0, done.output
    here, there = (np.load(tmp_path / f"{name}.npy") for name in ("here", "there"))
    assert here.tobytes() == there.tobytes()
    assert dovetail("benchmark", "digits", "-b", "CpuRef", "--isolate", "CpuRef", "--iterations", "2").exit_code == 0


def test_diff_isolates_on_the_side_that_has_the_backend(dovetail):
    done = dovetail("diff", "digits", "-b", "CpuRef", "--against", "CpuAcc", "--isolate", "CpuAcc")
    assert done.exit_code == 0, done.output


def test_an_id_that_is_not_asked_for_and_tuning_are_refused(dovetail):
    refused = dovetail("run", "digits", "-b", "CpuRef", "-i", "random", "--isolate", "CpuAcc")
    assert "isolate names 'CpuAcc'" in refused.stderr
    refused = dovetail("tune", "digits", "-b", "CpuRef", "--isolate", "CpuRef")
    assert refused.exit_code == 2
    assert "cannot be tuned" in refused.output


def test_the_kit_loads_networks_in_another_process():
    network, others = Network("one"), isolated_processes()  # earlier tests may hold some still
    network.output(network.relu(network.input("x", (2,))), "y")
    with Subject(open_target("CpuRef"), Settings(isolate=True)) as subject:
        loaded = subject.load(network)
        assert len(isolated_processes() - others) == 1
        np.testing.assert_array_equal(loaded.run({"x": np.array([-1, 2], np.float32)})["y"], [0, 2])
    assert isolated_processes() <= others


def test_an_isolated_backend_conforms_on_some_operators():
    patterns = ["placement_names_it", "survives_fork", "interpreter_ends", "workloads_are_fresh"]
    patterns += ["dovetail.MatMul]", "dovetail.Softmax]", "dovetail.Split]"]
    checks = checks_up_to(2, patterns)
    assert len(checks) == len(patterns)
    report = Supervisor(Orders("CpuRef", seconds=120, isolate=True)).run(checks, 2)
    assert not report.problems, [f"{one.check.id}: {one.text}" for one in report.problems]
    assert sum(counts.run for counts in report.counts.values()) > 100
