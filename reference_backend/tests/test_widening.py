"""Conversions of 16-bit floats, through layers that are widened to float32 and rounded back."""

import ml_dtypes
import numpy as np
import pytest


def patterns(dtype):
    """Every value of a 16-bit type, as [N, 1, 1]: images of one element."""
    return np.arange(1 << 16, dtype=np.uint16).view(dtype).reshape(-1, 1, 1)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=lambda d: np.dtype(d).name)
def test_every_value_survives(run_layer, dtype):
    x = patterns(dtype)
    [y] = run_layer(lambda net, s: net.global_pooling(s, "max"), x)
    nan = np.isnan(x.astype(np.float32))
    assert (np.isnan(y.astype(np.float32)) == nan).all()
    assert (y.view(np.uint16)[~nan] == x.view(np.uint16)[~nan]).all()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("seed", range(3))
def test_results_round_to_nearest_even(run_layer, dtype, seed):
    """Means of neighbours are ties, sums overflow or are subnormal; NumPy and ml_dtypes agree."""
    x = patterns(dtype).reshape(-1)
    x = x[np.isfinite(x.astype(np.float32))]
    other = np.random.default_rng(seed).permutation(x) if seed else np.roll(x, 1)
    pairs = np.stack([x, other], axis=-1).reshape(-1, 1, 2)
    exact = pairs.astype(np.float64)
    with np.errstate(over="ignore"):
        mean = exact.mean(axis=2, keepdims=True).astype(np.float32).astype(dtype)
        total = np.abs(exact).sum(axis=2, keepdims=True).astype(np.float32).astype(dtype)
    [y] = run_layer(lambda net, s: net.global_pooling(s, "average"), pairs)
    np.testing.assert_array_equal(y.view(np.uint16), mean.view(np.uint16))
    [y] = run_layer(lambda net, s: net.global_pooling(s, "lp", p=1), pairs)
    np.testing.assert_array_equal(y.view(np.uint16), total.view(np.uint16))
