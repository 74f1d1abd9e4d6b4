"""Convolutions with what follows them, and images in the backend's own layout between layers."""

import numpy as np
import pytest

import dovetail
from dovetail import Network
from dovetail_cl import devices

pytestmark = pytest.mark.usefixtures("backend")


def compared(network, feeds, tolerance=2e-5):
    """Run a network on the backend and on CpuRef; return the kinds of the backend's steps."""
    with dovetail.load(network, ["GpuAcc"]) as loaded, dovetail.load(network, ["CpuRef"]) as reference:
        found, expected = loaded.run(feeds), reference.run(feeds)
        kinds = [step.kind for step in loaded.placement.layers]
        for name, value in expected.items():
            scale = np.abs(value).max() if value.size else 1.0
            np.testing.assert_allclose(found[name], value, rtol=0, atol=tolerance * max(scale, 1e-30), err_msg=name)
    return kinds


def randoms(*shapes, dtype=np.float32):
    random = np.random.default_rng(sum(map(sum, shapes)))
    made = [random.standard_normal(shape).astype(dtype) for shape in shapes]
    return made[0] if len(made) == 1 else made


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("channels", "filters", "window", "size", "dtype", "settings"),
    [
        (5, 7, (1, 1), (6, 5), np.float16, {}),
        (32, 32, (3, 3), (17, 19), np.float32, {"padding": 1}),
        (3, 24, (5, 4), (12, 13), np.float32, {"stride": 2, "padding": 2}),
        (20, 36, (2, 2), (9, 4), np.float16, {"groups": 2, "dilation": 2}),
    ],
)
def test_a_sum_and_a_function_are_part_of_the_convolution(way, layout, channels, filters, window, size, dtype, settings):
    is_last = layout == "NHWC"
    groups = settings.get("groups", 1)
    net = Network("residual")
    x = net.input("x", (2, *size, channels) if is_last else (2, channels, *size), dtype)
    shape = (filters, *window, channels // groups) if is_last else (filters, channels // groups, *window)
    weights, bias = randoms(shape, (filters,), dtype=dtype)
    y = net.convolution2d(x, weights, bias, layout=layout, **settings)
    added = net.input("added", y.info.sizes, dtype)
    net.output(net.activation(net.addition(added, y), "leaky_relu", alpha=0.25), "y")
    feeds = {layer.name: randoms(layer.output.info.sizes, dtype=dtype) for layer in net.inputs}
    kinds = compared(net, feeds, 2e-5 if dtype == np.float32 else 3e-3)
    assert "GpuAcc.Fused" in kinds
    assert not {"dovetail.ElementwiseBinary", "dovetail.Activation", "GpuAcc.Chain"} & set(kinds)


@pytest.mark.parametrize(("channels", "size", "stride"), [(3, (5, 5), 1), (40, (7, 6), 1), (17, (9, 30), 2)])
def test_a_function_that_reads_the_sums_twice_follows_a_depthwise_convolution(way, channels, size, stride):
    net = Network("hard swish")
    x = net.input("x", (2, channels, *size))
    weights, bias = randoms((channels, 1, 3, 3), (channels,))
    y = net.depthwise_convolution2d(x, weights, bias, stride=stride, padding=1)
    gate = net.activation(net.addition(y, np.float32(3).reshape(1)), "bounded_relu", alpha=6.0, beta=0.0)
    y = net.multiplication(net.multiplication(y, gate), np.full((1, 1, 1), 1 / 6, np.float32))
    net.output(net.addition(y, net.input("added", y.info.sizes)), "y")
    kinds = compared(net, {layer.name: randoms(layer.output.info.sizes) for layer in net.inputs})
    assert "GpuAcc.Fused" in kinds
    assert "GpuAcc.Chain" not in kinds


def test_an_image_that_is_added_to_what_is_made_of_it():
    net = Network("itself")
    x = net.input("x", (1, 32, 9, 9))
    y = net.relu(net.convolution2d(x, randoms((32, 32, 3, 3)), padding=1))
    z = net.addition(net.convolution2d(y, randoms((32, 32, 3, 3)), padding=1), y)
    net.output(net.convolution2d(z, randoms((8, 32, 1, 1))), "z")
    compared(net, {"x": randoms((1, 32, 9, 9))})


def test_all_that_can_lie_with_channels_last_between_two_convolutions():
    net = Network("layers")
    x = net.input("x", (2, 6, 11, 13))

    def convolved(slot, filters=16, window=1):
        return net.convolution2d(slot, randoms((filters, slot.info.sizes[1], window, window)))

    first = convolved(x, 32, 3)
    parts = net.split(first, 2, axis=1)
    joined = net.concat([parts[1], net.unary(parts[0], "abs"), convolved(first, 8)], axis=1)
    scaled = net.multiplication(joined, randoms((40, 1, 1)))
    pooled = net.pooling2d(scaled, "max", 3, stride=2, padding=1)
    average = net.pooling2d(pooled, "average", (2, 3), padding=(1, 0, 0, 1))
    shuffled = net.reshape(
        net.permute(net.reshape(average, (2, 4, 10, *average.info.sizes[2:])), (0, 2, 1, 3, 4)), average.info.sizes
    )
    padded = net.pad(shuffled, (0, 1, 2, 0), (0, 0, 1, 3))
    larger = net.resize(convolved(padded), scales=(1, 1, 2, 2), method="nearest")
    cut = net.strided_slice(larger, (2, 1, -1), (14, 100, -100), axes=(1, 2, 3), stride=(3, 1, -1))
    normal = net.batch_normalization(cut, *np.abs(randoms((4,), (4,), (4,), (4,))) + 0.5)
    net.output(net.softmax(convolved(normal, 5), axis=1), "probabilities")
    net.output(net.reduce(normal, "mean", axes=(2, 3)), "means")
    net.output(net.permute(normal, (0, 2, 3, 1)), "turned")
    net.output(net.reshape(normal, (2, -1)), "flat")
    net.output(net.global_pooling(normal, "average"), "pooled")
    kinds = compared(net, {"x": randoms((2, 6, 11, 13))}, 1e-4)
    assert kinds.count("dovetail.Permute") <= 5


def test_gates_of_channels_are_computed_from_and_applied_to_images():
    net = Network("squeeze and excite")
    x = net.input("x", (2, 16, 8, 8))
    y = net.relu(net.convolution2d(x, randoms((24, 16, 3, 3)), padding=1))
    gate = net.convolution2d(net.global_pooling(y, "average"), randoms((24, 24, 1, 1)))
    y = net.multiplication(y, net.activation(gate, "sigmoid"))
    net.output(net.convolution2d(y, randoms((5, 24, 1, 1))), "y")
    assert compared(net, {"x": randoms((2, 16, 8, 8))}).count("dovetail.Permute") == 2


@pytest.mark.parametrize("shape", [(0, 8, 5, 5), (2, 8, 3, 3)])
def test_images_without_elements(shape):
    net = Network("empty")
    x = net.input("x", shape)
    y = net.relu(net.convolution2d(x, randoms((16, 8, 3, 3))))
    net.output(net.addition(net.convolution2d(y, randoms((16, 16, 1, 1))), y), "y")
    compared(net, {"x": randoms(shape)})


@pytest.mark.parametrize("groups", [1, 8])
def test_operands_for_each_channel_are_part_of_the_convolution(way, groups):
    net = Network("scaled")
    x = net.input("x", (2, 16, 7, 5))
    y = net.convolution2d(x, randoms((40, 16 // groups, 3, 3)), groups=groups, padding=1)
    scaled = net.addition(net.multiplication(y, randoms((40, 1, 1))), net.input("offset", (1, 40, 1, 1)))
    net.output(net.relu(scaled), "y")
    kinds = compared(net, {layer.name: randoms(layer.output.info.sizes) for layer in net.inputs})
    assert "GpuAcc.Fused" in kinds
    assert "GpuAcc.Chain" not in kinds


def test_what_ends_with_channels_last_is_permuted_once():
    net = Network("head")
    body = net.convolution2d(net.input("x", (2, 4, 6, 5)), randoms((4, 4, 1, 1)))
    y = net.reshape(net.convolution2d(body, randoms((21, 4, 1, 1))), (2, 3, 7, 30))
    net.output(net.activation(net.permute(y, (0, 1, 3, 2)), "sigmoid"), "boxes")
    z = net.reshape(net.convolution2d(body, randoms((8, 4, 1, 1))), (2, 8, 30))
    net.output(net.unary(z, "neg"), "plain")
    net.output(net.permute(z, (0, 2, 1)), "turned")
    assert compared(net, {"x": randoms((2, 4, 6, 5))}).count("dovetail.Permute") == 4


@pytest.mark.parametrize(
    ("channels", "filters", "size", "settings", "dtype"),
    [
        (19, 40, (11, 13), {"padding": 1}, np.float32),
        (32, 7, (17, 30), {"padding": (2, 1, 0, 2), "stride": 2}, np.float32),
        (48, 70, (9, 9), {"padding": 2, "dilation": 2}, np.float16),
    ],
)
@pytest.mark.parametrize("adds", [False, True])
def test_single_pixels_behind_single_channels_are_part_of_them(way, channels, filters, size, settings, dtype, adds):
    net = Network("separable")
    x = net.input("x", (2, channels, *size), dtype)
    taps, first, weights, last = randoms((channels, 1, 3, 3), (channels,), (filters, channels, 1, 1), (filters,), dtype=dtype)
    y = net.activation(net.depthwise_convolution2d(x, taps, first, **settings), "bounded_relu", alpha=6)
    y = net.convolution2d(y, weights, last)
    if adds:
        y = net.tanh(net.addition(y, net.input("added", y.info.sizes, dtype)))
    net.output(y, "y")
    feeds = {layer.name: randoms(layer.output.info.sizes, dtype=dtype) for layer in net.inputs}
    kinds = compared(net, feeds, 2e-5 if dtype == np.float32 else 1e-2)
    if devices.opened(0).facts["kind"] == "cpu":
        assert "GpuAcc.Fused" in kinds if adds else "GpuAcc.Separable" in kinds
        assert "GpuAcc.Convolution" not in kinds


def test_what_somebody_else_reads_of_single_channels_is_written():
    net = Network("read twice")
    taps, first, weights, last = randoms((32, 1, 3, 3), (32,), (24, 32, 1, 1), (24,))
    y = net.depthwise_convolution2d(net.input("x", (1, 32, 12, 10)), taps, first, padding=1)
    net.output(net.convolution2d(y, weights, last), "pixels")
    net.output(y, "channels")
    assert "GpuAcc.Separable" not in compared(net, {"x": randoms((1, 32, 12, 10))})
