"""What a profile tells of a device, and what crosses to it, counted beside the driver."""

import os
from pathlib import Path

import numpy as np

import dovetail

TESTS = Path(__file__).parent


def network():
    random = np.random.default_rng(1)
    net = dovetail.Network("dense")
    x = net.input("x", (16, 300))
    for number, (inputs, outputs) in enumerate([(300, 200), (200, 100)]):
        weights = random.standard_normal((outputs, inputs)).astype(np.float32)
        x = net.relu(net.fully_connected(x, weights, name=f"dense{number}"), name=f"relu{number}")
    net.output(x, "y")
    return net


FEEDS = {"x": np.ones((16, 300), np.float32)}


def test_layers_have_times_of_the_device(backend):
    with dovetail.load(network(), [backend]) as net:
        before = net.run(FEEDS)["y"]
        with net.profiling() as profile:
            for _ in range(3):
                np.testing.assert_array_equal(net.run(FEEDS)["y"], before)
        np.testing.assert_array_equal(net.run(FEEDS)["y"], before)
        layers = [layer for layer in profile.layers if layer.backend == "GpuAcc" and layer.kind != "dovetail.Wait"]
        assert layers
        assert all(layer.device_ns > 0 for layer in layers)
        for run in profile.each_run:
            assert {span.name for span in run.spans} - {""}
            begins = [span.begin for span in run.spans]
            assert begins == sorted(begins)
        assert "device us" in profile.table()
        assert all(copy.milliseconds > 0 for copy in net.placement.copies)


def test_threads_are_profiled_each_for_itself(backend):
    with dovetail.load(network(), [backend]) as net:
        net.run(FEEDS)
        with net.profiling() as profile:
            runs = [net.submit(FEEDS) for _ in range(8)]
            assert all(len(one.result()) == 1 for one in runs)
        assert profile.runs == 8
        assert len({len(run.spans) for run in profile.each_run}) == 1


COUNTED = """
import ctypes, os, sys
import numpy as np
import dovetail
from test_profile import FEEDS, network

counter = ctypes.CDLL(os.environ["DOVETAIL_OPENCL_LIB"])
crossed = lambda: (counter.counter_take(b"in"), counter.counter_take(b"out"))
with dovetail.load(network(), ["GpuAcc"]) as net:
    assert crossed()[0] > 4 * (300 * 200 + 200 * 100), "the weights, when it was loaded"
    binding = net.bind({"x": FEEDS["x"].copy()})
    binding.run()
    crossed()
    sizes = (16 * 300 * 4, 16 * 100 * 4)
    for _ in range(3):
        binding.run()
        assert crossed() == sizes
    assert net.placement.crossing == sizes
    with net.profiling() as profile:
        binding.run()
    assert crossed() == sizes
    assert [copy.copied_bytes for copy in profile.copies] == list(sizes)
    assert all(copy.device_ns > 0 for copy in profile.copies), "by the device, not by mapping"
    assert "each run copies 19200 bytes to devices, 6400 bytes to the host" in net.placement.explain()
with dovetail.load(network(), ["CpuRef"]) as other:
    np.testing.assert_allclose(binding.outputs["y"], other.run(FEEDS)["y"], rtol=1e-4, atol=1e-3)
"""


def test_only_inputs_and_outputs_cross(backend, compiled, child, tmp_path):
    """By a library before the driver, which says that the device shares no memory with the host."""
    behind = ("-Wl,--no-as-needed", "-l:libOpenCL.so.1", "-ldl")
    library = compiled("opencl_counter.c", tmp_path / "libcounter.so", "-D_GNU_SOURCE", *behind)
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    child(COUNTED, DOVETAIL_OPENCL_LIB=str(library), PYTHONPATH=path)
