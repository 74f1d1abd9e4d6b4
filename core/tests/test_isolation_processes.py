"""When the processes of backends begin and end, and that nothing of them is left behind."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from fakes.isolated import Environed, Faulty
from fakes.isolated_cases import network

import dovetail
from dovetail import Runtime
from dovetail.loading import parsing


@pytest.fixture
def runtime():
    with Runtime(threads=1) as made:
        yield made


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def test_it_runs_elsewhere_and_ends_with_its_network(runtime, children):
    runtime.load(network(), optimize={"backends": [Faulty()], "isolate": "Faulty"}).unload()  # opens what stays open
    before = descriptors()
    net = runtime.load(
        network(), optimize={"backends": [Faulty()], "isolate": ["Faulty"], "options": {"Faulty": {"factor": 3}}}
    )
    assert children()
    assert "scale" in str(net.placement)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(net.run({"x": x})["y"], x * 3)
    net.unload()
    assert not children()
    del net
    assert descriptors() <= before + 2  # the options, kept for the next network


def test_its_process_starts_while_a_model_is_read(runtime, monkeypatch, children):
    """And serves as one that starts when it is asked."""
    found = []

    def parse(model):
        found.append(list(children()))
        return network()

    monkeypatch.setattr(parsing, "parse", parse)
    with dovetail.load(b"a model", [Faulty()], isolate="Faulty", runtime=runtime) as net:
        assert found[0]
        assert found[0] == [os.getpgid(pid) for pid in found[0]] == [os.getpgid(pid) for pid in children()][:1]
        np.testing.assert_array_equal(net.run({"x": np.ones((2, 3), np.float32)})["y"], np.full((2, 3), 2.0))
    dovetail.load(b"a model", [Faulty()], runtime=runtime).unload()
    assert not found[1], "nobody isolates it"
    assert not children()


@pytest.mark.parametrize("what", ["reading", "options", "backends"])
def test_a_load_that_fails_before_its_process_is_asked_leaves_none(runtime, monkeypatch, what, children):
    def parse(model):
        assert children()
        if what == "reading":
            raise dovetail.ModelError("the model is broken")
        return network()

    monkeypatch.setattr(parsing, "parse", parse)
    asked = {"backends": [Faulty()], "isolate": "Faulty"}
    asked |= {"options": {"options": {"Other": {}}}, "backends": {"backends": [Faulty(), "CpuReff"]}}.get(what, {})
    wanted = {"reading": "the model is broken", "options": "'Other'", "backends": "CpuReff is not installed"}[what]
    with pytest.raises(dovetail.DovetailError, match=wanted):
        dovetail.load(b"a model", runtime=runtime, **asked)
    assert not children()


def test_a_process_that_cannot_start_ahead_is_told_of_when_it_is_asked(runtime, monkeypatch):
    monkeypatch.setattr(parsing, "parse", lambda model: network())
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(dovetail.BackendError, match="has no Python interpreter to start"):
        dovetail.load(b"a model", [Faulty()], isolate="Faulty", runtime=runtime)


_PROGRAM = """
import os, signal, sys, numpy as np, dovetail
sys.path.insert(0, {folder!r})
from fakes.isolated import Faulty
net = dovetail.Network("scaled")
net.output(net.relu(net.input("x", (2,))), "y")
loaded = dovetail.load(net, [Faulty()], isolate="Faulty")
print(loaded.run({{"x": np.ones(2, np.float32)}})["y"].tolist(), flush=True)
print(*open(f"/proc/self/task/{{os.getpid()}}/children").read().split(), flush=True)
{last}
"""


@pytest.mark.parametrize("last", ["", "os.kill(os.getpid(), signal.SIGKILL)", "os._exit(3)"])
def test_processes_end_with_the_host_however_it_ends(last):
    text = _PROGRAM.format(folder=str(Path(__file__).parent), last=last)
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.splitlines()[0] == "[2.0, 2.0]"
    assert done.stderr == ""
    template = int(done.stdout.splitlines()[1])
    while Path(f"/proc/{template}").exists() and "isolated_template" in Path(f"/proc/{template}/cmdline").read_text():
        assert time.monotonic() - begun < 60
        time.sleep(0.01)


def test_a_forked_child_may_not_use_it(runtime):
    net = runtime.load(network((2,)), optimize={"backends": [Faulty()], "isolate": "Faulty"})
    x = np.ones(2, np.float32)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            net.run({"x": x})
        except dovetail.RunError as error:
            code = 0 if error.code == dovetail.ErrorCode.FORKED else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    np.testing.assert_array_equal(net.run({"x": x})["y"], 2 * x)


FORKING = """
import os, signal, sys
import numpy as np
import dovetail
from fakes.isolated import Faulty
def network():
    net = dovetail.Network("scaled")
    net.output(net.relu(net.input("x", (2, 3)), name="scale"), "y")
    return net
