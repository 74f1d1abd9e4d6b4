"""Test faults 61 to 64 of docs/faults.md: what a backend does in a process of its own."""

import contextlib
import gc
import os
import threading
import time

import numpy as np
import pytest
from faults.scene import left_open, open_things

from dovetail import BackendError, DovetailError, ErrorCode, LimitError, Limits, Network, RunError, Runtime, RunTimeoutError

SOURCE = """
import ctypes, glob, os, socket, time
from dovetail import BackendId, IBackend, IWorkloadFactory, Support

def abort():
    os.abort()

def leave():
    os._exit(7)

def hang():
    while True:
        ctypes.PyDLL(None).sleep(3600)  # with the GIL

def scribble():
    for line in open("/proc/self/maps"):
        place, *rest = line.split()
        if "dovetail-" in line and rest[0].startswith("rw"):
            begin, end = (int(one, 16) for one in place.split("-"))
            ctypes.memset(begin, 255, end - begin)
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        try:
            found = socket.socket(fileno=os.dup(descriptor))
        except OSError:
            continue
        found.send(b"\\xff" * 64)

def act(where):
    if where == {where!r} and os.getpid() != {host}:
        {what}()

act("import")

class Relu:
    def execute(self, inputs, outputs):
        if inputs[0][0] < 0:
            act("run")
        outputs[0][...] = inputs[0] * 2

class Factory(IWorkloadFactory):
    def create_workload(self, layer):
        act("compile")
        return Relu()

class Backend(IBackend):
    id = BackendId({{id!r}})

    def supports(self, layer, options, device):
        act("supports")
        return Support.yes()

    def optimize_subgraph(self, view, options, device):
        act("place")
        return super().optimize_subgraph(view, options, device)

    def create_workload_factory(self, context, resources, options):
        return Factory()
"""
GOOD, BAD = {"x": np.array([1, 2], np.float32)}, {"x": np.array([-1, 2], np.float32)}


def network():
    net = Network("relu")
    net.output(net.relu(net.input("x", (2,)), name="relu"), "y")
    return net


@pytest.fixture
def load(scene):
    """Return a function that loads a network on a backend that does something somewhere."""
    before = open_things()
    with Runtime(threads=1) as runtime:

        def loaded(where, what, **more):
            if not scene.packages:
                scene.add(source=SOURCE.format(where=where, what=what, host=os.getpid()).replace("{id!r}", "'Faulty'"))
            asked = {"backends": ["Faulty"], "isolate": "Faulty", "registry": scene.registry, "fallback": False, **more}
            return runtime.load(network(), optimize=asked)

        yield loaded
    gc.collect()  # errors refer to what failed, in circles
    assert not left_open(before)


def works(net):
    return net.run(GOOD, timeout=30)["y"].tolist() == [2, 4]


def code_of(action):
    """Return the code of the error that this raises, which would refer to all that is open."""
    try:
        action()
    except (BackendError, LimitError) as error:
        return error.code
    return None


@pytest.mark.fault(61)
@pytest.mark.parametrize(("what", "how"), [("abort", "was ended by SIGABRT"), ("leave", "ended itself with exit code 7")])
def test_its_process_ends_in_a_run(load, what, how):
    net, bystander = load("run", what), load("run", what)
    with pytest.raises(RunError, match=how) as caught:
        net.run(BAD)
    assert caught.value.code is ErrorCode.ISOLATED_PROCESS_DIED
    assert caught.value.details["layer"] == "relu"
    assert works(net)
    assert works(bystander)


@pytest.mark.fault(62)
def test_a_workload_hangs(load):
    net, bystander = load("run", "hang"), load("run", "hang")
    ended = []

    def run():
        with pytest.raises(RunTimeoutError):
            net.run(BAD, timeout=1.0)
        ended.append(time.monotonic())

    thread = threading.Thread(target=run)
    begun = time.monotonic()
    thread.start()
    assert works(bystander)
    thread.join()
    assert ended[0] - begun < 5
    assert works(net)


@pytest.mark.fault(63)
@pytest.mark.parametrize("where", ["import", "supports", "place", "compile"])
def test_it_ends_its_process_in_a_load(load, where):
    with pytest.raises(DovetailError, match="was ended by SIGABRT"):
        load(where, "abort")


@pytest.mark.fault(63)
@pytest.mark.parametrize("where", ["import", "compile"])
def test_it_hangs_in_a_load(load, monkeypatch, where):
    monkeypatch.setenv("DOVETAIL_PROBE_TIMEOUT", "0.5")
    expected = ErrorCode.ISOLATED_PROCESS_DIED if where == "import" else ErrorCode.TIMEOUT
    assert code_of(lambda: load(where, "hang", limits=Limits(seconds=4))) is expected


@pytest.mark.fault(64)
def test_it_writes_over_what_it_shares(load):
    net, bystander = load("run", "scribble"), load("run", "scribble")
    for _ in range(3):
        with contextlib.suppress(RunError):
            net.run(BAD, timeout=5)
        assert works(net)
    assert works(bystander)
