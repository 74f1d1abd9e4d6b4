"""Normalizations against NumPy."""

import ml_dtypes
import numpy as np
import pytest

from dovetail import DataLayout
from dovetail.layers import LayerNormalization, LpNormalization

FLOATS = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]
pytestmark = pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
SHAPES = [(2, 6, 5, 3), (3, 6), (1, 6, 7), (2, 6, 1, 2, 3), (0, 6, 4)]


def random(shape, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def wide(x):
    return x.astype(np.float64)


def column(values, rank):
    """A parameter per channel, as a column of axis 1."""
    return wide(values).reshape(-1, *[1] * (rank - 2))


def to_layout(x, layout):
    return x if layout == "NCHW" else np.moveaxis(x, 1, -1)


def normalized(x, axes, epsilon=1e-5):
    if x.size == 0:
        return x
    return (x - x.mean(axis=axes, keepdims=True)) / np.sqrt(x.var(axis=axes, keepdims=True) + epsilon)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_batch(run_layer, reference, shape, layout, dtype):
    x = random(shape, dtype)
    scale, offset, mean = (random(6, dtype, seed) for seed in (1, 2, 3))
    variance = np.abs(random(6, dtype, 4))
    root = np.sqrt(column(variance, x.ndim) + 1e-3)
    wanted = (wide(x) - column(mean, x.ndim)) / root * column(scale, x.ndim) + column(offset, x.ndim)
    [y] = run_layer(
        lambda net, *s: net.batch_normalization(*s, epsilon=1e-3, layout=layout),
        to_layout(x, layout), scale, offset, mean, variance, in_place=0,
    )  # fmt: skip
    reference.assert_close(y, to_layout(wanted, layout), scale=2)  # the terms may cancel


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_batch_of_rank_one(run_layer, reference, layout, dtype):
    channels = 1 if layout == "NCHW" else 5
    x, ones = random(5, dtype), np.ones(channels, dtype)
    [y] = run_layer(lambda net, *s: net.batch_normalization(*s, epsilon=0.0, layout=layout), x, ones, 0 * ones, ones, 4 * ones)
    reference.assert_close(y, (wide(x) - 1) / 2)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("parameters", [0, 1, 2])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_instance(run_layer, reference, shape, parameters, layout, dtype):
    x = random(shape, dtype)
    given = [random(6, dtype, 1), random(6, dtype, 2)][:parameters]
    wanted = normalized(wide(x), tuple(range(2, x.ndim)))
    wanted = wanted * column(given[0], x.ndim) if given else wanted
    wanted = wanted + column(given[1], x.ndim) if parameters > 1 else wanted
    [y] = run_layer(lambda net, *s: net.instance_normalization(*s, layout=layout), to_layout(x, layout), *given, in_place=0)
    reference.assert_close(y, to_layout(wanted, layout), scale=2)


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_group(run_layer, reference, shape, groups, dtype):
    x, scale, offset = random(shape, dtype), random(6, dtype, 1), random(6, dtype, 2)
    wanted = normalized(wide(x).reshape(shape[0], groups, 6 // groups, *shape[2:]), tuple(range(2, len(shape) + 1)))
    wanted = wanted.reshape(shape) * column(scale, x.ndim) + column(offset, x.ndim)
    [y] = run_layer(lambda net, *s: net.group_normalization(*s, groups=groups), x, scale, offset)
    reference.assert_close(y, wanted, scale=2)


@pytest.mark.parametrize(
    ("axis", "scale_shape", "offset_shape"),
    [(-1, (5,), (5,)), (-1, (1,), (5,)), (1, (4, 5), (5,)), (-2, (4, 1), (4, 5)), (0, (3, 4, 5), (1, 4, 1)), (2, (), (5,))],
)
@pytest.mark.parametrize("center", [True, False])
def test_layer(run_layer, reference, axis, scale_shape, offset_shape, center, dtype):
    x, scale, offset = random((3, 4, 5), dtype), random(scale_shape, dtype, 1), random(offset_shape, dtype, 2)
    axes = tuple(range(axis % 3, 3))
    spread = wide(x) - (wide(x).mean(axis=axes, keepdims=True) if center else 0)
    wanted = spread / np.sqrt((spread**2).mean(axis=axes, keepdims=True) + 1e-4) * wide(scale) + wide(offset)
    [y] = run_layer(
        lambda net, *s: net.layer_normalization(*s, axis=axis, epsilon=1e-4, center=center), x, scale, offset, in_place=0
    )
    reference.assert_close(y, wanted, scale=2)


def test_offset_without_scale(run_layer, reference, dtype):
    x, offset = random((3, 5), dtype), random(5, dtype, 1)
    [y] = run_layer(lambda net, x, b: net.add(LayerNormalization(), x, None, b), x, offset)
    reference.assert_close(y, normalized(wide(x), (1,)) + wide(offset), scale=2)


def test_parameters_of_another_width(run_layer, reference, dtype):
    x, scale = random((3, 5), dtype), random(5, np.float32, 1)
    [y] = run_layer(lambda net, *s: net.layer_normalization(*s), x, scale)
    reference.assert_close(y, normalized(wide(x), (1,)) * wide(scale), scale=2)


@pytest.mark.parametrize("shape", [(3, 5), (3, 0), (0, 5)], ids=str)
def test_empty_layer(run_layer, reference, shape, dtype):
    [y] = run_layer(lambda net, s: net.layer_normalization(s), np.zeros(shape, dtype))
    reference.assert_close(y, np.zeros(shape))


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_lp(run_layer, reference, axis, p, dtype):
    x = random((3, 4, 5), dtype)
    x[0] = 0
    x[:, 0] = 0
    norm = (np.abs(wide(x)) ** p).sum(axis=axis, keepdims=True) ** (1 / p)
    [y] = run_layer(lambda net, s: net.lp_normalization(s, axis, p=p), x, in_place=0)
    reference.assert_close(y, np.divide(wide(x), norm, out=np.zeros(x.shape), where=norm > 0))


def test_lp_epsilon(run_layer, reference, dtype):
    x = np.array([[0.25, 0.0], [3.0, 4.0]], dtype)
    [y] = run_layer(lambda net, s: net.add(LpNormalization(epsilon=0.5), s), x)
    reference.assert_close(y, [[0.5, 0.0], [0.6, 0.8]])


@pytest.mark.parametrize("size", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_local_response(run_layer, reference, size, layout, dtype):
    x = random((2, 6, 3, 2), dtype)
    squares = np.zeros(x.shape)
    for c in range(6):
        squares[:, c] = (wide(x)[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1] ** 2).sum(axis=1)
    wanted = wide(x) / (1.5 + 0.3 / size * squares) ** 0.6
    [y] = run_layer(
        lambda net, s: net.local_response_normalization(s, size, alpha=0.3, beta=0.6, k=1.5, layout=DataLayout(layout)),
        to_layout(x, layout),
    )
    reference.assert_close(y, to_layout(wanted, layout))


@pytest.mark.parametrize("other", FLOATS, ids=lambda d: np.dtype(d).name)
def test_parameters_of_any_width(run_layer, reference, other, dtype):
    x, scale, offset = random((2, 6, 5), dtype), random(6, other, 1), random(6, other, 2)
    along = normalized(wide(x), (2,)) * column(scale, 3) + column(offset, 3)
    [y] = run_layer(lambda net, *s: net.instance_normalization(*s), x, scale, offset)
    reference.assert_close(y, along, scale=2)
    [y] = run_layer(lambda net, *s: net.group_normalization(*s, groups=6), x, scale, offset)
    reference.assert_close(y, along, scale=2)
    last = np.moveaxis(x, 1, -1)
    [y] = run_layer(lambda net, *s: net.layer_normalization(*s), last, scale, offset)
    reference.assert_close(y, normalized(wide(last), (2,)) * wide(scale) + wide(offset), scale=2)
    ones = np.ones(6, other)
    [y] = run_layer(lambda net, *s: net.batch_normalization(*s, epsilon=0.0), x, scale, offset, ones, 4 * ones)
    reference.assert_close(y, (wide(x) - 1) / 2 * column(scale, 3) + column(offset, 3), scale=2)


@pytest.mark.parametrize("build", [lambda net, s: net.layer_normalization(s), lambda net, s: net.lp_normalization(s)])
def test_cancel(run_layer, direct, build, dtype):
    with pytest.raises(direct.Cancelled):
        run_layer(build, random((3, 4), dtype), cancel=True)
