"""Backends in processes of their own: the same results, and nothing left behind."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from fakes.isolated import Compiling, Environed, Faulty

import dovetail
from dovetail import DType, Network, OptionError, Runtime
from dovetail.discovery.manifest import check
from dovetail.discovery.reasons import Refused
from dovetail.discovery.registry import Registry
from dovetail.isolation.worker import Worker
from dovetail.loading import parsing, snapshots
from dovetail.optimizer import CompileRequest


@pytest.fixture
def runtime():
    with Runtime(threads=1) as made:
        yield made


def network(shape=(2, 3), dtype=np.float32):
    net = Network("scaled")
    net.output(net.relu(net.input("x", shape, dtype), name="scale"), "y")
    return net


@pytest.fixture(autouse=True)
def others():
    """Leave out of `children` what earlier tests of this process still hold."""
    OTHERS.clear()
    OTHERS.update(children())


OTHERS = set()


def children():
    """Return the processes of this test that live, below any depth."""
    found, pending = [], [os.getpid()]
    while pending:
        pid = pending.pop()
        for task in Path(f"/proc/{pid}/task").glob("*"):
            try:
                new = [int(word) for word in (task / "children").read_text().split()]
            except OSError:
                continue
            found += new
            pending += new
    mine = set(found) - OTHERS
    return [pid for pid in mine if "isolated_template" in Path(f"/proc/{pid}/cmdline").read_text()]


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def test_it_runs_elsewhere_and_ends_with_its_network(runtime):
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


@pytest.mark.parametrize("count", [255, 256, 257, 1000])
def test_profiles_count_all_that_its_device_did(runtime, count):
    """Some hundred times fit into an answer; the last one stands for those that do not."""
    backend = Faulty()
    backend.commands = count
    with runtime.load(network(), optimize={"backends": [backend], "isolate": "Faulty"}) as net, net.profiling() as profile:
        net.run({"x": np.ones((2, 3), np.float32)})
    (run,) = profile.each_run
    (layer,) = (one for one in profile.layers if one.device_ns is not None)
    assert len(run.spans) == min(count, 256)
    assert abs(layer.device_ns - 1000 * count) <= 2 * count  # a microsecond each, of a float
    assert run.spans[-1].name == (f"{count - 255} more" if count > 256 else f"command {count - 1}")


def test_profiles_have_when_its_device_worked(runtime):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    with runtime.load(network(), optimize={"backends": [Faulty()], "isolate": "Faulty"}) as net:
        net.run({"x": x})
        with net.profiling() as profile:
            for _ in range(3):
                np.testing.assert_array_equal(net.run({"x": x})["y"], x * 2)
        net.run({"x": x})
        with net.profiling() as other:
            net.run({"x": x})
    assert [len(run.spans) for run in (*profile.each_run, *other.each_run)] == [2] * 4
    for run in profile.each_run:
        long, short = run.spans
        assert short.name == "scaling \u00e4"
        assert len(long.name) > 100
        assert set(long.name) == set("long"), "cut, and a text still"
        begin, end = run.times[long.step]
        assert begin - 10_000 < short.begin < short.end < end
    (layer,) = (one for one in profile.layers if one.device_ns is not None)
    assert layer.device_calls == 3
    assert 500 < layer.device_median_ns < 2000


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((), np.float32), ((0, 4), np.float32), ((1,), np.float16), ((7, 3), np.float64), ((2, 0), np.float16), ((5,), np.int32)],
)
def test_shapes_and_types(runtime, shape, dtype):
    asked = {"backends": [Faulty()], "isolate": "Faulty"}
    net = runtime.load(network(shape, dtype), optimize=asked)
    x = np.ones(shape, dtype)
    result = net.run({"x": x})["y"]
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, x * 2)


def test_devices_threads_words_and_progress_come_through():
    told = []
    net = dovetail.load(
        network((8,)),
        [f"Compiling:{1}"],
        isolate="Compiling",
        threads=1,
        runtime=Runtime(threads=1),
        registry=_registry(Compiling()),
        progress=lambda *news: told.append(news),
    )
    pid, threads = net.run({"x": np.zeros(8, np.float32)})["y"][:2]
    assert int(pid) % (1 << 24) != os.getpid()
    assert threads == 1
    assert told == [("Compiling", 0.0, "step 0"), ("Compiling", 0.5, "step 1"), ("Compiling", 1.0, "step 2")]
    (report,) = net.placement.layers
    assert report.words == "fused, in a process of its own"
    assert report.steps == (("scale", "a step"),)
    net.unload()


def _registry(backend, manifest=None):
    registry = Registry()
    registry.register(backend, manifest=manifest)
    return registry


def test_what_it_refuses_goes_on_with_its_reason(runtime):
    net = Network("two")
    net.output(net.unary(net.relu(net.input("x", (3,)), name="mine"), "exp", name="other"), "y")
    with pytest.raises(dovetail.PlacementError, match=r"no dovetail\.ElementwiseUnary here"):
        runtime.load(net, optimize={"backends": [Faulty()], "isolate": "Faulty"})
    pytest.importorskip("dovetail_reference")
    loaded = runtime.load(net, optimize={"backends": [Faulty(), "CpuRef"], "isolate": "Faulty"})
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_allclose(loaded.run({"x": x})["y"], np.exp(2 * x), rtol=1e-6)


def test_what_is_held_for_a_part_is_told(runtime):
    """Packed in its process, and as it was here, to start it again."""
    pytest.importorskip("dovetail_reference")
    weights = np.ones((64, 100), np.float32)
    net = Network("weights")
    net.output(net.fully_connected(net.input("x", (1, 100)), weights), "y")
    inside = runtime.load(net, optimize={"backends": ["CpuRef"]}).memory
    isolated = runtime.load(net, optimize={"backends": ["CpuRef"], "isolate": "CpuRef"}).memory
    there = inside.constant_bytes + inside.private_bytes
    assert there >= weights.nbytes
    assert there + weights.nbytes <= isolated.private_bytes <= there + weights.nbytes + 5000
    assert not isolated.constant_bytes


@pytest.mark.parametrize("said", [-1, 1 << 62, 1 << 200, 2.5, "12", None, [3]])
def test_what_a_process_says_it_holds_is_not_believed(runtime, monkeypatch, said):
    real = Worker.ask

    def ask(self, message, *more):
        reply = real(self, message, *more)
        return {**reply, "held": said} if message["do"] == "load" else reply

    monkeypatch.setattr(Worker, "ask", ask)
    with runtime.load(network(), optimize={"backends": [Faulty()], "isolate": "Faulty"}) as net:
        assert net.memory.private_bytes < 10_000  # the part as it is kept here


def test_its_process_starts_while_a_model_is_read(runtime, monkeypatch):
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
def test_a_load_that_fails_before_its_process_is_asked_leaves_none(runtime, monkeypatch, what):
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


def test_the_manifest_asks_and_the_caller_decides(runtime):
    manifest = {"id": "Compiling", "device": "npu", "rank": 1, "description": "tells its process", "isolate": True}
    asked = {"backends": ["Compiling:1"], "registry": _registry(Compiling(), manifest)}
    x = {"x": np.zeros(2, np.float32)}
    isolated = runtime.load(network((2,)), optimize=asked)
    inside = runtime.load(network((2,)), optimize={**asked, "isolate": ()})
    assert children()
    assert isolated.run(x)["y"][0] != np.float32(os.getpid())
    assert inside.run(x)["y"][0] == np.float32(os.getpid())


def test_the_manifest_asks_for_some_options_alone(runtime):
    manifest = {"id": "Faulty", "device": "npu", "rank": 1, "description": "multiplies", "isolate": {"factor": [3.0, 5.0]}}
    asked = {"backends": ["Faulty"], "registry": _registry(Faulty(), manifest)}
    inside = [runtime.load(network(), optimize={**asked, "options": given}) for given in ({}, {"Faulty": {"factor": 4.0}})]
    assert not children()
    isolated = runtime.load(network(), optimize={**asked, "options": {"Faulty": {"factor": 3.0}}})
    assert children()
    x = np.ones((2, 3), np.float32)
    assert [float(net.run({"x": x})["y"][0, 0]) for net in (*inside, isolated)] == [2.0, 4.0, 3.0]


@pytest.mark.parametrize("isolate", [True, {"factor": 3.0}])
def test_a_variable_of_the_manifest_makes_an_exception(runtime, monkeypatch, isolate):
    manifest = {"id": "Faulty", "device": "npu", "rank": 1, "description": "multiplies"}
    manifest |= {"isolate": isolate, "isolate_unless": ["FAULTY_APART", "FAULTY_SDK"]}
    asked = {"backends": ["Faulty"], "registry": _registry(Faulty(), manifest), "options": {"Faulty": {"factor": 3.0}}}
    monkeypatch.setenv("FAULTY_SDK", "/opt/sdk")
    runtime.load(network(), optimize=asked)
    assert not children()
    runtime.load(network(), optimize={**asked, "isolate": "Faulty"}).unload()  # the caller decides
    monkeypatch.setenv("FAULTY_SDK", "")
    isolated = runtime.load(network(), optimize=asked)
    assert children()
    isolated.unload()


@pytest.mark.parametrize("names", ["FAULTY_SDK", [""], [1], ["A\0"]])
def test_exceptions_of_the_manifest_are_names(names):
    manifest = {"id": "Faulty", "device": "npu", "rank": 1, "description": "multiplies", "isolate_unless": names}
    with pytest.raises(Refused, match="'isolate_unless' in the manifest"):
        check(manifest)


def test_ids_and_options_that_mean_nothing(runtime):
    with pytest.raises(OptionError, match="isolate names 'Faulti'"):
        runtime.load(network(), optimize={"backends": [Faulty()], "isolate": "Faulti"})
    with pytest.raises(OptionError, match="has no option 'factr'"):
        runtime.load(network(), optimize={"backends": [Faulty()], "isolate": "Faulty", "options": {"Faulty": {"factr": 1}}})


def test_open_sizes_and_several_networks(runtime):
    asked = {"backends": [Faulty()], "isolate": "Faulty"}
    first = runtime.load(network(("N", 2)), optimize=asked)
    second = runtime.load(network((3, 2)), optimize=asked)
    for size in (1, 3, 2, 3):
        x = np.full((size, 2), size, np.float32)
        np.testing.assert_array_equal(first.run({"x": x})["y"], 2 * x)
    np.testing.assert_array_equal(second.run({"x": x})["y"], 2 * x)
    first.unload()
    np.testing.assert_array_equal(second.run({"x": x})["y"], 2 * x)


def test_many_runs_in_flight(runtime):
    net = runtime.load(network((64,)), optimize={"backends": [Faulty()], "isolate": "Faulty"})
    wrong = []

    def work(value):
        x = np.full(64, value, np.float32)
        wrong.extend(1 for _ in range(50) if not np.array_equal(net.run({"x": x})["y"], 2 * x))

    threads = [threading.Thread(target=work, args=(value,)) for value in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_several_parts_inputs_and_outputs(runtime):
    net = Network("several")
    a, b = net.input("a", (4,)), net.input("b", (2, 2), np.float16)
    middle = net.relu(a, name="first")
    net.output(middle, "m")
    net.output(net.relu(middle, name="second"), "y")
    net.output(net.relu(b, name="third"), "z")
    loaded = runtime.load(net, optimize={"backends": [Faulty()], "isolate": "Faulty"})
    x, y = np.arange(4, dtype=np.float32), np.ones((2, 2), np.float16)
    result = loaded.run({"a": x, "b": y})
    np.testing.assert_array_equal(result["m"], 2 * x)
    np.testing.assert_array_equal(result["y"], 4 * x)
    np.testing.assert_array_equal(result["z"], 2 * y)


def test_the_same_bits_as_in_process(runtime):
    """Weights, several kinds and element types: `CpuRef` alone knows all of them."""
    pytest.importorskip("dovetail_reference")
    generator = np.random.default_rng(3)
    net = Network("convolutional")
    x = net.input("x", (2, 3, 9, 9))
    weights = generator.normal(size=(8, 3, 3, 3)).astype(np.float32)
    y = net.relu(net.convolution2d(x, weights, generator.normal(size=8).astype(np.float32)))
    y = net.softmax(net.matmul(net.reshape(y, (2, -1)), generator.normal(size=(8 * 49, 5)).astype(np.float32)))
    net.output(y, "y")
    feeds = {"x": generator.normal(size=(2, 3, 9, 9)).astype(np.float32)}
    inside = runtime.load(net, optimize={"backends": ["CpuRef"]}).run(feeds)
    isolated = runtime.load(net, optimize={"backends": ["CpuRef"], "isolate": "CpuRef"})
    assert isolated.run(feeds)["y"].tobytes() == inside["y"].tobytes()
    assert isolated.run(feeds, timeout=20)["y"].tobytes() == inside["y"].tobytes()


def test_states(runtime):
    pytest.importorskip("dovetail_reference")
    net = Network("sum")
    after = net.addition(net.state("total", (2,)), net.input("x", (2,)))
    net.write_state("total", after)
    net.output(net.multiplication(after, np.float32(2)), "y")
    loaded = runtime.load(net, optimize={"backends": ["CpuRef"], "isolate": "CpuRef"})
    x = {"x": np.ones(2, np.float32)}
    assert [loaded.run(x)["y"][0] for _ in range(3)] == [2, 4, 6]
    assert loaded.run(x, state=loaded.new_state())["y"][0] == 2


def test_an_object_that_cannot_be_sent(runtime):
    class Local(Faulty):
        pass

    with pytest.raises(dovetail.BackendError, match="cannot be pickled"):
        runtime.load(network(), optimize={"backends": [Local()], "isolate": "Faulty"})


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


def test_bfloat16_crosses(runtime):
    pytest.importorskip("dovetail_reference")
    net = Network("brain")
    net.output(net.cast(net.cast(net.input("x", (3,)), DType.BFLOAT16), DType.FLOAT32), "y")
    x = np.array([1.0, 2.5, -3.25], np.float32)
    loaded = runtime.load(net, optimize={"backends": ["CpuRef"], "isolate": "CpuRef"})
    np.testing.assert_array_equal(loaded.run({"x": x})["y"], x)


def test_plans_with_an_isolated_backend_are_not_kept():
    assert snapshots._asked(CompileRequest(backends=["Faulty"])) is not None
    assert snapshots._asked(CompileRequest(backends=["Faulty"], isolate=())) is not None
    assert snapshots._asked(CompileRequest(backends=["Faulty"], isolate="Faulty")) is None


def test_a_manifest_says_yes_or_no():
    manifest = {"id": "Compiling", "device": "npu", "rank": 1, "description": "tells its process", "isolate": "yes"}
    with pytest.raises(dovetail.BackendError, match="'isolate' in the manifest must be of type bool or dict"):
        _registry(Compiling(), manifest)


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
