"""Functions of elements where they are hard: against Python's in float64, on both ways."""

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
