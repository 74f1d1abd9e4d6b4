"""Check that packed weights ignore the order of axes, at every width of the last vector and run."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from dovetail import DataLayout, Network, load

RNG = np.random.default_rng(29)


def product(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) @ weights.astype(np.float64).T


def close(found: np.ndarray, expected: np.ndarray, terms: int) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=terms * 2**-23 * float(np.abs(expected).max() + 1))


@pytest.mark.parametrize("channels", [1, 3, 4, 15, 16, 17, 33, 64])
@pytest.mark.parametrize("filters", [1, 3, 4, 8, 15, 16, 17, 31, 64, 65, 130])
def test_matrices_that_lie_either_way(run_layer, filters: int, channels: int) -> None:
    """[N, K] has a run of channels per filter, [K, N] a run of filters per channel."""
    x, weights = RNG.standard_normal((5, channels), np.float32), RNG.standard_normal((filters, channels), np.float32)
    (rows,) = run_layer(lambda net, a: net.fully_connected(a, weights), x)
    close(rows, product(x, weights), channels)
    (columns,) = run_layer(lambda net, a: net.matmul(a, np.ascontiguousarray(weights.T)), x)
    close(columns, product(x, weights), channels)
    np.testing.assert_array_equal(rows, columns)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("kernel", [(1, 1), (2, 3), (3, 3), (5, 1)])
@pytest.mark.parametrize(("channels", "filters"), [(16, 16), (17, 33), (5, 3), (32, 20), (40, 130)])
def test_filters_of_any_size(run_layer, convolved, channels: int, filters: int, kernel: tuple[int, int], layout: str) -> None:
    x = RNG.standard_normal((1, channels, 9, 8), np.float32)
    weights = RNG.standard_normal((filters, channels, *kernel), np.float32)
    padding = (kernel[0] // 2, kernel[1] // 2, kernel[0] // 2, kernel[1] // 2)
    last = layout == "NHWC"
    fed = np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if last else x
    held = np.ascontiguousarray(weights.transpose(0, 2, 3, 1)) if last else weights
    (found,) = run_layer(lambda net, a: net.convolution2d(a, held, padding=padding, layout=DataLayout[layout]), fed)
    expected = convolved(x, weights, np.zeros(filters), (1, 1), padding, (1, 1), 1)
    close(found.transpose(0, 3, 1, 2) if last else found, expected, channels * kernel[0] * kernel[1])


def test_large_pages_live_as_long_as_weights_in_them() -> None:
    """Blocks behind the first megabytes of a load share them, and they go with the network."""
    from dovetail_neon.workload.packed import loading

    layers, width = 8, 832
    held = [RNG.standard_normal((width, width), np.float32) * np.float32(width**-0.5) for _ in range(layers)]
    net = Network("wide")
    slot = net.input("x", (2, width))
    for weights in held:
        slot = net.fully_connected(slot, weights)
    net.output(slot, "y")
    x = RNG.standard_normal((2, width), np.float32)
    expected = x
    for weights in held:
        expected = product(expected, weights)
    with load(net, ["CpuAcc"], threads=1) as loaded:
        assert loading.chunk() is not None
        close(loaded.run({"x": x})["y"], expected, layers * width)
    del loaded
    gc.collect()
    assert loading.chunk() is None
