"""Functions that a model spells out, with constants that widen what they are combined with."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dovetail
from dovetail import Network


def gelu_of(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def spelled_out(net, x, order, wide):
    """GELU, with the constant `wide` of rank 4."""
    constants = {"root": math.sqrt(2.0), "one": 1.0, "half": 0.5}
    root, one, half = (np.full((1, 1, 1, 1) if name == wide else (), value, np.float32) for name, value in constants.items())
    gate = net.addition(net.unary(net.division(x, root), "erf"), one)
    if order == "half last":
        return net.multiplication(net.multiplication(x, gate), half)
    if order == "half first":
        return net.multiplication(net.multiplication(x, half), gate)
    return net.multiplication(x, net.multiplication(gate, half))


@pytest.mark.parametrize("wide", ["none", "root", "one", "half"])
@pytest.mark.parametrize("order", ["half last", "half first", "half inside"])
@pytest.mark.parametrize("after", ["input", "product"])
def test_constants_of_higher_rank(order, wide, after):
    x = np.random.default_rng(6).standard_normal((5, 8)).astype(np.float32)
    weights = np.eye(8, dtype=np.float32)
    net = Network()
    slot = net.input("x", x.shape)
    made = spelled_out(net, net.matmul(slot, weights) if after == "product" else slot, order, wide)
    net.output(made, "y")
    with dovetail.load(net, ["CpuAcc"], fallback=False) as loaded:
        found = loaded.run({"x": x})["y"]
    assert found.shape == ((5, 8) if wide == "none" else (1, 1, 5, 8))
    np.testing.assert_allclose(found.reshape(x.shape), gelu_of(x), rtol=1e-5, atol=1e-6)


def test_what_fills_up_is_no_constant():
    """A pad has a `value` too."""
    x, factors = np.ones((2, 3), np.float32), np.full((3, 3), 2, np.float32)
    net = Network()
    net.output(net.multiplication(net.pad(net.input("x", x.shape), (1, 0), (0, 0)), factors), "y")
    with dovetail.load(net, ["CpuAcc"], fallback=False) as loaded:
        np.testing.assert_array_equal(loaded.run({"x": x})["y"], np.pad(x, ((1, 0), (0, 0))) * factors)
