"""Convolutions against sums in float64, by the kernels for CPUs and by those for GPUs."""

import numpy as np
import pytest

import dovetail
from dovetail import DType, Network
from dovetail_cl import devices
from dovetail_sdk.conformance.references import windows

RNG = np.random.default_rng(5)


@pytest.fixture(params=["cpu", "gpu"])
def way(request, backend, monkeypatch):
    """Make the kernels believe in a kind of device."""
    if request.param != "gpu" and devices.all_facts()[0]["kind"] != "cpu":
        pytest.skip("the kernels for CPUs want a CPU")
    monkeypatch.setitem(devices.opened(0).facts, "kind", request.param)


def _filled(shape, dtype):
    return RNG.normal(size=shape).astype(dtype)


def _last(x, layout):
    """Images and filters with channels first, in a layout."""
    return x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))


def _check(network, y, feeds, expected, layout, terms):
    network.output(y, "y")
    with dovetail.load(network, ["GpuAcc"], fallback=False) as net:
        y = net.run(feeds)["y"]
    if layout == "NHWC":
        y = y.transpose(0, 3, 1, 2)
    rounding = 2.0**-10 if y.dtype == np.float16 else 0
    np.testing.assert_allclose(y.astype(float), expected, rtol=rounding, atol=2.0**-21 * (terms + 8) + rounding)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("shape", "filters", "window", "stride", "padding", "dilation", "groups"),
    [
        ((1, 3, 9, 11), 5, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
        ((2, 40, 7, 9), 37, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
        ((1, 24, 9, 9), 64, (1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 1),
        ((1, 64, 14, 14), 70, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
        ((2, 32, 13, 39), 48, (3, 3), (1, 1), (1, 2, 0, 1), (1, 1), 1),
        ((2, 10, 21, 19), 34, (3, 5), (2, 3), (0, 4, 2, 1), (2, 1), 2),
        ((1, 17, 1, 1), 33, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
        ((3, 4, 5, 6), 8, (2, 2), (1, 1), (3, 3, 3, 3), (1, 1), 4),
        ((0, 4, 5, 6), 8, (2, 2), (1, 1), (0, 0, 0, 0), (1, 1), 1),
        ((1, 0, 5, 6), 8, (2, 2), (1, 1), (0, 0, 0, 0), (1, 1), 1),
        ((1, 2, 0, 6), 8, (2, 2), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    ],
)
def test_convolutions(way, dtype, layout, shape, filters, window, stride, padding, dilation, groups):
    x, weights, bias = _filled(shape, dtype), _filled((filters, shape[1] // groups, *window), dtype), _filled(filters, dtype)
    network, feed = Network("one"), _last(x, layout)
    y = network.convolution2d(
        network.input("x", feed.shape, dtype),
        _last(weights, layout),
        bias,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        layout=layout,
    )
    expected = windows.convolution(x.astype(float), weights.astype(float), stride, padding, dilation, groups)
    _check(network, y, {"x": feed}, expected + bias.astype(float)[:, None, None], layout, weights[0].size)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_weights_that_are_not_constant(way, layout):
    x, weights, bias = _filled((2, 6, 7, 5), "float32"), _filled((10, 3, 3, 3), "float32"), _filled(10, "float32")
    network, feeds = Network("one"), {"x": _last(x, layout), "w": _last(weights, layout), "b": bias}
    y = network.convolution2d(*(network.input(name, feed.shape) for name, feed in feeds.items()), groups=2, layout=layout)
    expected = windows.convolution(x.astype(float), weights.astype(float), groups=2)
    _check(network, y, feeds, expected + bias.astype(float)[:, None, None], layout, 27)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("shape", "multiplier", "window", "stride", "padding", "dilation"),
    [
        ((1, 33, 9, 40), 1, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
        ((2, 16, 20, 21), 1, (3, 3), (2, 2), (0, 0, 1, 1), (1, 1)),
        ((1, 5, 12, 7), 3, (5, 2), (1, 3), (4, 1, 2, 2), (2, 1)),
        ((1, 40, 1, 2), 2, (3, 3), (1, 1), (3, 3, 3, 3), (1, 1)),
        ((2, 35, 9, 18), 1, (5, 5), (2, 2), (2, 2, 2, 2), (1, 1)),
        ((1, 50, 6, 31), 1, (3, 3), (1, 1), (0, 0, 1, 1), (2, 1)),
        ((1, 16, 6, 10), 1, (4, 2), (3, 3), (3, 0, 2, 2), (1, 2)),
    ],
)
def test_depthwise_convolutions(way, dtype, layout, shape, multiplier, window, stride, padding, dilation):
    x, weights = _filled(shape, dtype), _filled((shape[1] * multiplier, 1, *window), dtype)
    network, feed = Network("one"), _last(x, layout)
    y = network.depthwise_convolution2d(
        network.input("x", feed.shape, dtype),
        weights if layout == "NCHW" else np.ascontiguousarray(weights.transpose(1, 2, 3, 0)),
        stride=stride,
        padding=padding,
        dilation=dilation,
        layout=layout,
    )
    expected = windows.depthwise(x.astype(float), weights.astype(float), stride, padding, dilation)
    _check(network, y, {"x": feed}, expected, layout, weights[0].size)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("shape", "filters", "window", "stride", "padding", "dilation", "extra"),
    [
        ((1, 20, 8, 9), 35, (4, 4), (2, 2), (1, 1, 1, 1), (1, 1), (0, 0)),
        ((2, 5, 4, 7), 9, (3, 2), (1, 1), (1, 0, 0, 1), (1, 1), (0, 0)),
        ((1, 1, 4, 5), 6, (3, 3), (1, 1), (0, 0, 0, 0), (1, 1), (0, 0)),
        ((1, 6, 5, 6), 17, (3, 4), (3, 2), (2, 1, 1, 0), (2, 4), (2, 1)),
        ((1, 3, 5, 4), 4, (1, 1), (4, 3), (0, 0, 0, 0), (1, 1), (3, 2)),
        ((1, 3, 3, 2), 4, (3, 3), (7, 9), (1, 0, 2, 0), (1, 1), (0, 0)),
    ],
)
def test_transposed_convolutions(way, dtype, layout, shape, filters, window, stride, padding, dilation, extra):
    x, weights = _filled(shape, dtype), _filled((shape[1], filters, *window), dtype)
    network, feed = Network("one"), _last(x, layout)
    y = network.transpose_convolution2d(
        network.input("x", feed.shape, dtype),
        weights if layout == "NCHW" else np.ascontiguousarray(weights.transpose(1, 2, 3, 0)),
        stride=stride,
        padding=padding,
        dilation=dilation,
        output_padding=extra,
        layout=layout,
    )
    expected = windows.transpose_convolution(
        x.astype(float), weights.astype(float), stride, padding, dilation, output_padding=extra
    )
    _check(network, y, {"x": feed}, expected, layout, weights[:, 0].size)


@pytest.mark.parametrize("width", [4, 8])
def test_vectors_of_other_widths(backend, monkeypatch, width):
    facts = devices.opened(0).facts
    if facts["kind"] != "cpu":
        pytest.skip("the kernels for CPUs want a CPU")
    monkeypatch.setitem(facts, "vector_width", width)
    ones, pads = (1, 1), (1, 1, 1, 1)
    for layout in ("NCHW", "NHWC"):
        test_convolutions(None, "float32", layout, (2, 10, 21, 19), 34, (3, 5), (2, 3), (0, 4, 2, 1), (2, 1), 2)
        test_convolutions(None, "float32", layout, (1, 32, 13, 39), 48, (3, 3), ones, pads, ones, 1)
        test_convolutions(None, "float16", layout, (1, 32, 13, 39), 48, (3, 3), ones, pads, ones, 1)
        test_depthwise_convolutions(None, "float32", layout, (2, 16, 20, 21), 1, (3, 3), (2, 2), pads, ones)


def test_pixels_that_a_stride_leaves_behind_the_image_are_zero(way):
    x, weights = _filled((1, 4, 4, 5), np.float32), _filled((4, 6, 3, 3), np.float32)
    network = Network("transposed")
    y = network.transpose_convolution2d(
        network.input("x", x.shape), network.constant(weights), stride=(4, 4), output_padding=(3, 3)
    )
    expected = np.zeros((1, 6, 18, 22))
    for row, column in np.ndindex(4, 5):
        window = np.einsum("c,cohw->ohw", x[0, :, row, column].astype(float), weights.astype(float))
        expected[0, :, 4 * row : 4 * row + 3, 4 * column : 4 * column + 3] += window
    _check(network, y, {"x": x}, expected, "NCHW", 4)


def test_weights_that_leave_no_room_are_summed_up_directly(way):
    weights = np.zeros((32, 16, 3, 3), np.float32)
    weights[:, 3, 1, 1] = 3e38
    network, x = Network("large"), np.ones((1, 16, 12, 12), np.float32)
    network.output(network.convolution2d(network.input("x", x.shape), weights, padding=1), "y")
    with dovetail.load(network, ["GpuAcc"], fallback=False) as net:
        assert (net.run({"x": x})["y"] == np.float32(3e38)).all()


@pytest.mark.parametrize("filters", [1, 2])
def test_depthwise_of_bfloat16(way, filters):
    x, weights, bias = (_filled(shape, np.float32) for shape in ((2, 5, 8, 9), (5 * filters, 1, 3, 3), (5 * filters,)))
    halves = [(one.view(np.uint32) >> 16).astype(np.uint16) for one in (x, weights, bias)]
    exact = [(half.astype(np.uint32) << 16).view(np.float32) for half in halves]
    expected = _depthwise(*exact, filters)
    network = Network("depthwise")
    slot = network.input("x", x.shape, DType.BFLOAT16)
    weights, bias = (network.constant(half, dtype=DType.BFLOAT16) for half in halves[1:])
    network.output(network.depthwise_convolution2d(slot, weights, bias), "y")
    with dovetail.load(network, ["GpuAcc"], fallback=False) as net:
        y = (net.run({"x": halves[0]})["y"].astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(y, expected, rtol=2.0**-8, atol=2.0**-8)


def _depthwise(x, weights, bias, filters):
    shape = (x.shape[0], len(weights), x.shape[2] - 2, x.shape[3] - 2)
    y = np.zeros(shape) + bias.astype(float)[:, None, None]
    for row, column in np.ndindex(3, 3):
        seen = x[:, :, row : row + shape[2], column : column + shape[3]].astype(float)
        y += np.repeat(seen, filters, axis=1) * weights[:, 0, row, column].astype(float)[:, None, None]
    return y


def test_long_steps_of_single_channels_take_no_memory(run, backend, way):
    x, w = np.ones((1, 8, 3, 9), np.float32), np.ones((8, 1, 3, 3), np.float32)
    (y,) = run(backend, lambda net, x: net.depthwise_convolution2d(x, w, stride=(1 << 24, 1), padding=1), x)
    np.testing.assert_array_equal(y, np.broadcast_to(np.array([4, *[6] * 7, 4], np.float32), (1, 8, 1, 9)))
