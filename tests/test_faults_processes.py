"""Test faults 49 and 51 to 55 of docs/faults.md: what only a process of its own survives."""

import os
import signal
import subprocess
import sys

import pytest


def child(what, seconds=60):
    command = [sys.executable, "-X", "faulthandler", "-m", "faults.deadly", what]
    folder = os.path.dirname(__file__)
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL, check=False
    )


@pytest.mark.fault(51)
@pytest.mark.parametrize(
    ("what", "number"), [("segfault", signal.SIGSEGV), ("abort", signal.SIGABRT), ("division", signal.SIGFPE)]
)
def test_a_crash_in_a_workload_ends_the_process_and_faulthandler_says_where(what, number):
    done = child(what)
    assert done.returncode == -number
    assert done.stdout.split() == ["loaded"]
    assert "Fatal Python error" in done.stderr
    assert "in execute" in done.stderr, "the frame of the workload"
    assert "in body" in done.stderr


@pytest.mark.fault(54)
@pytest.mark.parametrize(("what", "code"), [("exit", 3), ("kill", -signal.SIGKILL)])
def test_a_workload_that_ends_the_process_ends_it(what, code):
    done = child(what)
    assert done.returncode == code
    assert done.stdout.split() == ["loaded"]


@pytest.mark.fault(55)
def test_a_changed_folder_stays_changed():
    done = child("folder")
    assert done.returncode == 0
    assert "ran in /" in done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "frame"),
    [
        pytest.param("optimizer", "in optimize_subgraph", marks=pytest.mark.fault(49)),
        pytest.param("loop", "in body", marks=pytest.mark.fault(52)),
        pytest.param("loop with the GIL", "in body", marks=pytest.mark.fault(53)),
    ],
)
def test_what_does_not_end_is_ended_from_outside_and_the_dump_says_where(what, frame):
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        child(what, 6)
    told = (caught.value.stderr or b"").decode()
    assert "Timeout (0:00:03)!" in told
    assert frame in told
