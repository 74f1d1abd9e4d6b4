"""What a backend may do in a process of its own: the host lives, says what happened, goes on."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from fakes.distributions import Site, manifest
from fakes.isolated import Faulty

import dovetail
from dovetail import (
    BackendError,
    DovetailError,
    ErrorCode,
    Limits,
    LoadTimeoutError,
    Network,
    RunError,
    Runtime,
    RunTimeoutError,
)
from dovetail.discovery.registry import Registry
from dovetail.isolation import worker
from dovetail.loading import parsing

GOOD, BAD = {"x": np.array([1, 2], np.float32)}, {"x": np.array([-1, 2], np.float32)}


@pytest.fixture
def runtime():
    with Runtime(threads=1) as made:
        yield made


def network():
    net = Network("scaled")
    net.output(net.relu(net.input("x", (2,)), name="scale"), "y")
    return net


def load(runtime, where="", what="nothing", **asked):
    return runtime.load(
        network(), optimize={"backends": [Faulty(where, what)], "isolate": "Faulty", "fallback": False, **asked}
    )


def works(net):
    return np.array_equal(net.run(GOOD)["y"], [2, 4])


DEATHS = [("abort", "was ended by SIGABRT"), ("segfault", "was ended by SIGSEGV"), ("end", "ended itself with exit code 0")]


@pytest.mark.parametrize(("what", "words"), DEATHS)
def test_it_dies_in_a_run(runtime, what, words):
    net, bystander = load(runtime, "run", what), load(runtime)
    assert works(net)
    with pytest.raises(RunError, match=words) as caught:
        net.run(BAD)
    assert caught.value.code == ErrorCode.ISOLATED_PROCESS_DIED
    assert "layer 'scale'" in caught.value.message
    assert caught.value.details["backend"] == "Faulty"
    assert works(net)
    assert works(bystander)


@contextlib.contextmanager
def descriptors_left(count):
    """Let this process open so many descriptors more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.open(os.devnull, os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 40, limits[1]))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(taken[0]))
        for descriptor in taken[len(taken) - count :]:
            os.close(descriptor)
        del taken[len(taken) - count :]
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in taken:
            os.close(descriptor)


def test_a_host_without_descriptors_is_told_so(runtime, monkeypatch):
    """Whichever it is that is not there; and by a load that starts processes ahead, too."""
    monkeypatch.setattr(parsing, "parse", lambda model: network())
    backend, said = Faulty(), []

    def loaded():
        return dovetail.load(b"a model", [backend], isolate="Faulty", fallback=False, runtime=runtime)

    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "")
        with pytest.raises(BackendError, match="no Python interpreter"):  # what that imports is there from now on
            loaded()
    loaded().unload()
    before = len(os.listdir("/proc/self/fd"))
    for count in range(1, 14):
        try:
            with descriptors_left(count):
                net = loaded()
        except DovetailError as error:
            said.append(error.message)
        else:
            assert works(net)
            net.unload()
            del net
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) <= before
    assert 6 < len(said) < 13
    assert all("Too many open files" in text for text in said)
    assert any("cannot be started" in text for text in said)
    assert any("cannot have a process of its own" in text for text in said)


def test_its_last_words_are_told(runtime):
    net = load(runtime, "run", "chatter")
    with pytest.raises(RunError, match="line 199999 of the driver") as caught:
        net.run(BAD)
    assert "Fatal Python error: Aborted" in caught.value.message
    assert len(caught.value.details["output"]) <= 16 << 10
    assert works(net)


def test_what_it_prints_is_no_news(runtime, capfd):
    net = load(runtime, "run", "stuff")
    np.testing.assert_array_equal(net.run(BAD)["y"], [-2, 4])
    assert capfd.readouterr() == ("", "")


def test_it_raises_in_a_run(runtime):
    net = load(runtime, "run", "fail")
    with pytest.raises(RunError, match="ValueError: the driver says no") as caught:
        net.run(BAD)
    assert caught.value.code == ErrorCode.STEP_FAILED
    assert "in fail\n" in str(caught.value.__cause__)
    assert works(net)


@pytest.mark.parametrize("what", ["hang", "hang_in_c"])
def test_it_hangs_in_a_run(runtime, what):
    net = load(runtime, "run", what)
    begun = time.monotonic()
    with pytest.raises(RunTimeoutError) as caught:
        net.run(BAD, timeout=0.3)
    assert time.monotonic() - begun < 3
    assert caught.value.code == ErrorCode.TIMEOUT
    assert works(net)


def test_somebody_kills_it_in_a_run_and_between_runs(runtime):
    net = load(runtime, "run", "hang")
    pid = _worker()
    timer = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
    timer.start()
    with pytest.raises(RunError, match="was ended by SIGKILL"):
        net.run(BAD)
    timer.join()
    assert works(net)
    os.kill(_worker(), signal.SIGKILL)
    assert works(net)


