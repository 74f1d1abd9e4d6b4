"""What can be copied and pickled is another of the same; what cannot be says what to do instead."""

import copy
import pickle

import numpy as np
import pytest

import dovetail
from dovetail import Network, Runtime


def pickled(value):
    return pickle.loads(pickle.dumps(value))


COPIES = [pytest.param(pickled, id="pickle"), pytest.param(copy.deepcopy, id="deepcopy"), pytest.param(copy.copy, id="copy")]


def doubling():
    network = Network("doubling")
    network.output(network.multiplication(network.input("x", (3,)), np.float32(2)), "y")
    return network


def running_sum():
    network = Network("running sum")
    x, total = network.input("x", (3,)), network.state("total", (3,))
    after = network.addition(total, x)
    network.write_state("total", after)
    network.output(network.relu(after), "y")
    return network


X = {"x": np.array([1, 2, 3], np.float32)}


@pytest.mark.parametrize("copied", COPIES[:2])
def test_a_network_is_the_same_elsewhere(copied):
    with dovetail.load(copied(doubling()), "CpuRef") as net:
        np.testing.assert_array_equal(net.run(X)["y"], [2, 4, 6])


@pytest.mark.parametrize("copied", COPIES)
def test_a_report_can_be_kept(copied):
    with dovetail.load(doubling(), "CpuRef") as net:
        assert copied(net.placement).explain() == net.placement.explain()
        assert copied(net.inputs) == net.inputs


@pytest.mark.parametrize("copied", COPIES)
def test_a_copied_state_is_another_stream_that_goes_on_from_the_same_values(copied):
    with dovetail.load(running_sum(), "CpuRef") as net:
        fresh = copied(net.new_state())
        np.testing.assert_array_equal(net.run(X, state=fresh)["y"], X["x"])
        first = net.new_state()
        net.run(X, state=first)
        second = copied(first)
        np.testing.assert_array_equal(net.run(X, state=second)["y"], 2 * X["x"])
        np.testing.assert_array_equal(net.run(X, state=second)["y"], 3 * X["x"])
        np.testing.assert_array_equal(net.run(X, state=first)["y"], 2 * X["x"])
        second.reset()
        np.testing.assert_array_equal(net.run(X, state=second)["y"], X["x"])


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize(
    ("make", "instead"),
    [
        pytest.param(lambda net: net, "the path of its model, or from the dovetail.Network", id="LoadedNetwork"),
        pytest.param(lambda net: net.optimized, "pickle the dovetail.Network", id="OptimizedNetwork"),
        pytest.param(lambda net: net.bind(X), "bind arrays to a network", id="Binding"),
        pytest.param(lambda net: Runtime(threads=1), "make another one in another process", id="Runtime"),
    ],
)
def test_what_belongs_to_its_process_says_so(copied, make, instead):
    with dovetail.load(doubling(), "CpuRef") as net, pytest.raises(TypeError, match="cannot be copied or pickled") as caught:
        copied(make(net))
    assert instead in str(caught.value)
