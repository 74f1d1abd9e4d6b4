"""Attention against NumPy in float64, with each instruction set of this machine."""

import numpy as np
import pytest

from dovetail import DType, TensorInfo
from dovetail_neon.attention.kinds import Attention


def sample(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def expected_of(q, k, v, heads, scale, mask):
    def split(x):
        return x.astype(np.float64).reshape(*x.shape[:2], heads, x.shape[2] // heads).transpose(0, 2, 1, 3)

    with np.errstate(invalid="ignore"):
        scores = split(q) @ split(k).swapaxes(-1, -2) * scale
        scores = scores if mask is None else scores + mask
        scores = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        weights = scores / scores.sum(-1, keepdims=True)
    made = weights @ split(v)
    return made.transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[1], v.shape[2])


def check(run_layer, q, k, v, heads, scale, mask=None):
    info = TensorInfo((q.shape[0], q.shape[1], v.shape[2]), DType.FLOAT32)

    def build(net, *slots):
        return net.add(Attention(infos=(info,), heads=heads, scale=scale), *slots).output

    [y] = run_layer(build, q, k, v, *([] if mask is None else [mask]))
    expected = expected_of(q, k, v, heads, scale, mask)
    np.testing.assert_allclose(y, expected, rtol=0, atol=4e-6 * max(1.0, float(abs(v).max(initial=0.0))))
    return y


@pytest.mark.parametrize("queries", [1, 33, 127])
@pytest.mark.parametrize("keys", [1, 7, 33, 128])
@pytest.mark.parametrize(("heads", "size", "value_size"), [(4, 64, 64), (3, 32, 32), (2, 20, 20), (1, 5, 7), (2, 80, 100)])
def test_sizes(run_layer, queries, keys, heads, size, value_size):
    q, k = sample((2, queries, heads * size), 1), sample((2, keys, heads * size), 2)
    check(run_layer, q, k, sample((2, keys, heads * value_size), 3), heads, size**-0.5)


@pytest.mark.parametrize(
    "shape", [(2, 1, 1, 45), (1, 1, 1, 45), (2, 3, 37, 45), (1, 3, 1, 45), (1, 1, 37, 45), (2, 1, 37, 1), (1, 1, 1, 1)]
)
@pytest.mark.parametrize("low", [-1.0, -10000.0, np.finfo(np.float32).min, -np.inf])
def test_masks(run_layer, shape, low):
    q, k, v = sample((2, 37, 60), 4), sample((2, 45, 60), 5), sample((2, 45, 60), 6)
    mask = np.where(np.random.default_rng(7).random(shape) < 0.4, np.float32(low), np.float32(0))
    mask[..., 0] = 0  # of a row that is masked as a whole, low numbers leave nothing in float32
    check(run_layer, q, k, v, 3, 0.2, mask)


def test_rows_that_are_masked_as_a_whole(run_layer):
    """A number in the whole row cancels; -inf everywhere is NaN, in that row alone."""
    q, k, v = sample((1, 9, 8), 8), sample((1, 19, 8), 9), sample((1, 19, 8), 10)
    mask = np.zeros((1, 1, 9, 19), np.float32)
    mask[0, 0, 3] = -50.0
    check(run_layer, q, k, v, 1, 0.1, mask)
    mask[0, 0, 3] = -np.inf
    y = check(run_layer, q, k, v, 1, 0.1, mask)
    assert np.isnan(y[0, 3]).all()


def test_scores_far_from_zero(run_layer):
    """Padding lanes never win: all scores may lie far below zero."""
    q, k = np.full((1, 5, 8), 30, np.float32), np.full((1, 21, 8), -30, np.float32)
    check(run_layer, q, k, sample((1, 21, 8), 11), 1, 1.0)
    check(run_layer, q, -k, sample((1, 21, 8), 12), 1, 1.0)
    check(run_layer, sample((1, 40, 32), 13) * 9, sample((1, 70, 32), 14) * 9, sample((1, 70, 32), 15), 2, 0.25)


def test_values_that_are_not_finite(run_layer):
    q, k, v = sample((1, 20, 32), 16), sample((1, 33, 32), 17), sample((1, 33, 32), 18)
    q[0, 4, 3] = np.nan
    y = check(run_layer, q, k, v, 2, 1.0)
    assert np.isnan(y[0, 4, :16]).all()
    assert not np.isnan(y[0, 4, 16:]).any()
    assert not np.isnan(y[0, 5]).any()


@pytest.mark.parametrize(("batch", "queries", "keys", "size"), [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 4, 0)])
def test_nothing(run_layer, batch, queries, keys, size):
    q, k = np.zeros((batch, queries, size * 2), np.float32), np.zeros((batch, keys, size * 2), np.float32)
    check(run_layer, q, k, k, 2, 1.0)


def test_no_keys(run_layer):
    """A sum of nothing is zero."""
    none = np.zeros((1, 0, 8), np.float32)
    check(run_layer, sample((1, 3, 8), 19), none, none, 2, 1.0)


def test_many_keys(run_layer):
    q, k, v = sample((1, 50, 16), 20), sample((1, 12000, 16), 21), sample((1, 12000, 16), 22)
    check(run_layer, q, k, v, 2, 0.5)
