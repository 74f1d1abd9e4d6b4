"""Test fault 59 of docs/faults.md: runs, loads and closing from inside a backend."""

import numpy as np
import pytest
from faults.misbehaving import RIGHT, FaultyBackend, X, load, run

from dovetail import ErrorCode, Network, RunError, Runtime


@pytest.mark.fault(59)
def test_running_oneself_from_a_workload_ends(hard, runtime):
    """The device is held while a run is on: without a word this would wait for ever."""
    nets, errors = [], []

    def again(inputs):
        try:
            nets[0].run({"x": X})
        except RunError as error:
            errors.append(error)
        return inputs[0]

    net = Network("again")
    parallel = net.add(hard.Parallel(mode="alone", concurrency=2), net.input("x", (12,)), name="alone").output
    net.output(net.add(hard.Call(function="again"), parallel, name="calls").output, "y")
    nets.append(runtime.load(net, optimize={"backends": [hard.PythonBackend(again=again), hard.ParallelBackend()]}))
    nets[0].run({"x": X}, timeout=20)
    assert len(errors) == 1
    assert errors[0].code is ErrorCode.BACKEND_CONTRACT
    assert "from inside a run" in str(errors[0])
    nets[0].run({"x": X}, timeout=20)


def calling(hard, runtime, act):
    """Load a network whose one layer does this; returns it, and the errors of doing it."""
    errors = []

    def call(inputs):
        try:
            act()
        except RunError as error:
            errors.append(error)
        return inputs[0]

    net = Network("calling")
    net.output(net.add(hard.Call(function="call"), net.input("x", (12,)), name="calls").output, "y")
    return runtime.load(net, optimize={"backends": [hard.PythonBackend(call=call)]}), errors


@pytest.mark.fault(59)
def test_a_binding_that_runs_itself_ends(hard, runtime):
    loaded, errors = calling(hard, runtime, lambda: binding.run())
    binding = loaded.bind({"x": X})
    binding.run()
    assert [error.code for error in errors] == [ErrorCode.BACKEND_CONTRACT]


@pytest.mark.fault(59)
def test_running_while_planning_ends(runtime):
    nets = []

    class Eager(FaultyBackend):
        def create_workload_factory(self, context, resources, options):
            if nets:
                nets[0].run({"x": X})
            return super().create_workload_factory(context, resources, options)

    net = Network("eager")
    net.output(net.relu(net.input("x", ("N",)), name="first"), "y")
    nets.append(runtime.load(net, optimize={"backends": [Eager()]}))
    with pytest.raises(RunError, match=r"create_workload_factory|from inside a run") as caught:
        nets[0].run({"x": X}, timeout=20)
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT


@pytest.mark.fault(59)
def test_a_runtime_is_not_closed_from_inside(hard):
    with Runtime(threads=1) as runtime:
        loaded, errors = calling(hard, runtime, runtime.close)
        loaded.run({"x": X}, timeout=20)
        assert len(errors) == 1
        loaded.run({"x": X}, timeout=20)


@pytest.mark.fault(59)
def test_loading_from_inside_a_method_works(runtime, neighbour):
    class Nested(FaultyBackend):
        def create_workload_factory(self, context, resources, options):
            np.testing.assert_array_equal(run(load(runtime, FaultyBackend())), RIGHT)
            return super().create_workload_factory(context, resources, options)

    np.testing.assert_array_equal(run(load(runtime, Nested())), RIGHT)