def test_somebody_kills_all_of_its_processes(runtime):
    net = load(runtime)
    for pid in _below(os.getpid()):
        os.kill(pid, signal.SIGKILL)
    assert works(net)


def _below(pid):
    """Return the processes of isolated backends below one."""
    text = "".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    return [one for one in map(int, text.split()) if "isolated_template" in Path(f"/proc/{one}/cmdline").read_text()]


def _worker():
    """Return the process that was forked last, which is that of the network loaded last."""
    forks = [fork for template in _below(os.getpid()) for fork in _below(template)]
    return max(fork for fork in forks if "-channel" in Path(f"/proc/{fork}/maps").read_text())  # others try imports


def test_ctrl_c_ends_a_run(runtime):
    net = load(runtime, "run", "hang")
    timer = threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        net.run(BAD)
    timer.join()
    assert works(net)


@pytest.mark.parametrize("where", ["supports", "place", "compile"])
@pytest.mark.parametrize(("what", "words"), [*DEATHS, ("fail", "the driver says no")])
def test_it_dies_or_raises_in_a_load(runtime, where, what, words):
    with pytest.raises(dovetail.DovetailError, match=words):
        load(runtime, where, what)
    assert works(load(runtime))


@pytest.mark.parametrize("where", ["supports", "place", "compile"])
@pytest.mark.parametrize("what", ["hang", "hang_in_c"])
def test_it_hangs_in_a_load(runtime, where, what):
    begun = time.monotonic()
    with pytest.raises(LoadTimeoutError):
        load(runtime, where, what, limits=Limits(seconds=3))
    assert time.monotonic() - begun < 10
    assert works(load(runtime))


def test_what_it_cannot_compile_goes_to_the_next_backend(runtime):
    pytest.importorskip("dovetail_reference")
    asked = {"backends": [Faulty("compile", "abort"), "CpuRef"], "isolate": "Faulty"}
    net = runtime.load(network(), optimize=asked)
    np.testing.assert_array_equal(net.run(GOOD)["y"], GOOD["x"])
    (report,) = net.placement.layers
    assert report.backend == "CpuRef"
    assert "was ended by SIGABRT" in report.refusals[0].reason


def test_a_crash_loop_ends(runtime, monkeypatch):
    net = load(runtime, "run", "abort")
    for _ in range(worker.MAX_DEATHS):
        with pytest.raises(RunError, match="SIGABRT"):
            net.run(BAD)
    with pytest.raises(RunError, match="died 4 times") as caught:
        net.run(GOOD)
    assert caught.value.code == ErrorCode.ISOLATED_PROCESS_DIED
    monkeypatch.setattr(worker, "DEATHS_SECONDS", 0.0)
    assert works(net)
    with pytest.raises(RunError, match="SIGABRT"):
        net.run(BAD)
    assert works(net)


_IMPORTED = """
import os, sys, time
from fakes.isolated import ACTS, Faulty
if os.getpid() != {host}:
    ACTS[{what!r}]()

class Backend(Faulty):
    id = {{id!r}}
"""


def _importing(site, what):
    content = _IMPORTED.format(host=os.getpid(), what=what)
    site.add("Importing", package="acme_importing", source=content, manifest=manifest("Importing"))
    return {"backends": "Importing", "isolate": "Importing", "registry": Registry()}


@pytest.mark.parametrize(("what", "words"), [*DEATHS, ("fail", "the driver says no"), ("chatter", "line 199999")])
def test_it_dies_or_raises_in_its_import(site: Site, runtime, what, words):
    with pytest.raises(BackendError, match=words):
        runtime.load(network(), optimize=_importing(site, what))
    assert "acme_importing" not in sys.modules
    assert works(load(runtime))


@pytest.mark.parametrize("what", ["hang", "hang_in_c"])
def test_it_hangs_in_its_import(site: Site, runtime, monkeypatch, what):
    monkeypatch.setenv("DOVETAIL_PROBE_TIMEOUT", "0.3")
    with pytest.raises(BackendError, match=r"did not come back from its import within 0\.3 s"):
        runtime.load(network(), optimize=_importing(site, what))
    assert works(load(runtime))


def test_the_time_of_the_load_ends_while_it_is_imported(site: Site, runtime):
    """Its own time is not over: nothing is said of it."""
    began = time.monotonic()
    with pytest.raises(LoadTimeoutError, match=r"longer than 0\.3 s"):
        runtime.load(network(), optimize={**_importing(site, "hang"), "limits": Limits(seconds=0.3)})
    assert time.monotonic() - began < 8
    assert works(load(runtime))


def test_the_host_never_imports_it(site: Site, runtime):
    net = runtime.load(network(), optimize=_importing(site, "nothing"))
    assert works(net)
    assert "acme_importing" not in sys.modules
