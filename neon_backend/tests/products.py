"""Build and run products, for the tests of each precision; see the fixture `products`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import dovetail
from dovetail_neon.geometry.layouts import Image, plain_info
from dovetail_neon.geometry.window import POINT

CONVOLUTIONS = [
    # channels, filters, height, width, kernel, stride, padding, dilation, groups
    (17, 33, 7, 5, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    (32, 70, 13, 15, (1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 1),
    (19, 16, 11, 6, (3, 3), (2, 1), (0, 2, 1, 0), (2, 2), 1),
    (40, 130, 7, 7, (3, 2), (1, 1), (2, 1, 2, 1), (1, 1), 1),
    (65, 31, 9, 23, (5, 3), (3, 2), (2, 1, 2, 1), (1, 1), 1),
    (84, 108, 6, 7, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 3),
    (30, 45, 1, 1, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    (3, 24, 19, 18, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 1),
    (3, 64, 37, 41, (7, 7), (2, 2), (3, 3, 3, 3), (1, 1), 1),
    (4, 17, 9, 33, (2, 11), (3, 1), (0, 5, 1, 2), (1, 1), 1),
    (1, 40, 12, 12, (4, 3), (1, 3), (0, 0, 0, 0), (1, 1), 1),
    (2, 8, 5, 5, (3, 2), (5, 4), (6, 7, 0, 1), (1, 1), 1),
]
"""Cases of every reduced precision."""
MORE_CONVOLUTIONS = {
    "bfloat16": [
        (24, 40, 10, 9, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
        (16, 16, 3, 2, (3, 3), (1, 1), (4, 5, 6, 7), (1, 1), 1),
        (64, 64, 6, 6, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 2),
        (48, 96, 8, 5, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 3),
        (35, 47, 1, 1, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    ],
    "float16": [  # where windows of 3 x 3 by steps of 1 are float32
        (24, 40, 10, 9, (5, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
        (16, 17, 3, 2, (3, 3), (1, 2), (4, 5, 6, 7), (1, 1), 1),
        (64, 64, 6, 6, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 2),
        (35, 47, 1, 1, (3, 3), (1, 2), (1, 1, 1, 1), (1, 1), 1),
    ],
}


def load(network, precision="float32", isa="auto", threads=1, **options):
    own = {"precision": precision, "isa": isa}
    return dovetail.load(network, backends=["CpuAcc"], threads=threads, options={"CpuAcc": own}, **options)


def kinds_of(net, feeds):
    """Return the kinds of layers that a run consists of."""
    with net.profiling() as profile:
        net.run(feeds)
    return [layer.kind for layer in profile.layers]


def close(found, expected, terms):
    """Check results that are sums of so many products in float32."""
    scale = max(np.abs(expected).max(), 1.0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=scale * (terms + 8) * 2.0**-24 * 4)


def normal(rng, shape):
    return rng.standard_normal(shape, np.float32)


def convolution_of(case, draw=normal):
    """Draw images, weights and a bias for a case; return them, and where windows lie."""
    channels, filters, height, width, kernel, stride, padding, dilation, groups = case
    rng = np.random.default_rng(channels * 1000 + filters)
    shapes = ((2, channels, height, width), (filters, channels // groups, *kernel), (filters,))
    return *(draw(rng, shape) for shape in shapes), {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
    }


def run_convolution(x, weights, bias, where, layout, precision="float32", **options):
    """Return what a convolution and a ReLU make of images, [N, C, H, W], and the kinds that ran."""
    nhwc = layout == "NHWC"
    own, filters = (np.ascontiguousarray(array.transpose(0, 2, 3, 1)) if nhwc else array for array in (x, weights))
    network = dovetail.Network("convolution")
    y = network.convolution2d(network.input("x", own.shape), filters, bias, layout=layout, **where)
    network.output(network.relu(y), "y")
    with load(network, precision, **options) as net:
        found = net.run({"x": own})["y"]
        return found.transpose(0, 3, 1, 2) if nhwc else found, kinds_of(net, {"x": own})


def product_of_rows(kind, weights, bias, rows, **more):
    """Return the private layer that multiplies so many rows."""
    filters, channels = weights.shape
    return kind(
        infos=(plain_info((rows, filters)),),
        weights=weights[:, None, :],
        bias=bias,
        source=Image(1, channels, rows, 1),
        target=Image(1, filters, rows, 1),
        geometry=POINT,
        **more,
    )


def run_product(run_layer, kind, rows, channels, filters, adds, function):
    """Multiply rows, and add to the results or not; return them, and all that was read."""
    rng = np.random.default_rng(rows * channels)
    x, weights = normal(rng, (rows, channels)), normal(rng, (filters, channels))
    bias, added = normal(rng, filters), normal(rng, (rows, filters))
    descriptor = product_of_rows(kind, weights, bias, rows, function=function)
    [found] = run_layer(lambda net, *slots: net.add(descriptor, *slots), *([x, added] if adds else [x]))
    return found, x, weights, bias, added if adds else np.zeros_like(added)


def run_groups(run_layer, convolved, kind, geometry, draw, rounded=lambda array: array):
    """Run two groups of channels last; return the result, the definition's, and terms of a sum."""
    rng = np.random.default_rng(4)
    x = draw(rng, (2, 9, 8, 66))
    rows, columns = geometry.kernel
    weights = draw(rng, (40, rows * columns, 33))
    images = rounded(x).transpose(0, 3, 1, 2)
    filters = rounded(weights).reshape(40, rows, columns, 33).transpose(0, 3, 1, 2)
    padding = (*geometry.padding, *geometry.padding)
    none = np.zeros(40, np.float32)
    expected = convolved(images, filters, none, geometry.stride, padding, geometry.dilation, 2).transpose(0, 2, 3, 1)
    descriptor = kind(
        infos=(plain_info(expected.shape),),
        weights=weights,
        bias=None,
        source=Image(2, 66, 9, 8),
        target=Image(2, 40, *expected.shape[1:3]),
        geometry=geometry,
        groups=2,
    )
    [found] = run_layer(lambda net, slot: net.add(descriptor, slot), x)
    return found, expected, weights[0].size


