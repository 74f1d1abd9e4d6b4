"""Functions of elements where they are hard: against float64, on both ways."""

import math

import numpy as np
import pytest


@pytest.mark.parametrize(("dtype", "bound"), [(np.float32, 4e-7), (np.float64, 1e-12)])
def test_gelu_is_exact_far_below_zero(run, way, dtype, bound):
    """The bound is relative, however small the result is."""
    x = np.linspace(-12.9, 9, 30001).astype(dtype)
    exact = [value * math.erfc(-value / math.sqrt(2)) / 2 for value in x.astype(np.float64)]
    (y,) = run(way, lambda network, x: network.gelu(x), x)
    np.testing.assert_allclose(y, exact, rtol=bound)


def test_gelu_at_the_ends(run, way):
    x = np.array([-np.inf, np.inf, np.nan, -3e38, -20, -14, -0.0, 0, 3e38], np.float32)
    (y,) = run(way, lambda network, x: network.gelu(x), x)
    np.testing.assert_allclose(y, [np.nan, np.inf, np.nan, 0, 0, 0, 0, 0, 3e38], atol=2e-43)


@pytest.mark.parametrize("function", ["sin", "cos", "tan"])
def test_numbers_do_not_depend_on_their_neighbours(way, run, function):
    """Large numbers, and NaN, stand beside small ones."""
    random = np.random.default_rng(7)
    x = (np.exp2(random.uniform(-140, 120, (3, 1000))) * random.choice([-1, 1], (3, 1000))).astype(np.float32)
    x[1] = np.minimum(x[1], 29999)
    x[2, :500] = np.where(random.random(500) < 0.1, np.nan, np.minimum(x[2, :500], 1))
    (found,) = run(way, lambda net, x: net.unary(x, function), x)
    np.testing.assert_allclose(found, getattr(np, function)(x.astype(np.float64)), rtol=1e-6, atol=1e-38)
