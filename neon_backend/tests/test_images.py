"""Check blocked images against NumPy in float64: odd channels, sizes and windows, both orders."""

from __future__ import annotations

import numpy as np
import pytest

import dovetail
from dovetail_neon.kernels import instruction_sets

HERE = [name for name, here in instruction_sets().items() if here]


CASES = [
    # channels, filters, height, width, kernel, stride, padding, dilation, groups
    (3, 8, 9, 11, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 1),
    (8, 16, 6, 6, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),  # with its frame as wide as there are channels
    (1, 5, 7, 7, (5, 3), (1, 1), (2, 0, 1, 3), (1, 1), 1),
    (2, 20, 8, 30, (1, 7), (1, 2), (0, 3, 0, 3), (1, 1), 1),
    (17, 33, 7, 5, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    (16, 70, 13, 15, (1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 1),
    (24, 40, 10, 9, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    (19, 16, 11, 6, (3, 3), (2, 1), (0, 2, 1, 0), (2, 2), 1),
    (40, 130, 7, 7, (3, 2), (1, 1), (2, 1, 2, 1), (1, 1), 1),
    (64, 64, 6, 6, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 2),
    (12, 18, 6, 7, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 3),
    (6, 12, 5, 5, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 6),
    # groups that share blocks: as many filters as channels, more, fewer; rows of all sizes of tiles
    (20, 20, 5, 13, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 5),
    (40, 40, 9, 28, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 5),
    (48, 48, 4, 10, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 3),
    (48, 48, 5, 14, (3, 3), (1, 2), (1, 1, 1, 1), (1, 1), 2),
    (36, 36, 6, 17, (3, 3), (1, 1), (2, 0, 1, 3), (1, 1), 6),
    (35, 35, 7, 6, (3, 3), (1, 1), (2, 2, 2, 2), (2, 2), 5),
    (21, 21, 1, 30, (1, 3), (1, 1), (0, 1, 0, 1), (1, 1), 7),
    (18, 18, 8, 9, (5, 5), (3, 2), (2, 2, 2, 2), (1, 1), 6),
    (12, 40, 6, 15, (3, 2), (1, 1), (1, 0, 1, 1), (1, 1), 4),
    (24, 9, 7, 7, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 3),
    (40, 10, 5, 8, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 10),  # too many channels for a filter
    (7, 21, 9, 8, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 7),
    (5, 80, 6, 11, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 5),
    (19, 38, 1, 1, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 19),
    (80, 160, 5, 9, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 4),
    (66, 150, 5, 9, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 3),
    (30, 30, 9, 9, (1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 2),
    (16, 16, 3, 2, (3, 3), (1, 1), (4, 5, 6, 7), (1, 1), 4),
    (33, 33, 14, 14, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 33),
    (20, 20, 40, 37, (5, 5), (2, 2), (2, 2, 2, 2), (1, 1), 20),
    (18, 18, 9, 8, (3, 3), (1, 1), (3, 3, 3, 3), (3, 3), 18),
    (5, 7, 1, 1, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    (30, 45, 1, 1, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
]


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("channels", "height", "width"), [(3, 7, 5), (16, 1, 6), (37, 25, 5), (64, 8, 8), (5, 1, 1)])
def test_windows_as_large_as_the_image_are_its_mean(products, channels, height, width, layout, isa):
    x = np.random.default_rng(channels).standard_normal((2, channels, height, width), np.float32)
    given = x if layout == "NCHW" else np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    network = dovetail.Network("mean")
    pooled = network.pooling2d(network.input("x", given.shape), "average", (height, width), layout=layout, name="pool")
    network.output(network.flatten(pooled), "y")
    net = products.load(network, isa=isa)
    with net.profiling() as profile:
        found = net.run({"x": given})["y"]
    products.close(found, x.mean((2, 3), dtype=np.float64), height * width)
    assert "CpuAcc.MeanOfImage" in [layer.kind for layer in profile.layers]


@pytest.mark.parametrize("counted", [True, False])
def test_a_window_as_large_as_the_image_may_hang_over_its_edge(products, counted):
    x = np.random.default_rng(1).standard_normal((1, 9, 4, 5), np.float32)
    network = dovetail.Network("padded")
    slot = network.input("x", x.shape)
    y = network.pooling2d(slot, "average", (4, 5), stride=(1, 5), padding=(0, 0, 0, 4), count_padding=counted)
    network.output(y, "y")
    net = products.load(network, isa=HERE[0])
    assert "CpuAcc.Pool" in [row.kind for row in net.placement.layers]
    products.close(net.run({"x": x})["y"], x.mean((2, 3), dtype=np.float64, keepdims=True), 20)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolutions_equal_their_definition(products, case, layout, isa, convolved):
    x, weights, bias, where = products.convolution_of(case)
    found, _ = products.run_convolution(x, weights, bias, where, layout, isa=isa)
    products.close(found, np.maximum(convolved(x, weights, bias, **where), 0), weights[0].size)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("function", ["max", "average"])
@pytest.mark.parametrize(
    ("size", "stride", "padding", "shape"),
    [
        ((3, 3), (2, 2), (1, 1, 1, 1), (1, 21, 13, 9)),
        ((2, 5), (1, 3), (0, 2, 1, 2), (2, 4, 50, 41)),
        ((5, 5), (1, 1), (2, 2, 2, 2), (1, 16, 10, 10)),
    ],
)
def test_pooling_equals_its_definition(products, function, size, stride, padding, shape, isa):
    x = np.random.default_rng(5).standard_normal(shape, np.float32)
    network = dovetail.Network("pooling")
    y = network.pooling2d(network.input("x", shape), function, size, stride=stride, padding=padding)
    network.output(y, "y")
    with products.load(network, isa=isa) as net:
        found = net.run({"x": x})["y"]
    top, left, bottom, right = padding
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, size, (2, 3))[:, :, :: stride[0], :: stride[1]]
    expected = np.nanmax(windows, (4, 5)) if function == "max" else np.nanmean(windows, (4, 5))
    products.close(found, expected, size[0] * size[1])


@pytest.mark.parametrize("isa", HERE)
def test_a_network_of_blocks_equals_its_layers_one_by_one(products, isa):
    """Residuals, uneven concatenation, squeeze and excite, swish: fused in blocks, or by layer."""
    rng = np.random.default_rng(9)

    def weights(*shape):
        return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    network = dovetail.Network("blocks")
    x = network.input("x", (2, 3, 19, 17))
    a = network.convolution2d(x, weights(24, 3, 3, 3), stride=(2, 2), padding=(1, 1, 1, 1))
    a = network.multiplication(a, network.sigmoid(a))
    b = network.convolution2d(a, weights(24, 24, 3, 3), weights(24), padding=(1, 1, 1, 1))
    b = network.relu(network.addition(b, a))
    mean = network.global_pooling(b, "average")
    gate = network.convolution2d(network.relu(network.convolution2d(mean, weights(7, 24, 1, 1))), weights(24, 7, 1, 1))
    c = network.multiplication(b, network.activation(gate, "hard_sigmoid", 1 / 6, 0.5))
    c = network.concat([c, a, network.pooling2d(b, "max", (3, 3), padding=(1, 1, 1, 1))], 1)
    c = network.convolution2d(c, weights(5, 72, 1, 1))
    network.output(c, "c")
    network.output(network.fully_connected(network.flatten(c), weights(11, 5 * 10 * 9), weights(11)), "d")
    feeds = {"x": rng.standard_normal((2, 3, 19, 17), np.float32)}
    with products.load(network, isa=isa) as fused, products.load(network, isa=isa, passes=False) as apart:
        exact = dovetail.load(network, backends=["CpuRef"]).run(feeds)
        for name, value in fused.run(feeds).items():
            products.close(value, exact[name], 400)
        for name, value in apart.run(feeds).items():
            products.close(value, exact[name], 400)
        kinds = [step.kind for step in _profile(fused, feeds)]
    assert kinds.count("CpuAcc.ScaleChannels") == kinds.count("CpuAcc.Join") == 1
    assert not any(kind.startswith("dovetail.") for kind in kinds), kinds


def _profile(net, feeds):
    with net.profiling() as profile:
        net.run(feeds)
    return profile.layers


@pytest.mark.parametrize("isa", HERE)
def test_the_bits_depend_on_nothing_but_the_input(products, isa):
    """1, 2 and 3 threads, and a pool that is busy with another run, give the same bits."""
    from concurrent.futures import ThreadPoolExecutor

    rng = np.random.default_rng(3)
    network = dovetail.Network("bits")
    y = network.input("x", (1, 3, 96, 96))
    for channels, filters in ((3, 40), (40, 72), (72, 64)):
        weights = (rng.standard_normal((filters, channels, 3, 3)) / (3 * np.sqrt(channels))).astype(np.float32)
        y = network.convolution2d(y, weights, padding=(1, 1, 1, 1))
        y = network.activation(y, "hard_swish")
    network.output(network.softmax(network.flatten(network.global_pooling(y, "average"))), "y")
    feeds = {"x": rng.standard_normal((1, 3, 96, 96), np.float32)}
    found = set()
    for threads in (1, 2, 3):
        with products.load(network, isa=isa, threads=threads) as net, ThreadPoolExecutor(3) as pool:
            found.update(run["y"].tobytes() for run in pool.map(lambda _, net=net: net.run(feeds), range(6)))
    assert len(found) == 1


def test_an_instruction_set_that_is_not_there_is_named(products):
    network = dovetail.Network("relu")
    network.output(network.relu(network.input("x", (4,))), "y")
    with pytest.raises(dovetail.OptionError, match="instruction set 'sse9' cannot be used; this build has"):
        products.load(network, isa="sse9")


@pytest.mark.parametrize("isa", HERE)
def test_the_mean_of_an_image_without_pixels(products, isa):
    x = np.zeros((2, 3, 0, 4), np.float32)
    net = dovetail.Network()
    net.output(net.global_pooling(net.input("x", x.shape)), "y")
    with products.load(net, isa=isa, fallback=False) as loaded:
        assert np.isnan(loaded.run({"x": x})["y"]).all()