def bits_of_a_network(precision, size, layers, runs):
    """Return all results, as bytes, of runs side by side on one to three threads.

    Each layer is a convolution with a hard swish: channels, filters and the size of its windows.
    """
    rng = np.random.default_rng(3)
    network = dovetail.Network("bits")
    y = network.input("x", (1, layers[0][0], size, size))
    for channels, filters, kernel in layers:
        weights = (rng.standard_normal((filters, channels, kernel, kernel)) / kernel / np.sqrt(channels)).astype(np.float32)
        y = network.activation(network.convolution2d(y, weights, padding=(kernel // 2,) * 4), "hard_swish")
    last = rng.standard_normal((7, layers[-1][1] * size * size), np.float32)
    network.output(network.fully_connected(network.flatten(y), last), "y")
    feeds = {"x": rng.standard_normal((1, layers[0][0], size, size), np.float32)}
    found = set()
    for threads in (1, 2, 3):
        with load(network, precision, threads=threads) as net, ThreadPoolExecutor(3) as pool:
            found.update(run["y"].tobytes() for run in pool.map(lambda _, net=net: net.run(feeds), range(runs)))
    return found


def chain_of(convolved, channels, stages, adds, size, images, weights, limit):
    """Return a network of a chain of convolutions, its feeds and the exact result.

    Args:
        convolved: The definition of a convolution.
        channels: Of the images that the chain reads.
        stages: Filters of a convolution or, for a depthwise one, None; kernel; stride.
        adds: Whether what the chain reads is added to the last result.
        size: Height and width of the images.
        images: Draws images, given a generator and a shape.
        weights: Draws weights or a bias.
        limit: Above which results are cut off, 6 or infinity; they are at 0, too.
    """
    rng = np.random.default_rng(channels * len(stages))
    x = images(rng, (2, channels, *size))
    network = dovetail.Network("chain")
    start = y = network.input("x", x.shape)
    exact = x.astype(np.float64)
    for filters, kernel, stride in stages:
        before = exact.shape[1]
        groups = before if filters is None else 1
        own, bias = weights(rng, (filters or before, before // groups, kernel, kernel)), weights(rng, (filters or before,))
        where = {"stride": (stride, stride), "padding": (kernel // 2,) * 4, "groups": groups}
        y = network.convolution2d(y, own, bias, **where)
        y = network.relu6(y) if limit == 6 else network.relu(y)
        exact = np.clip(convolved(exact, own, bias, dilation=(1, 1), **where), 0, limit)
    if adds:
        y, exact = network.addition(y, start), exact + x
    network.output(y, "y")
    return network, {"x": x}, exact
