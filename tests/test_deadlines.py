"""Check that long loading looks at the time: counted in looks, so that no clock decides.

`benchmarks/deadlines.py` measures with a clock, more kinds, and larger ones.
"""

from __future__ import annotations

import signal

import deadlines
import numpy as np
import pytest
from hostile_sizes.folds import chain

import dovetail
from dovetail import Limits, LoadTimeoutError, Runtime
from dovetail.ground.limits import Budget

ELEMENTS = 1 << 23
LOOKS = 6
"""Each of at most 2^20 elements, of which some networks have twice as many as asked for."""


FOLDS = [
    "add",
    "compare",
    "cast float16",
    "permute",
    "slice",
    "gather",
    "concat",
    "stack",
    "pad",
    "trilu",
    "reduce",
    "tile large",
]
LOADS = [
    *[("CpuRef", f"fold {name}") for name in FOLDS],
    ("CpuRef", "fold dequantize"),
    ("CpuRef", "fold normalization"),
    ("CpuRef", "resize linear row"),
    ("CpuRef", "resize nearest row"),
    ("CpuAcc", "layer normalization long"),
    ("CpuAcc", "pool average row"),
    ("CpuAcc", "pool average wide"),
    ("CpuAcc", "matmul filled constant"),
    ("CpuAcc", "fully connected large"),
    ("CpuAcc", "dot product of a constant"),
    ("CpuAcc", "convolution huge window"),
    ("CpuAcc", "batch normalization many channels"),
]


class Looks:
    """Counts how often a load looks at the time, and ends it at one of these looks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.last = 0, 0
        looks = self

        def check_time(budget: Budget) -> None:
            looks.count += 1
            if looks.count == looks.last:
                budget.error = LoadTimeoutError("loading took longer than this test allows", hint="none")
                raise budget.error

        monkeypatch.setattr(Budget, "check_time", check_time)


@pytest.mark.parametrize(("backend", "case"), LOADS)
def test_loads_look_at_the_time_on_their_way(monkeypatch, backend, case):
    """A load of millions of elements looks repeatedly, and can end there, with its own error."""
    asked = {"backends": [backend], "oracle": False}  # whose own deadline would be taken for the load's
    with Runtime(threads=1) as runtime:
        small, _ = deadlines.built(deadlines.CASES[case], 1000)
        looks = Looks(monkeypatch)
        runtime.load(small, optimize=asked)
        few, looks.count = looks.count, 0
        large, _ = deadlines.built(deadlines.CASES[case], ELEMENTS)
        runtime.load(large, optimize=asked)
        assert looks.count >= few + LOOKS
        for last in (looks.count - LOOKS // 2, looks.count // 2):
            looks.count, looks.last = 0, last
            with pytest.raises(LoadTimeoutError):
                runtime.load(large, optimize=asked)
        looks.count = looks.last = 0
        runtime.load(small, optimize=asked)


def test_a_large_graph_looks_at_the_time_within_its_passes():
    """A pass, a sort or a plan of tens of thousands of layers is not one step."""
    network = dovetail.Network()
    network.output(chain(network, network.input("x", (4,)), 5000), "y")
    looks = []
    with Runtime(threads=1) as runtime:
        for limits in (Limits(), Limits(seconds=1000)):  # without a deadline walks cost nothing more
            with deadlines.listening() as silence:
                runtime.load(network, optimize={"backends": ["CpuRef"], "limits": limits})
            looks.append(silence.looks)
    assert looks[1] >= looks[0] + 50  # ten walks and more, each of five times a thousand layers


def test_a_large_file_is_read_in_parts(tmp_path, monkeypatch):
    """External data, initializers and contents of nodes of many megabytes."""
    onnx = pytest.importorskip("onnx")
    weights = np.ones(5 << 20, np.float32)
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    tensor = numpy_helper.from_array(weights, "w")
    node = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(weights, "c"))
    nodes = [node, helper.make_node("Add", ["x", "w"], ["s"]), helper.make_node("Add", ["s", "c"], ["y"])]
    value = lambda name: helper.make_tensor_value_info(name, 1, [1])  # noqa: E731
    result = helper.make_tensor_value_info("y", 1, weights.shape)
    model = helper.make_model(helper.make_graph(nodes, "parts", [value("x")], [result], [tensor]))
    for external in (False, True):
        path = tmp_path / f"{external}.onnx"
        onnx.save_model(model, str(path), save_as_external_data=external, convert_attribute=True)
        with monkeypatch.context() as patch:
            looks = Looks(patch)
            network = dovetail.parse(path)
            assert looks.count >= 5
        with dovetail.load(network, backends=["CpuRef"]) as loaded:
            assert loaded.run({"x": np.zeros(1, np.float32)})["y"][-1] == 2.0


def test_ctrl_c_ends_packing():
    """A signal handler runs while weights are packed without Python; its error ends the load."""
    large, _ = deadlines.built(deadlines.CASES["matmul large constant"], 8 * ELEMENTS)
    before = signal.signal(signal.SIGALRM, deadlines.raise_alarm)
    try:
        with Runtime(threads=1) as runtime:
            runtime.load(deadlines.built(deadlines.CASES["relu image"], 4)[0], optimize={"backends": ["CpuAcc"]})
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(deadlines.Alarm):
                _load_for_ever(runtime, large)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _load_for_ever(runtime: Runtime, network: dovetail.Network) -> None:
    """Load until a signal strikes within a load, most of which is packing."""
    while True:
        runtime.load(network, optimize={"backends": ["CpuAcc"]}).unload()
