"""Check a load's limits where they are met.

They are met while shapes are inferred, backends asked and memory planned, and when a run plans
anew.
"""

import time

import numpy as np
import pytest
from hostile_sizes import folds

import dovetail
import dovetail.layers
from dovetail import ErrorCode, IBackend, LimitError, Limits, LoadTimeoutError, RunTimeoutError, Support
from dovetail.ground import limits
from dovetail.loading import known_answers
from dovetail.optimizer import substitution_check


def chain(length=3, shape=(4, 8)):
    """Twice as many layers as the length says."""
    network = dovetail.Network()
    network.output(folds.chain(network, network.input("x", shape), 2 * length), "y")
    return network


def test_elements_are_checked_where_shapes_are_inferred():
    with pytest.raises(LimitError) as caught:
        dovetail.load(chain(shape=("n", 8)), "CpuRef", shapes={"n": 100}, limits=Limits(elements=799))
    assert caught.value.details["limit"] == "elements"
    dovetail.load(chain(shape=("n", 8)), "CpuRef", shapes={"n": 100}, limits=Limits(elements=800)).unload()


@pytest.mark.parametrize("load", [dovetail.load, dovetail.optimize])
@pytest.mark.parametrize("shape", [(4, 8), ("n", 8)])
def test_a_network_that_was_made_before_is_held_to_the_limits(load, shape):
    network = chain(20, shape)
    sizes = {"n": 4} if load is dovetail.optimize and shape[0] == "n" else None
    for given in ({"layers": len(network) - 1}, {"elements": 7}):
        with pytest.raises(LimitError) as caught:
            load(network, "CpuRef", shapes=sizes, limits=Limits(**given))
        assert caught.value.code == ErrorCode.LIMIT_EXCEEDED
        assert caught.value.details["limit"] in given
    load(network, "CpuRef", shapes=sizes, limits=Limits(layers=len(network), elements=32))


def test_a_constant_of_a_network_that_was_made_before_counts():
    network = dovetail.Network()
    slot = network.input("x", (2, 1, 1))
    ones = np.ones((1, 30, 100), np.float32)
    network.output(network.add(dovetail.layers.ElementwiseBinary(operation="mul"), slot, ones).output, "y")
    with pytest.raises(LimitError) as caught:
        dovetail.load(network, "CpuRef", limits=Limits(elements=2999))
    assert caught.value.details["wanted"] == 3000


def test_an_optimized_network_is_held_to_the_limits_of_its_load():
    optimized = dovetail.optimize(chain(20), "CpuRef")
    runtime = dovetail.Runtime(threads=1)
    for given in ({"layers": 3}, {"elements": 31}):
        with pytest.raises(LimitError):
            runtime.load(optimized, optimize={"limits": Limits(**given)})
    runtime.load(optimized, optimize={"limits": Limits(elements=32)}).unload()


def test_sizes_that_are_tried_to_name_results_are_not_held_to_the_limits():
    with dovetail.load(chain(shape=("n", 8)), "CpuRef", limits=Limits(elements=32)) as loaded:
        assert loaded.run({"x": np.ones((4, 8), np.float32)})["y"].shape == (4, 8)
        with pytest.raises(LimitError):
            loaded.run({"x": np.ones((5, 8), np.float32)})


def test_the_memory_of_a_run_counts():
    network = chain(shape=(1024, 1024))
    with pytest.raises(LimitError) as caught:
        dovetail.load(network, "CpuRef", limits=Limits(memory=1 << 20), passes=False)
    assert caught.value.details["limit"] == "memory"
    with dovetail.load(network, "CpuRef", limits=Limits(memory=1 << 24), passes=False) as loaded:
        assert loaded.outputs[0].shape == (1024, 1024)


def weighted(shape=(8, 1024)):
    network = dovetail.Network("weighted")
    x = network.input("x", shape)
    for index in range(2):
        x = network.addition(x, network.constant(np.full((256, 8, 1024), index, np.float32)))
    network.output(network.reduce(x, "sum", axes=(0,)), "y")
    return network


def test_constants_of_a_network_that_was_built_in_python_count():
    network = weighted()
    for given in (network, dovetail.optimize(network, "CpuRef", passes=False)):
        with pytest.raises(LimitError, match="the constants of network 'weighted' needs 16777216 bytes") as caught:
            dovetail.Runtime(threads=1).load(given, optimize={"limits": Limits(memory=15 << 20)})
        assert caught.value.details["limit"] == "memory"
    with pytest.raises(LimitError, match="the constants of network"):
        dovetail.optimize(network, "CpuRef", limits=Limits(memory=15 << 20))


def test_constants_count_once():
    with dovetail.load(weighted(("n", 1024)), "CpuRef", limits=Limits(memory=40 << 20), passes=False) as loaded:
        for size in (1, 8):
            assert loaded.run({"x": np.ones((size, 1024), np.float32)})["y"].shape == (8, 1024)
    shared = dovetail.Network("shared")
    array = np.zeros((256, 8, 1024), np.float32)
    array.flags.writeable = False
    x = shared.input("x", (8, 1024))
    for _ in range(9):
        x = shared.addition(x, shared.constant(array[:, :, :1]))
        x = shared.addition(x, shared.constant(array))
    shared.output(shared.reduce(x, "sum", axes=(0,)), "y")
    assert shared.bytes_of_constants() == array.nbytes + 9 * 256 * 8 * 4
    dovetail.load(shared, "CpuRef", limits=Limits(memory=60 << 20)).unload()


def product_with(constant):
    network = dovetail.Network("view")
    network.output(network.multiplication(network.input("x", (4,)), network.constant(constant, copy=False)), "y")
    return network


