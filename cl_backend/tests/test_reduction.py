"""What reduces or scans: against NumPy in float64, on CPU and GPU ways through the kernels."""

import numpy as np
import pytest

rng = np.random.default_rng(5)
FUNCTIONS = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "l1": lambda x, axis: np.abs(x).sum(axis),
    "l2": lambda x, axis: np.sqrt((x * x).sum(axis)),
    "sum_square": lambda x, axis: (x * x).sum(axis),
    "log_sum": lambda x, axis: np.log(x.sum(axis)),
    "log_sum_exp": lambda x, axis: np.log(np.exp(x).sum(axis)),
}


def values(*shape, dtype=np.float32):
    return rng.uniform(0.5, 1.5, shape).astype(dtype)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    ("shape", "axes"), [((3, 37), (1,)), ((37, 19), (0,)), ((2, 5, 7, 3), (0, 2)), ((2, 3, 1, 67, 2), (1, 3)), ((1040,), None)]
)
def test_reduce(run, way, function, shape, axes):
    x = values(*shape)
    (y,) = run(way, lambda net, x: net.reduce(x, function, axes), x)
    axis = tuple(range(len(shape))) if axes is None else axes
    np.testing.assert_allclose(y, FUNCTIONS[function](x.astype(np.float64), axis=axis), rtol=2e-6)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2), None])
def test_norms_whose_squares_leave_the_range(run, way, axes):
    """Each line by itself, also beside others: of large and small numbers, zeros, infinity."""
    powers = 10.0 ** rng.integers(-44, 38, (40, 1, 9))
    x = (rng.uniform(0.5, 1, (40, 70, 9)) * powers).astype(np.float32)
    x[1], x[2, 3, 4], x[4, 1, 2] = 0, np.inf, np.nan
    (y,) = run(way, lambda net, x: net.reduce(x, "l2", axes), x)
    wide = x.astype(np.float64)
    with np.errstate(over="ignore"):
        expected = np.sqrt((wide * wide).sum(axes)).astype(np.float32)
    np.testing.assert_allclose(y, expected, rtol=2e-6, atol=3e-45)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("axes", [(0,), (2,), (0, 2), None])
def test_integers(run, way, dtype, axes):
    x = rng.integers(-9, 9, (4, 5, 21)).astype(dtype)
    (y,) = run(way, lambda net, x: net.reduce(x, "sum", axes), x)
    np.testing.assert_array_equal(y, x.sum(axes))
    (y,) = run(way, lambda net, x: net.reduce(x, "min", axes), x)
    np.testing.assert_array_equal(y, x.min(axes))


@pytest.mark.parametrize(
    ("function", "expected"), [("sum", 0), ("prod", 1), ("max", -np.inf), ("min", np.inf), ("mean", np.nan), ("l2", 0)]
)
def test_of_nothing(run, way, function, expected):
    x = values(2, 0, 5)
    (y,) = run(way, lambda net, x: net.reduce(x, function, 1), x)
    np.testing.assert_array_equal(y, np.full((2, 5), expected, np.float32))
    assert run(way, lambda net, x: net.reduce(x, function, 2), x)[0].shape == (2, 0)


def test_long_sums(run, way):
    """The error does not grow with the length, whatever the signs."""
    x = (rng.uniform(-1, 1, (2, 524_288)) + 3).astype(np.float32)
    for axes in (1, None):
        (y,) = run(way, lambda net, x, axes=axes: net.reduce(x, "sum", axes), x)
        np.testing.assert_allclose(y, x.astype(np.float64).sum(axes), rtol=2e-7)
        (y,) = run(way, lambda net, x, axes=axes: net.mean(x, axes), x)
        np.testing.assert_allclose(y, x.astype(np.float64).mean(axes), rtol=2e-7)


@pytest.mark.parametrize("shape", [(3, 40), (40, 9)])
@pytest.mark.parametrize("axis", [0, 1])
def test_nan_and_infinity(run, way, shape, axis):
    x = values(*shape)
    x[1, 2], x[2, 5] = np.nan, np.inf
    for function in ("max", "min", "sum"):
        (y,) = run(way, lambda net, x, function=function: net.reduce(x, function, axis), x)
        np.testing.assert_allclose(y, FUNCTIONS[function](x, axis=axis), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("shape", "axis"), [((5, 128), 1), ((3, 7), 1), ((2, 33, 19), 1), ((9, 2, 5), 0), ((1, 1), 0)])
