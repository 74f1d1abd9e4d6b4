"""Chains of elementwise layers: what is fused, and that it computes the same."""

import math

import numpy as np
import pytest

import dovetail
from dovetail import DType, Network

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


def test_the_inside_of_a_chain_is_shown_to_who_asks():
    net = Network("inside")
    x = net.input("x", (2, 3, 5))
    inner = net.tanh(net.multiplication(x, np.float32(0.5), name="half"), name="inner")
    net.output(net.sigmoid(net.addition(inner, x, name="sum"), name="last"), "z")
    feeds = {"x": np.random.default_rng(2).standard_normal((2, 3, 5)).astype(np.float32)}
    with dovetail.load(net, ["GpuAcc"]) as loaded:
        found = loaded.run(feeds, outputs=["inner", "z", "half"])
        loaded.run(feeds)
        assert [row.kind for row in loaded.placement.layers] == ["GpuAcc.Chain"]
    wide = feeds["x"].astype(np.float64)
    wanted = {"inner": np.tanh(wide / 2), "z": 1 / (1 + np.exp(-np.tanh(wide / 2) - wide)), "half": wide / 2}
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=3e-6, err_msg=name)


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


def fused(way, net, feeds, kinds=("GpuAcc.Fused",)):
    """Run a network of one output, after which its steps are looked at."""
    with dovetail.load(net, [way]) as loaded:
        made = loaded.run(feeds)["y"].copy()
        assert tuple(step.kind for step in loaded.placement.layers) == kinds
        return made


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("rows", "depth", "columns"), [(5, 7, 33), (1, 40, 19), (70, 12, 1), (50, 300, 64), (3, 600, 5)])
@pytest.mark.parametrize("constant", [False, True])
def test_a_product_finishes_its_results(way, rows, depth, columns, constant, dtype):
    random = np.random.default_rng([rows, depth, columns])
    a, b, bias, more = (
        random.standard_normal(size).astype(dtype) for size in ((2, rows, depth), (depth, columns), columns, (2, rows, columns))
    )
    net = Network("product")
    slots = {name: net.input(name, value.shape, DType.of(value.dtype)) for name, value in (("a", a), ("more", more))}
    right = b if constant else net.input("b", b.shape, DType.of(b.dtype))
    one = np.ones(1, dtype)
    y = net.addition(net.matmul(slots["a"], right), bias)
    inner = net.unary(net.division(y, one * dtype(2**0.5)), "erf")
    y = net.multiplication(net.multiplication(y, net.addition(inner, one)), one / 2)
    net.output(net.addition(slots["more"], y), "y")
    feeds = {"a": a, "more": more} | ({} if constant else {"b": b})
    found = fused(way, net, feeds)
    a, b, bias, more = (value.astype(np.float64) for value in (a, b, bias, more))
    x = a @ b + bias
    expected = x / 2 * (1 + np.vectorize(math.erf)(x / 2**0.5)) + more
    close = 2e-5 if dtype is np.float32 else 4e-3
    np.testing.assert_allclose(found, expected, rtol=close, atol=close * (1 + abs(expected).max()) / 4)


def test_a_layer_with_activation_and_bias_finishes_behind_them(way):
    random = np.random.default_rng(4)
    x, weights, bias, scale = (random.standard_normal(size).astype(np.float32) for size in ((6, 9), (37, 9), 37, (6, 37)))
    net = Network("fully connected")
    made = net.fully_connected(net.input("x", x.shape), weights, bias)
    net.output(net.multiplication(net.relu(made), net.input("scale", scale.shape)), "y")
    found = fused(way, net, {"x": x, "scale": scale})
    expected = np.maximum(x.astype(np.float64) @ weights.T.astype(np.float64) + bias, 0) * scale
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_truth_chooses_what_becomes_of_a_product(way):
    random = np.random.default_rng(8)
    a, b, least = (random.standard_normal(size).astype(np.float32) for size in ((5, 9), (9, 37), 37))
    full, line = random.standard_normal((5, 37)) > 0, least > 0
    net = Network("chosen")
    product = net.matmul(net.input("a", a.shape), b)
    inner = net.where(net.input("line", line.shape, DType.BOOL), product, least)
    net.output(net.where(net.input("full", full.shape, DType.BOOL), inner, net.unary(inner, "neg")), "y")
    found = fused(way, net, {"a": a, "line": line, "full": full})
    inner = np.where(line, a.astype(np.float64) @ b, least)
    np.testing.assert_allclose(found, np.where(full, inner, -inner), rtol=1e-5, atol=1e-5)


def test_what_reads_a_product_too_keeps_it_whole(way):
    net = Network("two readers")
    product = net.matmul(net.input("a", (4, 5)), net.input("b", (5, 6)))
    net.output(net.addition(product, np.ones(6, np.float32)), "y")
    net.output(product, "z")
    feeds = {"a": np.ones((4, 5), np.float32), "b": np.ones((5, 6), np.float32)}
    assert (fused(way, net, feeds, ("dovetail.MatMul", "dovetail.ElementwiseBinary")) == 6).all()


def test_operands_by_rows_are_not_finished_with(way):
    net = Network("rows")
    product = net.matmul(net.input("a", (4, 5)), net.input("b", (5, 6)))
    net.output(net.multiplication(product, np.arange(4, dtype=np.float32).reshape(4, 1)), "y")
    feeds = {"a": np.ones((4, 5), np.float32), "b": np.ones((5, 6), np.float32)}
    found = fused(way, net, feeds, ("dovetail.MatMul", "dovetail.ElementwiseBinary"))
    np.testing.assert_array_equal(found, np.repeat(np.arange(4.0)[:, None] * 5, 6, 1))
