"""Backends in processes of their own: the same results."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from fakes.isolated import Compiling, Faulty
from fakes.isolated_cases import network, registry_of

import dovetail
from dovetail import DType, Network, Runtime
from dovetail.isolation.worker import Worker


@pytest.fixture
def runtime():
    with Runtime(threads=1) as made:
        yield made


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
        registry=registry_of(Compiling()),
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


def test_bfloat16_crosses(runtime):
    pytest.importorskip("dovetail_reference")
    net = Network("brain")
    net.output(net.cast(net.cast(net.input("x", (3,)), DType.BFLOAT16), DType.FLOAT32), "y")
    x = np.array([1.0, 2.5, -3.25], np.float32)
    loaded = runtime.load(net, optimize={"backends": ["CpuRef"], "isolate": "CpuRef"})
    np.testing.assert_array_equal(loaded.run({"x": x})["y"], x)
