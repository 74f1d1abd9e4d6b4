"""Pooling: against NumPy in float64, on CPU and GPU ways through the kernels."""

import numpy as np
import pytest

rng = np.random.default_rng(7)
WINDOWS = [
    {"size": 3, "stride": 2, "padding": 1},
    {"size": 3, "stride": 1, "padding": 1},
    {"size": 2, "stride": 2},
    {"size": (2, 5), "stride": (3, 1), "padding": (1, 0, 0, 3)},
    {"size": 3, "stride": 3, "dilation": 2, "padding": 2},
    {"size": 3, "stride": 2, "padding": (0, 0, 1, 1), "ceil_mode": True},
    {"size": (1, 7), "stride": (1, 2), "dilation": (1, 3)},
]


def pooled(x, function, shape, window, count_padding, p):
    """Compute from the definition; `x` is [N, C, H, W], and `shape` that of the result."""
    pair = {key: (value, value) if isinstance(value, int) else value for key, value in window.items()}
    size, stride, dilation = (pair.get(key, (1, 1)) for key in ("size", "stride", "dilation"))
    padding = window.get("padding", 0)
    top, left, bottom, right = (padding,) * 4 if isinstance(padding, int) else padding
    result = np.empty(shape, np.float64)
    for y, row in enumerate(np.moveaxis(result, 2, 0)):
        for place, pixel in enumerate(np.moveaxis(row, 2, 0)):
            rows, columns = (np.arange(size[i]) * dilation[i] + (y, place)[i] * stride[i] - (top, left)[i] for i in range(2))
            counted = ((rows < x.shape[2] + bottom).sum()) * ((columns < x.shape[3] + right).sum())
            rows, columns = rows[(rows >= 0) & (rows < x.shape[2])], columns[(columns >= 0) & (columns < x.shape[3])]
            seen = x[:, :, rows][:, :, :, columns].astype(np.float64)
            if function == "max":
                pixel[:] = seen.max((2, 3), initial=-np.inf)
            elif function == "average":
                pixel[:] = seen.sum((2, 3)) / max(counted if count_padding else len(rows) * len(columns), 1)
            else:
                pixel[:] = (np.abs(seen) ** p).sum((2, 3)) ** (1 / p)
    return result


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("shape", [(2, 3, 41, 57), (1, 19, 7, 9)])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(
    ("function", "count_padding", "p"), [("max", False, 2), ("average", False, 2), ("average", True, 2), ("lp", False, 3)]
)
def test_windows(run, way, layout, shape, window, function, count_padding, p):
    x = rng.uniform(-2, 2, shape).astype(np.float32)
    if window.get("dilation") == (1, 3) and shape[3] < 20:
        x = np.repeat(x, 3, 3)

    def build(net, given):
        return net.pooling2d(given, function, count_padding=count_padding, p=p, layout=layout, **window)

    given = x if layout == "NCHW" else np.ascontiguousarray(np.moveaxis(x, 1, -1))
    (y,) = run(way, build, given)
    y = y if layout == "NCHW" else np.moveaxis(y, -1, 1)
    np.testing.assert_allclose(y, pooled(x, function, y.shape, window, count_padding, p), rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_half_and_nan(run, way, layout):
    x = rng.uniform(-2, 2, (2, 18, 40, 20)).astype(np.float16)
    x[0, 3:5, 10, 17] = np.nan
    (y,) = run(way, lambda net, x: net.pooling2d(x, "max", 3, stride=2, layout=layout), x)
    given = x if layout == "NCHW" else np.moveaxis(x, -1, 1)
    seen = np.lib.stride_tricks.sliding_window_view(given, (3, 3), (2, 3))[:, :, ::2, ::2].max((4, 5))
    np.testing.assert_array_equal(y if layout == "NCHW" else np.moveaxis(y, -1, 1), seen)
    (y,) = run(way, lambda net, x: net.pooling2d(x, "average", 3, stride=1, layout=layout), x)
    seen = np.lib.stride_tricks.sliding_window_view(given.astype(np.float64), (3, 3), (2, 3)).mean((4, 5))
    np.testing.assert_allclose(y if layout == "NCHW" else np.moveaxis(y, -1, 1), seen, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("function", "expected"), [("max", -np.inf), ("average", 0), ("lp", 0)])
def test_windows_that_see_nothing(run, way, function, expected):
    """Dilation steps over the image."""
    x = np.ones((1, 1, 1, 1), np.float32)
    (y,) = run(way, lambda net, x: net.pooling2d(x, function, 2, padding=1, dilation=2), x)
    np.testing.assert_array_equal(y, np.full((1, 1, 1, 1), expected, np.float32))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("shape", [(2, 19, 7, 9), (3, 5, 300), (0, 4, 3, 3), (2, 8)])
def test_whole_images(run, way, layout, shape):
    x = rng.uniform(-2, 2, shape).astype(np.float32)
    axes = tuple(range(2, x.ndim)) if layout == "NCHW" else tuple(range(1, x.ndim - 1))
    wide = x.astype(np.float64)
    for function, p, expected in (
        ("max", 2, wide.max(axes, keepdims=True)),
        ("average", 2, wide.mean(axes, keepdims=True)),
        ("lp", 3, (np.abs(wide) ** 3).sum(axes, keepdims=True) ** (1 / 3)),
    ):
        (y,) = run(way, lambda net, x, function=function, p=p: net.global_pooling(x, function, p=p, layout=layout), x)
        np.testing.assert_allclose(y, expected, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("p", [2, 3, 8])
@pytest.mark.parametrize("channels", [3, 19])
def test_norms_whose_powers_leave_the_range(run, way, layout, p, channels):
    """Each window by itself, also beside others: of large and small numbers, zeros, infinity."""
    x = (rng.uniform(0.5, 1, (1, channels, 12, 70)) * 10.0 ** rng.integers(-37, 37, (1, channels, 6, 70)).repeat(2, 2)).astype(
        np.float32
    )
    x[0, 0, :4, :30], x[0, 1, 5, 7], x[0, 2, 8, 9] = 0, np.inf, np.nan
    given = x if layout == "NCHW" else np.ascontiguousarray(np.moveaxis(x, 1, -1))
    window = {"size": 2, "stride": 2}
    (y,) = run(way, lambda net, x: net.pooling2d(x, "lp", p=p, layout=layout, **window), given)
    y = y if layout == "NCHW" else np.moveaxis(y, -1, 1)
    np.testing.assert_allclose(y, pooled(x, "lp", y.shape, window, False, p), rtol=3e-6)
    (y,) = run(way, lambda net, x: net.global_pooling(x, "lp", p=p, layout=layout), given)
    y = y if layout == "NCHW" else np.moveaxis(y, -1, 1)
    np.testing.assert_allclose(y[..., 0, 0], (np.abs(x.astype(np.float64)) ** p).sum((2, 3)) ** (1 / p), rtol=3e-6)
