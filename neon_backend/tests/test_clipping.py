"""What is left of windows, and what their averages divide by, against a walk over all taps."""

from __future__ import annotations

import random

import numpy as np
import pytest

import dovetail
from dovetail import Network, Quantization
from dovetail.layers import Convolution2d, Pooling2d, PoolingFunction
from dovetail_neon.geometry.clipping import ClippedAxis
from dovetail_neon.kernels import instruction_sets, precisions
from dovetail_neon.windows.lowering import elements_that_count

HUGE = (1 << 31) - 1


def read(taps, stride, dilation, padding, size, results, first=0):
    """For each result, (tap, pixel) of what lies inside the image."""
    return [
        [
            (first + tap, y * stride - padding + tap * dilation)
            for tap in range(taps)
            if 0 <= y * stride - padding + tap * dilation < size
        ]
        for y in range(results)
    ]


def test_nothing_that_is_read_is_lost_and_nothing_else_is_kept_at_the_ends():
    numbers = random.Random(3)
    for _ in range(5000):
        kernel, stride, dilation = numbers.randint(1, 7), numbers.randint(1, 9), numbers.randint(1, 9)
        padding, size, results = numbers.randint(0, 14), numbers.randint(1, 8), numbers.randint(1, 6)
        clipped = ClippedAxis.of(kernel, stride, dilation, padding, size, results)
        first, count = clipped.taps.start, clipped.taps.stop - clipped.taps.start
        found = read(count, clipped.stride, clipped.dilation, clipped.padding, size, results, first)
        assert found == read(kernel, stride, dilation, padding, size, results), (
            kernel,
            stride,
            dilation,
            padding,
            size,
            results,
        )
        assert clipped.padding >= 0


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("results", [1, 2, 3])
def test_what_is_left_is_in_proportion(size, results):
    clipped = ClippedAxis.of(HUGE, HUGE, 1, HUGE, size, results)
    assert clipped.taps.stop - clipped.taps.start <= size + (results - 1) * HUGE
    one = ClippedAxis.of(HUGE, HUGE, HUGE, HUGE, size, 1)
    assert (one.taps.stop - one.taps.start, one.stride, one.dilation, one.padding) == (1, 1, 1, 0)


def test_windows_that_read_nothing():
    assert ClippedAxis.of(3, 1, 1, 9, 4, 2) == ClippedAxis(slice(0, 1), 1, 1, 2)
    assert ClippedAxis.of(3, 1, 1, 0, 0, 2) == ClippedAxis(slice(0, 1), 1, 1, 2)
    assert ClippedAxis.of(3, 1, 1, 0, 4, 0).taps == slice(0, 3)


def test_elements_that_count():
    numbers = random.Random(4)
    for _ in range(2000):
        kernel, stride, dilation = numbers.randint(1, 7), numbers.randint(1, 4), numbers.randint(1, 4)
        before, after, size, results = (
            numbers.randint(0, 9),
            numbers.randint(0, 9),
            numbers.randint(0, 8),
            numbers.randint(1, 7),
        )
        for padded in (False, True):
            pooling = Pooling2d(
                function=PoolingFunction.AVERAGE,
                size=(kernel, 1),
                stride=(stride, 1),
                dilation=(dilation, 1),
                padding=(before, 0, after, 0),
                count_padding=padded,
            )
            at = [[y * stride - before + tap * dilation for tap in range(kernel)] for y in range(results)]
            low, high = (-before, size + after) if padded else (0, size)
            expected = [sum(low <= position < high for position in window) for window in at]
            assert elements_that_count(pooling, 0, size, results).tolist() == expected


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("kind", ["convolution", "depthwise", "few channels"])
def test_filters_are_cut_as_windows_are(convolved, kind, layout):
    numbers = np.random.default_rng(5)
    channels = {"convolution": 20, "depthwise": 20, "few channels": 2}[kind]
    for kernel, padding, dilation, size in (
        ((9, 7), (7, 5), 1, (2, 3)),
        ((5, 5), (8, 4), 2, (3, 1)),
        ((3, 3), (1, 1), 1, (1, 1)),
    ):
        x = numbers.standard_normal((2, channels, *size)).astype(np.float32)
        groups = channels if kind == "depthwise" else 1
        weights = numbers.standard_normal((channels, channels // groups, *kernel)).astype(np.float32)
        bias = numbers.standard_normal(channels).astype(np.float32)
        expected = convolved(x, weights, bias, (1, 1), (*padding, *padding), (dilation, dilation), groups)
        net = Network()
        last = layout == "NHWC"
        order = (0, 2, 3, 1) if last else (0, 1, 2, 3)
        given = np.ascontiguousarray(x.transpose(order))
        slot = net.input("x", given.shape)
        if kind == "depthwise":
            own = weights.transpose(1, 2, 3, 0) if last else weights
            y = net.depthwise_convolution2d(slot, own, bias, padding=padding, dilation=dilation, layout=layout)
        else:
            y = net.convolution2d(slot, weights.transpose(order), bias, padding=padding, dilation=dilation, layout=layout)
        net.output(y, "y")
        with dovetail.load(net, ["CpuAcc"], fallback=False) as loaded:
            found = loaded.run({"x": given})["y"]
        np.testing.assert_allclose(found, expected.transpose(order), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("channels", [2, 20, 64])
def test_result_as_large_as_the_image_whose_windows_lie_beside_it(precision, channels):
    """What is left is a window of one tap, which is not the pixel under it."""
    if precision == "bfloat16" and not any(precision in precisions(isa) for isa, here in instruction_sets().items() if here):
        pytest.skip("no instruction set of this machine multiplies bfloat16")
    numbers = np.random.default_rng(6)
    quantization = Quantization.per_tensor(0.05, -3)
    net = Network()
    if precision == "int8":
        x = net.input("x", (1, channels, 1, 1), "int8", quantization)
        stored = numbers.integers(-100, 100, (24, channels, 4, 3)).astype(np.int8)
        weights = net.constant(stored, quantization=Quantization.per_tensor(0.01))
        bias = net.constant(numbers.integers(-9000, 9000, 24).astype(np.int32))
        feed = numbers.integers(-128, 128, (1, channels, 1, 1)).astype(np.int8)
    else:
        x = net.input("x", (1, channels, 1, 1))
        weights = net.constant(numbers.standard_normal((24, channels, 4, 3)).astype(np.float32))
        bias = net.constant(numbers.standard_normal(24).astype(np.float32))
        feed = numbers.standard_normal((1, channels, 1, 1)).astype(np.float32)
    convolution = Convolution2d(stride=(4, 4), padding=(4, 2, 2, 2))
    kept = quantization if precision == "int8" else None
    net.output(net.add(convolution, x, weights, bias, quantization=kept).output, "y")
    options = {"CpuAcc": {"precision": precision}} if precision == "bfloat16" else {}
    results = []
    for backend in ("CpuRef", "CpuAcc"):
        with dovetail.load(net, [backend], options=options if backend == "CpuAcc" else {}) as loaded:
            results.append(loaded.run({"x": feed})["y"])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6, atol=1 if precision == "int8" else 0)
