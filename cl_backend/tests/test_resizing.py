"""Resize against NumPy in float64, on CPU and GPU ways of the kernels."""

import numpy as np
import pytest

from dovetail.layers import Resize, ResizeMethod

rng = np.random.default_rng(13)


def kernel(method, distance):
    d, a = np.abs(distance), -0.75
    if method == "linear":
        return np.maximum(1 - d, 0)
    near, beyond = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, beyond, 0))


def resampled(x, axis, wanted, method, *, antialias=False):
    """One axis at a time, by a matrix of weights; half pixel centres, the border repeated."""
    size = x.shape[axis]
    stretch = min(wanted / size, 1) if antialias else 1
    at = (np.arange(wanted) + 0.5) * size / wanted - 0.5
    taps = np.arange(-4 * size, 5 * size)
    if antialias:
        taps = np.arange(size) if method == "linear" else taps
    weights = kernel(method, (taps - at[:, None]) * stretch)
    matrix = np.zeros((wanted, size))
    for column, tap in enumerate(np.clip(taps, 0, size - 1)):
        matrix[:, tap] += weights[:, column]
    if antialias:
        matrix /= matrix.sum(1, keepdims=True)
    return np.moveaxis(np.tensordot(matrix, np.moveaxis(x, axis, 0), 1), 0, axis)


@pytest.mark.parametrize("method", ["linear", "cubic"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((2, 3, 9, 11), (2, 3, 20, 19)),
        ((2, 9, 11, 21), (2, 18, 22, 21)),
        ((1, 3, 20, 31), (1, 3, 7, 40)),
        ((5, 40), (9, 11)),
        ((4, 5, 6, 7), (3, 7, 5, 9)),
    ],
)
def test_interpolation(run, way, shape, sizes, dtype, method):
    x = rng.uniform(-1, 1, shape).astype(dtype)
    (y,) = run(way, lambda net, x: net.resize(x, sizes, method=method), x)
    expected = x.astype(np.float64)
    for axis, wanted in enumerate(sizes):
        if wanted != shape[axis]:
            expected = resampled(expected, axis, wanted, method)
    tolerance = 1e-3 if dtype is np.float16 else 2e-6
    np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)


def test_antialias(run, way):
    x = rng.uniform(-1, 1, (1, 2, 33, 40)).astype(np.float32)
    descriptor = Resize(method=ResizeMethod.LINEAR, sizes=(1, 2, 10, 9), antialias=True, exclude_outside=True)
    (y,) = run(way, lambda net, x: net.add(descriptor, x).output, x)
    expected = resampled(resampled(x.astype(np.float64), 2, 10, "linear", antialias=True), 3, 9, "linear", antialias=True)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.int64])
@pytest.mark.parametrize(
    ("shape", "sizes"), [((2, 3, 5, 7), (2, 3, 10, 14)), ((2, 5, 7, 3), (2, 9, 4, 3)), ((3, 4, 5), (6, 4, 10)), ((6,), (20,))]
)
def test_nearest(run, way, shape, sizes, dtype):
    x = rng.integers(0, 100, shape).astype(dtype)
    (y,) = run(way, lambda net, x: net.resize(x, sizes, method="nearest", coordinates="asymmetric", rounding="floor"), x)
    expected = x
    for axis, (size, wanted) in enumerate(zip(shape, sizes, strict=True)):
        expected = np.take(expected, np.arange(wanted) * size // wanted, axis)
    np.testing.assert_array_equal(y, expected)


def test_the_same_size_is_a_view(run, backend):
    x = rng.uniform(-1, 1, (1, 2, 3, 4)).astype(np.float32)
    (y,) = run(backend, lambda net, x: net.resize(x, x.shape), x)
    np.testing.assert_array_equal(y, x)
