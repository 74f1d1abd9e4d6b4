"""Chains of convolutions and depthwise ones, joined strip by strip, against NumPy in float64."""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import pytest

import dovetail
from dovetail_neon.kernels import instruction_sets

HERE = [name for name, here in instruction_sets().items() if here]

CASES = [
    # channels, filters, kernel, stride of the first; kernel, stride, padding, dilation of the
    # second
    (16, 72, (1, 1), (1, 1), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    (20, 130, (1, 1), (1, 1), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    (3, 70, (3, 3), (1, 1), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    (17, 80, (1, 1), (1, 1), (5, 5), (2, 2), (2, 2, 2, 2), (1, 1)),
    (9, 90, (1, 1), (1, 1), (5, 5), (1, 1), (0, 3, 4, 2), (1, 1)),
    (24, 65, (3, 3), (2, 1), (3, 5), (3, 1), (0, 0, 0, 0), (2, 2)),
    (8, 96, (1, 1), (1, 1), (2, 3), (5, 4), (1, 2, 0, 0), (1, 1)),
]


def close(found, expected, terms):
    np.testing.assert_allclose(found, expected, rtol=0, atol=np.abs(expected).max() * (terms + 8) * 2.0**-22)


@pytest.fixture
def two_convolutions(convolved):
    return partial(make_two_convolutions, convolved)


def make_two_convolutions(convolved, case, height, width, *, reads_both=False):
    """Return a network, its feeds, the exact result; rows in between are as wide as the picture."""
    channels, filters, kernel, stride, window, step, padding, dilation = case
    rng = np.random.default_rng(filters)
    x = rng.standard_normal((2, channels, height, width), np.float32)
    first = rng.standard_normal((filters, channels, *kernel), np.float32)
    second = rng.standard_normal((filters, 1, *window), np.float32)
    biases = rng.standard_normal((2, filters), np.float32)
    around = (kernel[0] // 2, kernel[1] // 2) * 2
    network = dovetail.Network("strips")
    y = network.relu(network.convolution2d(network.input("x", x.shape), first, biases[0], stride=stride, padding=around))
    z = network.convolution2d(y, second, biases[1], stride=step, padding=padding, dilation=dilation, groups=filters)
    network.output(network.activation(z, "hard_swish"), "z")
    if reads_both:
        network.output(y, "y")
    between = np.maximum(convolved(x, first, biases[0], stride, around, (1, 1), 1), 0)
    exact = convolved(between, second, biases[1], step, padding, dilation, filters)
    exact *= np.clip(exact / 6 + 0.5, 0, 1)
    return network, {"x": x}, exact, channels * kernel[0] * kernel[1]


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_two_convolutions_equal_their_definitions(products, case, isa, two_convolutions):
    network, feeds, exact, terms = two_convolutions(case, 67, 61)
    with products.load(network, isa=isa) as net, net.profiling() as profile:
        found = net.run(feeds)["z"]
    close(found, exact, terms + 25)
    assert "CpuAcc.Strips" in [layer.kind for layer in profile.layers]


@pytest.mark.parametrize("isa", HERE)
def test_the_bits_do_not_depend_on_threads(products, isa, two_convolutions):
    network, feeds, _, _ = two_convolutions(CASES[0], 83, 50)
    found = set()
    for threads in (1, 2, 3):
        with products.load(network, isa=isa, threads=threads) as net:
            found.add(net.run(feeds)["z"].tobytes())
    assert len(found) == 1


def test_an_image_that_others_read_too_is_kept(products, two_convolutions):
    network, feeds, exact, terms = two_convolutions(CASES[0], 67, 61, reads_both=True)
    with products.load(network, isa="auto") as net, net.profiling() as profile:
        found = net.run(feeds)
    close(found["z"], exact, terms + 25)
    assert "CpuAcc.Strips" not in [layer.kind for layer in profile.layers]
    assert found["y"].min() == 0


def test_small_images_are_not_joined(products, two_convolutions):
    network, feeds, exact, terms = two_convolutions(CASES[0], 20, 20)
    with products.load(network, isa="auto") as net, net.profiling() as profile:
        close(net.run(feeds)["z"], exact, terms + 25)
    assert "CpuAcc.Depthwise" in [layer.kind for layer in profile.layers]


# Stages: filters of a convolution or, for a depthwise one, None; kernel; stride. The last may add
# what the chain reads.
CHAINS = {
    "from an image on": (3, [(40, 3, 2), (None, 3, 1), (70, 1, 1), (None, 5, 2), (130, 1, 1)], False),
    "expand, filter, project": (24, [(90, 1, 1), (None, 3, 1), (24, 1, 1)], True),
    "expand, filter wide, project": (33, [(80, 1, 1), (None, 5, 1), (33, 1, 1)], True),
    "depthwise first": (90, [(None, 3, 1), (70, 1, 1), (None, 3, 3)], False),
    "two depthwise": (100, [(None, 3, 1), (None, 3, 2), (72, 1, 1)], False),
    "longer than one chain": (16, [(80, 1, 1), (None, 3, 1)] * 6, False),
}


def make_chain(products, convolved, case, height, width):
    """Return a network, its feeds and the exact result."""

    def weights(rng, shape):
        drawn = rng.standard_normal(shape, np.float32)
        return drawn / np.float32(np.sqrt(drawn[0].size)) if len(shape) == 4 else drawn

    return products.chain_of(convolved, *case, (height, width), products.normal, weights, np.inf)


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize("case", CHAINS.values(), ids=CHAINS)
def test_chains_equal_their_definitions(products, case, isa, convolved):
    network, feeds, exact = make_chain(products, convolved, case, 131, 93)
    with products.load(network, isa=isa) as net, net.profiling() as profile:
        found = net.run(feeds)["y"]
    np.testing.assert_allclose(found, exact, rtol=0, atol=np.abs(exact).max() * 2.0**-18)
    chains = [layer for layer in profile.layers if layer.kind == "CpuAcc.Strips"]
    assert chains
    assert sum(len(layer.sources) for layer in profile.layers) >= 2 * len(case[1])
    if case is CHAINS["longer than one chain"]:
        assert len(chains) > 1


@pytest.mark.parametrize("case", CHAINS.values(), ids=CHAINS)
def test_chains_give_the_same_bits_on_any_number_of_threads(products, case, convolved):
    network, feeds, _ = make_chain(products, convolved, case, 90, 97)
    found = set()
    for threads in (1, 2, 3, 5):
        with products.load(network, isa="auto", threads=threads) as net:
            found.add(net.run(feeds)["y"].tobytes())
    assert len(found) == 1


def test_a_chain_without_elements_loads_at_once(products):
    """Its images are as high as numbers go; strips were made lower one row at a time."""
    net = dovetail.Network()
    x = net.input("x", (0, 16, 1 << 33, 8))
    y = net.depthwise_convolution2d(
        net.depthwise_convolution2d(x, np.ones((16, 1, 3, 3), np.float32), padding=1),
        np.ones((16, 1, 3, 3), np.float32),
        padding=1,
    )
    net.output(y, "y")
    begin = time.perf_counter()
    with products.load(net, isa=HERE[0]) as loaded:
        assert loaded.run({"x": np.zeros((0, 16, 1 << 33, 8), np.float32)})["y"].shape == (0, 16, 1 << 33, 8)
    assert time.perf_counter() - begin < 10
