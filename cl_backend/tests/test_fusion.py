"""Chains of elementwise layers: what is fused, and that it computes the same."""

import numpy as np
import pytest

import dovetail
from dovetail import Network

pytestmark = pytest.mark.usefixtures("backend")


def results(network, feeds):
    """Return what the network gives, and the kinds of its steps."""
    with dovetail.load(network, ["GpuAcc"]) as loaded:
        return loaded.run(feeds), [step.kind for step in loaded.placement.layers]


def test_a_chain_with_broadcast_operands_is_one_step():
    net = Network("chain")
    x, b = net.input("x", (2, 3, 5)), net.input("b", (5,))
    y = net.relu(net.addition(net.multiplication(x, b), net.tanh(x)))
    net.output(net.sigmoid(net.subtraction(y, np.array([[[0.5]], [[-2.0]]], np.float32))), "z")
    random = np.random.default_rng(1)
    feeds = {"x": random.standard_normal((2, 3, 5)).astype(np.float32), "b": random.standard_normal(5).astype(np.float32)}
    found, kinds = results(net, feeds)
    assert kinds == ["GpuAcc.Chain"]
    x, b = (feeds[name].astype(np.float64) for name in "xb")
    inner = np.maximum(x * b + np.tanh(x), 0) - np.array([[[0.5]], [[-2.0]]])
    np.testing.assert_allclose(found["z"], 1 / (1 + np.exp(-inner)), rtol=3e-6)


def test_what_somebody_else_reads_ends_a_chain():
    net = Network("two readers")
    x = net.input("x", (7,))
    y = net.unary(x, "exp")
    net.output(net.relu(y), "a")
    net.output(net.reshape(y, (7, 1)), "b")
    feeds = {"x": np.linspace(-1, 1, 7, dtype=np.float32)}
    found, kinds = results(net, feeds)
    assert "GpuAcc.Chain" not in kinds
    np.testing.assert_allclose(found["a"], np.exp(feeds["x"].astype(np.float64)), rtol=1e-6)
    np.testing.assert_array_equal(found["a"], found["b"][:, 0])


def test_a_diamond_is_one_chain():
    net = Network("diamond")
    x = net.input("x", (3, 4))
    y = net.unary(x, "exp")
    net.output(net.multiplication(net.tanh(y), net.subtraction(y, x)), "z")
    feeds = {"x": np.linspace(-2, 1, 12, dtype=np.float32).reshape(3, 4)}
    found, kinds = results(net, feeds)
    assert kinds == ["GpuAcc.Chain"]
    x = feeds["x"].astype(np.float64)
    np.testing.assert_allclose(found["z"], np.tanh(np.exp(x)) * (np.exp(x) - x), rtol=3e-6)


@pytest.mark.parametrize("count", [9, 40])
def test_long_chains_are_parted(count):
    net = Network("long")
    x = net.input("x", (6,))
    y = x
    for number in range(count):
        y = net.addition(y, net.input(f"in{number}", (6,)))
    net.output(y, "y")
    random = np.random.default_rng(count)
    feeds = {slot.name: random.standard_normal(6).astype(np.float32) for slot in net.inputs}
    found, kinds = results(net, feeds)
    assert kinds.count("GpuAcc.Chain") >= 2
    np.testing.assert_allclose(found["y"], sum(value.astype(np.float64) for value in feeds.values()), rtol=1e-4, atol=1e-5)


def test_comparison_choice_and_cast_keep_their_types():
    net = Network("types")
    x, limit = net.input("x", (2, 5)), net.input("limit", (5,))
    small = net.comparison(x, limit, "less")
    net.output(net.cast(net.where(small, x, net.unary(x, "neg")), np.int32), "y")
    feeds = {"x": np.arange(10, dtype=np.float32).reshape(2, 5), "limit": np.array([3, 1, 9, 2, 5], np.float32)}
    with dovetail.load(net, ["GpuAcc", "CpuRef"]) as loaded:
        found = loaded.run(feeds)["y"]
    expected = np.where(feeds["x"] < feeds["limit"], feeds["x"], -feeds["x"]).astype(np.int32)
    np.testing.assert_array_equal(found, expected)