@pytest.mark.parametrize("beta", [1.0, -2.0, 0.0])
def test_softmax(run, way, shape, axis, beta, dtype):
    x = (values(*shape) * 90).astype(dtype)
    scaled = beta * x.astype(np.float64)
    shifted = scaled - scaled.max(axis, keepdims=True)
    expected = np.exp(shifted) / np.exp(shifted).sum(axis, keepdims=True)
    (y,) = run(way, lambda net, x: net.softmax(x, axis, beta), x)
    rtol, atol = (1e-4, 1e-30) if dtype is np.float32 else (1e-3, 1e-7)
    np.testing.assert_allclose(y, expected, rtol=rtol, atol=atol)
    (y,) = run(way, lambda net, x: net.log_softmax(x, axis, beta), x)
    expected = shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))
    np.testing.assert_allclose(y, expected, rtol=rtol, atol=1e-4)


@pytest.mark.parametrize("beta", [2.7, -2.7])
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_of_large_numbers(run, way, axis, beta):
    """Multiplied by beta they lose their last digits, or overflow; that of the largest is 0."""
    x = np.array([[12345.67, 3e38, 7], [12345.66, 1, -2e38], [-1e30, -3e38, 6]], np.float32)
    logits = beta * x.astype(np.float64)
    logits -= logits.max(axis, keepdims=True)
    expected = logits - np.log(np.exp(logits).sum(axis, keepdims=True))
    (y,) = run(way, lambda net, x: net.log_softmax(x, axis, beta), x)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(y, expected.astype(np.float32), rtol=1e-5, atol=1e-7)
    (y,) = run(way, lambda net, x: net.softmax(x, axis, beta), x)
    np.testing.assert_allclose(y, np.exp(expected), rtol=1e-5, atol=1e-37)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int64])
@pytest.mark.parametrize(("shape", "axis"), [((5, 7), 1), ((3, 700), 1), ((2, 33, 19), 1), ((2, 33, 3), 1), ((3, 4, 5), 0)])
@pytest.mark.parametrize("last", [False, True])
def test_extremes(run, way, shape, axis, last, dtype):
    x = rng.integers(0, 4, shape).astype(dtype)
    for function, of in (("max", np.argmax), ("min", np.argmin)):
        (y,) = run(way, lambda net, x, function=function: net.arg_min_max(x, function, axis, select_last=last), x)
        np.testing.assert_array_equal(y, x.shape[axis] - 1 - of(np.flip(x, axis), axis) if last else of(x, axis))


@pytest.mark.parametrize("function", ["max", "min"])
@pytest.mark.parametrize("fill", [np.nan, -np.inf, np.inf])
@pytest.mark.parametrize("size", [3, 21])
def test_extremes_of_what_is_no_number(run, way, function, fill, size):
    x = np.full((2, size), fill, np.float32)
    for last, expected in ((False, 0), (True, size - 1)):
        (y,) = run(way, lambda net, x, last=last: net.arg_min_max(x, function, 1, select_last=last), x)
        np.testing.assert_array_equal(y, [expected] * 2)
    x = values(2, size)
    x[0, 1] = x[0, 2] = np.nan
    assert run(way, lambda net, x: net.arg_min_max(x, function, 1), x)[0][0] == 1
    assert run(way, lambda net, x: net.arg_min_max(x, function, 1, select_last=True), x)[0][0] == 2


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("exclusive", [False, True])
def test_running_sums(run, way, axis, exclusive):
    x = values(3, 1000, 20)
    expected = np.cumsum(x.astype(np.float64), axis)
    (y,) = run(way, lambda net, x: net.cumulative_sum(x, axis, exclusive=exclusive), x)
    np.testing.assert_allclose(y, expected - x if exclusive else expected, rtol=1e-6, atol=1e-6)
    (backward,) = run(way, lambda net, x: net.cumulative_sum(x, axis, reverse=True), x)
    np.testing.assert_allclose(backward, np.flip(np.cumsum(np.flip(x.astype(np.float64), axis), axis), axis), rtol=1e-6)
