"""Check softmax and layer normalization against NumPy in float64, on each instruction set."""

import numpy as np
import pytest

SHAPES = [(1,), (7,), (3, 10), (5, 16), (2, 3, 17), (4, 128), (3, 1000), (2, 1003), (0, 5), (2, 5, 0)]


def sample(shape, seed, spread=3.0):
    return (np.random.default_rng(seed).standard_normal(shape) * spread).astype(np.float32)


def softmax(x, axis, beta, log):
    x = beta * x.astype(np.float64)
    x = x - x.max(axis=axis, keepdims=True, initial=-np.inf)
    total = np.exp(x).sum(axis=axis, keepdims=True)
    return x - np.log(total) if log else np.exp(x) / total


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("beta", [1.0, 0.5, -2.0])
@pytest.mark.parametrize("log", [False, True])
def test_softmax(run_layer, shape, beta, log):
    x = sample(shape, 1)
    for axis in range(len(shape)):
        [y] = run_layer(lambda net, a, axis=axis: (net.log_softmax if log else net.softmax)(a, axis, beta), x)
        np.testing.assert_allclose(y, softmax(x, axis, beta, log), rtol=3e-6, atol=3e-6 if log else 1e-37)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("log", [False, True])
def test_softmax_of_values_that_are_not_finite(run_layer, axis, log):
    x = sample((21, 35), 2)
    x[0], x[1], x[2, 3], x[3, 4], x[4, 34], x[5], x[6, 0] = -np.inf, 1e38, np.nan, np.inf, -np.inf, -1e38, 3e38
    [y] = run_layer(lambda net, a: (net.log_softmax if log else net.softmax)(a, axis), x)
    np.testing.assert_allclose(y, softmax(x, axis, 1.0, log).astype(np.float32), rtol=3e-6, atol=3e-6)


def normalized(x, tail, scale, offset, epsilon, center):
    x = x.astype(np.float64)
    axes = tuple(range(x.ndim - tail, x.ndim))
    mean = x.mean(axis=axes, keepdims=True) if center else 0.0
    variance = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * scale + offset


@pytest.mark.parametrize("shape", [(3, 1), (5, 16), (2, 3, 17), (4, 256), (3, 384), (2, 1003), (0, 5)])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("mean", [0.0, 100.0])
def test_layer_normalization(run_layer, shape, center, mean):
    x, scale, offset = sample(shape, 3) + np.float32(mean), sample(shape[-1:], 4), sample(shape[-1:], 5)
    [y] = run_layer(lambda net, a: net.layer_normalization(a, scale, offset, epsilon=1e-3, center=center), x)
    expected = normalized(x, 1, scale, offset, 1e-3, center)
    # What the distance from the mean loses by its rounding grows with the mean.
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=2e-6 + mean * 2e-6)


def test_layer_normalization_over_several_axes(run_layer):
    x, scale = sample((3, 4, 5), 6), sample((5,), 7)
    [y] = run_layer(lambda net, a: net.layer_normalization(a, scale, axis=1), x)
    np.testing.assert_allclose(y, normalized(x, 2, scale, 0.0, 1e-5, True), rtol=1e-5, atol=2e-6)
