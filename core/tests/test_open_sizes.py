"""What a network leaves open is an answer of the optimizer, not an error that is caught."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail import ErrorCode, GraphError, Network, OptionError
from dovetail.optimizer import CompileRequest, NetworkSource, OpenSizes, OptimizedNetwork, compile_network, optimize


def network() -> Network:
    """Make a network of n rows, reshaped as an input says."""
    made = Network("open")
    x = made.input("x", ("n", 4))
    target = made.input("target", (2,), np.int64)
    made.output(made.reshape(made.relu(x), target), "y")
    return made


def ask(**wanted: Any) -> OptimizedNetwork | OpenSizes:
    return compile_network(NetworkSource(network()), CompileRequest.of({"backends": "CpuRef", **wanted}))


def test_symbols_are_asked_for_first() -> None:
    made = ask()
    assert isinstance(made, OpenSizes)
    assert (made.symbols, made.inputs, made.error.code) == (("n",), (), ErrorCode.SHAPE_UNKNOWN)


def test_then_the_values_that_shapes_depend_on() -> None:
    made = ask(shapes={"n": 3})
    assert isinstance(made, OpenSizes)
    assert (made.symbols, made.inputs, made.error.code) == ((), ("target",), ErrorCode.VALUE_REQUIRED)


def test_nothing_is_open_once_both_are_given() -> None:
    made = ask(shapes={"n": 3}, values={"target": [6, 2]})
    assert isinstance(made, OptimizedNetwork)
    again = made.replan_as_far_as_known({"n": 5}, {"target": [10, 2]})
    assert isinstance(again, OptimizedNetwork)
    assert [spec.shape for spec in again.outputs] == [(10, 2)]


def test_what_does_not_fit_is_refused_though_other_sizes_are_open() -> None:
    with pytest.raises(OptionError, match="'m' is neither"):
        ask(shapes={"m": 3})
    with pytest.raises(GraphError) as caught:
        ask(shapes={"x": (3, 5)})
    assert caught.value.code is ErrorCode.SHAPE_MISMATCH


def test_optimize_raises_what_is_open() -> None:
    with pytest.raises(GraphError) as caught:
        optimize(network(), "CpuRef")
    assert caught.value.details["symbols"] == ["n"]
    with pytest.raises(GraphError) as caught:
        optimize(network(), "CpuRef", shapes={"n": 3})
    assert caught.value.details["inputs"] == ["target"]


def test_a_loaded_network_asks_each_run() -> None:
    with dovetail.load(network(), "CpuRef") as net:
        for rows, target in ((3, (6, 2)), (3, (2, 6)), (4, (8, 2))):
            x = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4) - 5
            result = net.run({"x": x, "target": np.asarray(target, np.int64)})["y"]
            np.testing.assert_array_equal(result, np.maximum(x, 0).reshape(target))


def test_outputs_are_those_of_the_network_as_it_was_given() -> None:
    """They are told when they are asked for, and its owner may have changed it meanwhile."""
    made = Network("mine")
    y = made.concat([made.relu(made.input("x", ("n", 4)))] * 2, axis=0)
    made.output(y, "y")
    optimized = optimize(made, "CpuRef", shapes={"n": 3})
    with dovetail.load(made, "CpuRef") as net:
        made.rename(made.outputs[0], "z")
        assert [(spec.name, spec.shape) for spec in net.outputs] == [("y", ("2*n", 4))]
    assert [(spec.name, spec.shape) for spec in optimized.outputs] == [("y", ("2*n", 4))]


def test_a_network_that_cannot_be_optimized_is_refused_though_sizes_are_open() -> None:
    made = Network("without outputs")
    made.relu(made.input("x", ("n", 4)))
    with pytest.raises(GraphError, match="no output"):
        dovetail.load(made, "CpuRef")
