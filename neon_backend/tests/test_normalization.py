"""Check batch, instance and group normalization against NumPy, on each instruction set."""

import numpy as np
import pytest

SHAPES = [
    (2, 3),
    (3, 16),
    (2, 4, 5),
    (2, 6, 7, 9),
    (1, 32, 3, 3),
    (3, 20, 1, 1),
    (2, 17, 2, 3, 4),
    (0, 4, 3),
    (2, 4, 0),
    (1, 2, 70, 71),
]


def sample(shape, seed, mean=0.0):
    return (np.random.default_rng(seed).standard_normal(shape) * 3 + mean).astype(np.float32)


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def along(x, values, axis):
    shape = [1] * x.ndim
    shape[axis] = -1
    return values.astype(np.float64).reshape(shape)


@pytest.mark.parametrize("shape", [*SHAPES, (5,)])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_batch(run_layer, shape, layout):
    x = sample(shape, 1)
    axis = 1 if layout == "NCHW" else x.ndim - 1
    channels = 1 if axis == x.ndim else shape[axis]
    scale, offset, mean = (sample(channels, seed) for seed in (2, 3, 4))
    variance = abs(sample(channels, 5))
    [y] = run_layer(lambda net, a: net.batch_normalization(a, scale, offset, mean, variance, layout=layout), x)
    axis = min(axis, x.ndim - 1)
    s, o, m, v = (along(x, values, axis) for values in (scale, offset, mean, variance))
    factor = s / np.sqrt(v + 1e-5)
    bound = 1e-6 * (abs(x * factor) + abs(m * factor) + abs(o))
    assert (abs(y - ((x - m) * factor + o)) <= bound).all()


def normalized(x, axes, epsilon):
    x = x.astype(np.float64)
    if x.size == 0:
        return x
    mean = x.mean(axis=axes, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axis=axes, keepdims=True) + epsilon)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("mean", [0.0, 50.0])
def test_instance(run_layer, shape, layout, mean):
    x = sample(shape, 1, mean)
    axis = 1 if layout == "NCHW" else x.ndim - 1
    scale, offset = sample(shape[axis], 2), sample(shape[axis], 3)
    [y] = run_layer(lambda net, a: net.instance_normalization(a, scale, offset, epsilon=1e-3, layout=layout), x)
    axes = tuple(i for i in range(1, x.ndim) if i != axis)
    expected = normalized(x, axes, 1e-3) * along(x, scale, axis) + along(x, offset, axis)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=5e-6 + mean * 4e-6)


@pytest.mark.parametrize(
    ("shape", "groups"), [((2, 6), 2), ((2, 6, 7, 9), 3), ((1, 32, 3, 3), 4), ((2, 4, 5), 1), ((0, 4, 3), 2)]
)
@pytest.mark.parametrize("learned", [False, True])
def test_group(run_layer, shape, groups, learned):
    x, scale, offset = sample(shape, 1), sample(shape[1], 2), sample(shape[1], 3)
    given = (scale, offset) if learned else ()
    [y] = run_layer(lambda net, a: net.group_normalization(a, *given, groups=groups), x)
    expected = normalized(x.reshape(shape[0], groups, shape[1] // groups, *shape[2:]), tuple(range(2, x.ndim + 1)), 1e-5)
    expected = expected.reshape(shape)
    if learned:
        expected = expected * along(x, scale, 1) + along(x, offset, 1)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=5e-6)


def test_values_that_are_not_finite(run_layer):
    x = sample((2, 3, 40), 1)
    x[0, 0, 1], x[0, 1, 39], x[1, 2, 0] = np.nan, np.inf, -np.inf
    [y] = run_layer(lambda net, a: net.instance_normalization(a), x)
    wrong = np.zeros((2, 3), bool)
    wrong[0, 0] = wrong[0, 1] = wrong[1, 2] = True
    np.testing.assert_array_equal(np.isnan(y).any(axis=2), wrong)