asked = {"backends": [Faulty()], "isolate": "Faulty"}
runtime = dovetail.Runtime(threads=1)
net = runtime.load(network(), optimize=asked)
x = {"x": np.ones((2, 3), np.float32)}
children = []
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        mine = dovetail.Runtime(threads=1)
        for _ in range(4):
            loaded = mine.load(network(), optimize=asked)
            assert loaded.run(x)["y"][0, 0] == 2
            loaded.unload()
        os._exit(0)
    children.append(pid)
for _ in range(4):
    runtime.load(network(), optimize=asked).unload()
assert net.run(x)["y"][0, 0] == 2
assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0]
"""


def test_a_host_and_its_forked_children_have_processes_of_their_own():
    done = subprocess.run(
        [sys.executable, "-c", FORKING], cwd=Path(__file__).parent, check=False, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr


def test_a_daemon_without_standard_streams_may_isolate(tmp_path):
    code = f"""
import os
for descriptor in range(3):
    os.close(descriptor)
import numpy as np
import dovetail
from fakes.isolated import Faulty
net = dovetail.Network("scaled")
net.output(net.relu(net.input("x", (2,)), name="scale"), "y")
with dovetail.load(net, [Faulty()], isolate="Faulty") as loaded:
    result = loaded.run({{"x": np.ones(2, np.float32)}})["y"]
with open({str(tmp_path / "result")!r}, "w") as file:
    file.write(str(result.tolist()))
"""
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, check=False, timeout=100)
    assert (tmp_path / "result").read_text() == "[2.0, 2.0]"


def test_what_was_sent_is_let_go_of_with_the_network(runtime):
    asked = {"backends": [Faulty()], "isolate": "Faulty"}
    runtime.load(network(), optimize=asked).unload()
    before = descriptors()
    with gc_disabled():
        for _ in range(5):
            runtime.load(network(), optimize=asked).unload()
        assert descriptors() <= before + 2  # not one for each load


def test_a_process_sees_the_environment_as_the_program_has_it(runtime, monkeypatch):
    asked = {"backends": [Environed(), "CpuRef"], "isolate": "Environed"}
    x = {"x": np.ones((2, 3), np.float32)}
    monkeypatch.delenv("DOVETAIL_TEST_FACTOR", raising=False)
    optimized = dovetail.optimize(network(), **asked)  # its processes stay for the load that follows
    assert "none, for it is of factor None" in optimized.placement.layers[0].refusals[0].reason
    for factor in ("3", "5"):
        monkeypatch.setenv("DOVETAIL_TEST_FACTOR", factor)
        loaded = runtime.load(network(), optimize=asked)
        assert loaded.placement.layers[0].backend == "Environed"
        assert loaded.run(x)["y"][0, 0] == float(factor)
        monkeypatch.delenv("DOVETAIL_TEST_FACTOR")
        assert dovetail.optimize(network(), **asked).placement.layers[0].backend == "CpuRef"
        assert loaded.run(x)["y"][0, 0] == float(factor), "it goes on as it began"


@contextlib.contextmanager
def gc_disabled():
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
