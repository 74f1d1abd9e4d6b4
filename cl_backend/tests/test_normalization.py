"""What normalizes: against NumPy in float64, on CPU and GPU ways through the kernels."""

import numpy as np
import pytest

rng = np.random.default_rng(6)
EPSILON = 1e-5
TOLERANCE = {np.float32: {"rtol": 4e-6, "atol": 4e-6}, np.float16: {"rtol": 2e-3, "atol": 2e-3}}


def values(*shape, dtype=np.float32):
    return rng.uniform(0.5, 1.5, shape).astype(dtype)


def normalized(x, axes, center=True):
    x = x.astype(np.float64)
    less = x - x.mean(axes, keepdims=True) if center else x
    return less / np.sqrt((less * less).mean(axes, keepdims=True) + EPSILON)


def channelwise(values, rank, layout):
    return values.reshape((-1,) + (1,) * (rank - 2)) if layout == "NCHW" else values


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("shape", [(2, 768), (3, 5), (1, 1), (4, 600)])
@pytest.mark.parametrize("center", [True, False])
def test_layer(run, way, shape, center, dtype):
    x, scale, offset = values(*shape, dtype=dtype), values(shape[1], dtype=dtype), values(shape[1])
    (y,) = run(way, lambda net, x: net.layer_normalization(x, scale, offset, center=center), x)
    expected = normalized(x, 1, center) * scale + offset
    np.testing.assert_allclose(y, expected, **TOLERANCE[dtype])
    (y,) = run(way, lambda net, x, scale: net.layer_normalization(x, scale, center=center), x, scale)
    np.testing.assert_allclose(y, normalized(x, 1, center) * scale, **TOLERANCE[dtype])


def test_layer_over_several_axes(run, way):
    x, scale, offset = values(3, 5, 7), values(5, 1), values(7)
    (y,) = run(way, lambda net, *given: net.layer_normalization(*given, axis=1), x, scale, offset)
    np.testing.assert_allclose(y, normalized(x, (1, 2)) * scale + offset, rtol=4e-6, atol=4e-6)


def test_far_from_zero(run, way):
    """The variance of numbers that are all close to a large one."""
    x = (rng.standard_normal((3, 4096)) + 10_000).astype(np.float32)
    (y,) = run(way, lambda net, x: net.layer_normalization(x), x)
    np.testing.assert_allclose(y, normalized(x, 1), rtol=1e-5, atol=1e-5)
    assert not run(way, lambda net, x: net.layer_normalization(x), np.full((2, 999), 7777.7, np.float32))[0].any()


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("shape", [(2, 6, 5, 7), (3, 20, 33), (2, 1, 9, 4, 5), (0, 3, 4)])
@pytest.mark.parametrize("given", [False, True])
def test_instance(run, way, layout, shape, given):
    if layout == "NHWC":
        shape = (shape[0], *shape[2:], shape[1])
    x = values(*shape)
    channels = shape[1] if layout == "NCHW" else shape[-1]
    scale, offset = values(channels), values(channels)
    axes = tuple(range(2, x.ndim)) if layout == "NCHW" else tuple(range(1, x.ndim - 1))
    expected = normalized(x, axes) * channelwise(scale, x.ndim, layout) + channelwise(offset, x.ndim, layout)
    if given:
        (y,) = run(way, lambda net, *all_: net.instance_normalization(*all_, layout=layout), x, scale, offset)
    else:
        (y,) = run(way, lambda net, x: net.instance_normalization(x, scale, offset, layout=layout), x)
    np.testing.assert_allclose(y, expected, rtol=5e-6, atol=5e-6)