def test_a_view_of_large_memory_counts_as_what_it_reads(tmp_path):
    large = np.ones(1 << 22, np.float32)
    path = tmp_path / "mapped"
    with path.open("wb") as file:
        file.truncate(1 << 24)
    mapped = np.memmap(path, np.float32, "r")
    for view in (large[:4], mapped[4:8], mapped[4:12].reshape(2, 4)[1]):
        network = product_with(view)
        assert network.bytes_of_constants() == 16
        with dovetail.load(network, "CpuRef", limits=Limits(memory=1 << 20)) as loaded:
            assert np.array_equal(loaded.run({"x": np.ones(4, np.float32)})["y"], view)


def test_views_of_the_same_memory_count_once():
    large = np.ones(16, np.float32)
    network = dovetail.Network("views")
    for view in (large[:4], large[:4], large[:4].reshape(2, 2), large[8:12]):
        network.constant(view, copy=False)
    assert network.bytes_of_constants() == 32
    for start in range(12):  # more bytes in all than the array has
        network.constant(large[start : start + 4], copy=False)
    assert network.bytes_of_constants() == large.nbytes


@pytest.mark.parametrize("fallback", [False, True])
def test_a_deadline_that_passes_while_a_replacement_is_checked_is_no_fault_of_the_backend(monkeypatch, fallback):
    network = product_with(np.float32([1, 2, 3, 4]))
    join = substitution_check._loose_end

    def late(replacement):
        loose = join(replacement)
        limits.budget()._deadline = time.monotonic() - 1
        return loose

    monkeypatch.setattr(substitution_check, "_loose_end", late)
    with pytest.raises(LoadTimeoutError) as caught:
        dovetail.load(network, "CpuAcc", fallback=fallback, limits=Limits(seconds=60))
    assert caught.value.code == ErrorCode.TIMEOUT


def test_a_deadline_that_passes_in_a_self_test_is_no_fault_of_the_backend(monkeypatch):
    def late(*_, **__):
        limits.budget()._deadline = time.monotonic() - 1
        limits.budget().check_time()

    monkeypatch.setattr("dovetail.optimizer.optimize", late)
    with limits.limited(Limits(seconds=60)), pytest.raises(LoadTimeoutError):
        known_answers.self_test(None)


def test_a_file_whose_parser_counts_nothing_is_counted(tmp_path, monkeypatch):
    class Careless:
        def parse(self, path):
            return weighted()

    monkeypatch.setattr("dovetail.loading.parsing.created", lambda *_: Careless())
    file = tmp_path / "any.onnx"
    file.write_bytes(b"")
    with pytest.raises(LimitError, match="the constants of network 'weighted'"):
        dovetail.load(file, "CpuRef", limits=Limits(memory=15 << 20))


def test_a_plan_for_another_size_has_the_same_limits():
    with dovetail.load(chain(shape=("n", 1024)), "CpuRef", limits=Limits(memory=1 << 20), passes=False) as loaded:
        assert loaded.run({"x": np.ones((2, 1024), np.float32)})["y"].shape == (2, 1024)
        with pytest.raises(LimitError):
            loaded.run({"x": np.ones((2048, 1024), np.float32)})
        assert loaded.run({"x": np.ones((3, 1024), np.float32)})["y"].shape == (3, 1024)


class Slow(IBackend):
    """Takes its time over every layer."""

    id = "Slow"

    def supports(self, layer, options, device):
        time.sleep(0.02)
        return Support.no("kind", "never")

    def create_workload_factory(self, context, resources, options):
        raise AssertionError("it takes no layer")


def test_a_deadline_ends_a_load():
    before = time.monotonic()
    with pytest.raises(LoadTimeoutError) as caught:
        dovetail.load(chain(500), [Slow(), "CpuRef"], limits=Limits(seconds=0.1))
    assert caught.value.code == ErrorCode.TIMEOUT
    assert isinstance(caught.value, TimeoutError)
    assert time.monotonic() - before < 5  # it would take 20 s


def test_the_timeout_of_a_run_counts_for_the_plan_that_it_makes():
    network = chain(200, shape=("n", 8))
    with dovetail.load(network, [Slow(), "CpuRef"]) as loaded:
        before = time.monotonic()
        with pytest.raises(RunTimeoutError) as caught:
            loaded.run({"x": np.ones((2, 8), np.float32)}, timeout=0.1)
        assert caught.value.code == ErrorCode.TIMEOUT
        assert time.monotonic() - before < 4


class Greedy(IBackend):
    """Meets a limit inside of its own call."""

    id = "Greedy"

    def __init__(self, method):
        self.method = method

    def supports(self, layer, options, device):
        if self.method == "supports":
            limits.budget().take_memory(1 << 40, "a table")
        return Support.yes()

    def optimize_subgraph(self, view, options, device):
        limits.budget().take_memory(1 << 40, "a table")

    def create_workload_factory(self, context, resources, options):
        raise AssertionError("the load has ended by now")


@pytest.mark.parametrize("method", ["supports", "optimize_subgraph"])
def test_a_limit_that_a_backend_meets_ends_the_load_and_is_not_its_fault(method):
    with pytest.raises(LimitError) as caught:
        dovetail.load(chain(), [Greedy(method), "CpuRef"], limits=Limits(memory=1 << 30))
    assert caught.value.message.startswith("a table needs")


@pytest.mark.parametrize("given", [None, Limits(seconds=60)])
def test_limits_go_to_parse_load_and_optimize(tmp_path, given):
    with pytest.raises(dovetail.ModelError):
        dovetail.parse(tmp_path / "none.onnx", limits=given)
    optimized = dovetail.optimize(chain(), "CpuRef", limits=given)
    with dovetail.Runtime() as runtime, runtime.load(optimized) as loaded:
        assert loaded.run({"x": -np.ones((4, 8), np.float32)})
    assert optimized.replan().graph.outputs