@pytest.mark.parametrize("shape", [(2, 6, 5, 7), (3, 6), (1, 12, 40, 17)])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group(run, way, shape, groups):
    x, scale, offset = values(*shape), values(shape[1]), values(shape[1])
    (y,) = run(way, lambda net, x: net.group_normalization(x, scale, offset, groups=groups), x)
    grouped = normalized(x.reshape(shape[0], groups, -1), 2).reshape(shape)
    expected = grouped * channelwise(scale, max(x.ndim, 2), "NCHW") + channelwise(offset, max(x.ndim, 2), "NCHW")
    np.testing.assert_allclose(y, expected, rtol=5e-6, atol=5e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("shape", [(2, 19, 5, 7), (3, 40), (5,), (0, 3, 2)])
@pytest.mark.parametrize("given", [False, True])
def test_batch(run, way, layout, shape, given, dtype):
    x = values(*shape, dtype=dtype)
    channels = shape[-1] if layout == "NHWC" else 1 if x.ndim == 1 else shape[1]
    moments = [values(channels, dtype=dtype) for _ in range(4)]
    scale, offset, mean, variance = (
        channelwise(one.astype(np.float64), x.ndim, layout) if x.ndim > 1 else one.astype(np.float64) for one in moments
    )
    expected = (x - mean) / np.sqrt(variance + EPSILON) * scale + offset
    if given:
        (y,) = run(way, lambda net, *all_: net.batch_normalization(*all_, layout=layout), x, *moments)
    else:
        (y,) = run(way, lambda net, x: net.batch_normalization(x, *moments, layout=layout), x)
    np.testing.assert_allclose(y, expected, **TOLERANCE[dtype])


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize(("shape", "axis"), [((3, 70), 1), ((5, 9), 0), ((2, 40, 20), 1)])
def test_norm(run, way, shape, axis, p):
    x = values(*shape)
    norm = np.linalg.norm(x.astype(np.float64), p, axis, keepdims=True)
    (y,) = run(way, lambda net, x: net.lp_normalization(x, axis, p=p), x)
    np.testing.assert_allclose(y, x / norm, rtol=2e-6)
    assert not run(way, lambda net, x: net.lp_normalization(x, axis, p=p), np.zeros_like(x))[0].any()


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("beta", [0.75, 0.6])
@pytest.mark.parametrize("size", [1, 4, 5])
def test_neighbours(run, way, layout, beta, size):
    x = values(2, 7, 5, 6)
    channels = x if layout == "NCHW" else np.moveaxis(x, -1, 1)
    squares = channels.astype(np.float64) ** 2
    before, after = (size - 1) // 2, size // 2
    near = [squares[:, max(0, c - before) : c + after + 1].sum(1) for c in range(channels.shape[1])]
    expected = channels / (1.0 + 0.3 / size * np.stack(near, 1)) ** beta
    (y,) = run(way, lambda net, x: net.local_response_normalization(x, size, alpha=0.3, beta=beta, layout=layout), x)
    np.testing.assert_allclose(y, expected if layout == "NCHW" else np.moveaxis(expected, 1, -1), rtol=4e-6)


@pytest.mark.parametrize("factor", [1e25, 1e-25, 3e38])
@pytest.mark.parametrize("axis", [1, 2])
def test_norms_whose_squares_are_out_of_range(run, way, factor, axis):
    x = (rng.uniform(-1, 1, (3, 17, 40)) * factor).astype(np.float32)
    x[0, 0] = 0
    wide = x.astype(np.float64)
    (y,) = run(way, lambda net, x: net.lp_normalization(x, axis=axis, p=2, epsilon=0.0), x)
    norm = np.sqrt((wide**2).sum(axis, keepdims=True))
    np.testing.assert_allclose(y, wide / np.where(norm == 0, 1, norm), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("shape", [(4, 33), (3, 9, 40), (2, 5, 3, 70)])
def test_variances_that_are_out_of_range(run, way, shape):
    x = (rng.uniform(-1, 1, shape) * 3e30).astype(np.float32)
    x[0] = rng.uniform(-1, 1, shape[1:])
    wide = x.astype(np.float64)
    mean, variance = wide.mean(-1, keepdims=True), wide.var(-1, keepdims=True)
    ones = np.ones(shape[-1], np.float32)
    (y,) = run(way, lambda net, x: net.layer_normalization(x, ones, axis=-1), x)
    np.testing.assert_allclose(y, (wide - mean) / np.sqrt(variance + 1e-5), rtol=1e-4, atol=1e-5)


def test_channels_do_not_depend_on_their_neighbours(run, way):
    """Where channels are neighbours, some beside the others are infinite or too large to square."""
    x = (rng.uniform(-1, 1, (2, 5, 3, 41)) * 0.1).astype(np.float32)
    x[:, 2, 1, ::5] = np.inf
    x[:, :, :, 3] *= 1e31
    wide = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        mean, variance = wide.mean((1, 2), keepdims=True), wide.var((1, 2), keepdims=True)
        expected = (wide - mean) / np.sqrt(variance + 1e-5)
    (y,) = run(way, lambda net, x: net.instance_normalization(x, layout="NHWC"), x)
    finite = np.isfinite(expected)
    np.testing.assert_allclose(y[finite], expected[finite], rtol=1e-4, atol=1e-5)
    assert not np.isfinite(y[np.broadcast_to(np.isinf(wide).any((1, 2), keepdims=True), y.shape)]).any()
