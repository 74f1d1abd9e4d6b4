"""Check quantized layers against NumPy: exact sums, results off by one next to a tie alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dovetail
from dovetail import DataLayout, DType, Network, Quantization, layers
from dovetail_neon.backend import CpuAccOptions
from dovetail_neon.backend import _kernels as kernels_of
from dovetail_neon.kernels import Kernels, instruction_sets

from .quantized_arrays import from_layout, in_layout, whole

NCHW, NHWC = DataLayout.NCHW, DataLayout.NHWC
HERE = [name for name, here in instruction_sets().items() if here]
WITH_DOTS = [name for name in HERE if Kernels(name).dot_products]
ACTIVATIONS = {
    "none": {},
    "relu": {"activation": layers.ActivationFunction.RELU},
    "relu6": {"activation": layers.ActivationFunction.BOUNDED_RELU, "activation_alpha": 6.0, "activation_beta": 0.0},
}


def ways():
    """What multiplies bytes on this machine: (instruction set, dot products, matrix unit)."""
    for name in HERE:
        yield name, False, False
        if name in WITH_DOTS:
            yield name, True, False
        if Kernels(name).matrix_unit:
            yield name, True, True


@pytest.fixture(params=list(ways()), ids=str)
def kernels(request):
    """The kernels of each instruction set of this machine, with byte dot products and without."""
    name, dots, matrix = request.param
    return Kernels(name, dot_products=dots, matrix_unit=matrix)


def close(found, exact, dtype, quantization, activation="none"):
    """Rounded to nearest and clamped; within a thousandth of a tie either neighbour will do."""
    scale, zero = quantization.scale[0], quantization.zero_point[0]
    low, high = np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max
    if activation != "none":
        low = max(low, zero)
    if activation == "relu6":
        high = min(high, zero + int(np.floor(6.0 / scale + 0.5)))
    wanted = np.clip(exact / scale + zero, low, high)
    assert found.dtype == dtype.numpy
    assert found.shape == wanted.shape
    off = np.abs(found.astype(np.float64) - wanted)
    assert off.max(initial=0.0) <= 0.501, f"{off.max()} at {np.unravel_index(off.argmax(), off.shape)}"


def same(found, sums, factors, quantization):
    """Bit for bit anywhere, unclamped: sum times factor in float32, rounded to nearest even."""
    product = (sums.astype(np.float32) * factors.astype(np.float32)).astype(np.float64)
    info = np.iinfo(found.dtype)
    np.testing.assert_array_equal(found, np.clip(np.rint(product + quantization.zero_point[0]), info.min, info.max))


def of_images(dtype):
    return Quantization.per_tensor(0.05, -3 if dtype is DType.INT8 else 120)


class Weights:
    """Weights, their quantization and a bias for so many filters; results spread over the range."""

    def __init__(self, rng, how, shape, axis, filters, terms):
        zero = {"int8": 0, "int8 per axis": 0, "uint8": 131, "int8 with zeros": -5}[how]
        dtype = DType.UINT8 if how == "uint8" else DType.INT8
        self.value = whole(rng, dtype, *shape)
        scales = rng.uniform(0.008, 0.02, filters) if how == "int8 per axis" else [0.013]
        scales = [float(np.float32(scale)) for scale in scales]
        per_axis = len(scales) == filters and how == "int8 per axis"
        self.quantization = Quantization(tuple(scales), (zero,) * len(scales), axis=axis if per_axis else None)
        self.bias = rng.integers(-3000, 3000, filters).astype(np.int32)
        self.scales = np.broadcast_to(np.asarray(scales), filters)
        self.real = self.value.astype(np.float64) - zero
        self.result = 0.05 * 0.013 * np.sqrt(terms) * 75**2 / 40

    def of_result(self, dtype):
        return Quantization.per_tensor(float(np.float32(self.result)), -7 if dtype is DType.INT8 else 100)


CASES = [
    # channels, filters, height, width, kernel, stride, padding, dilation, groups
    (17, 33, 7, 5, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    (32, 70, 13, 15, (1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 1),
    (100, 50, 21, 19, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 1),
    (64, 128, 9, 10, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    (24, 40, 10, 9, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    (19, 16, 11, 6, (3, 3), (2, 1), (0, 2, 1, 0), (2, 2), 1),
    (40, 130, 2, 3, (3, 2), (1, 1), (2, 1, 2, 1), (1, 1), 1),
    (65, 31, 9, 23, (5, 3), (3, 2), (2, 1, 2, 1), (1, 1), 1),
    (16, 16, 3, 2, (3, 3), (1, 1), (4, 5, 6, 7), (1, 1), 1),
    (64, 64, 6, 6, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 2),
    (36, 54, 6, 7, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 3),
    (35, 47, 1, 1, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    (3, 24, 19, 18, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 1),
    (4, 17, 9, 33, (2, 11), (3, 1), (0, 5, 1, 2), (1, 1), 1),
    (3, 64, 37, 41, (7, 7), (2, 2), (3, 3, 3, 3), (1, 1), 1),
    (2, 20, 9, 30, (2, 18), (1, 1), (1, 9, 0, 8), (2, 1), 1),
    (1, 3, 12, 12, (4, 3), (1, 3), (0, 0, 0, 0), (1, 1), 1),
    (5, 2, 5, 5, (3, 2), (5, 4), (6, 7, 0, 1), (1, 1), 1),
    # Rows of 1 to 7 results, which tiles take in pairs, of an odd number; one column is one row.
    (16, 32, 29, 1, (5, 1), (1, 1), (2, 0, 2, 0), (1, 1), 1),
    (12, 33, 31, 4, (3, 4), (1, 1), (1, 0, 1, 0), (1, 1), 1),
    (16, 65, 7, 7, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    (1, 64, 49, 10, (10, 4), (2, 2), (4, 1, 5, 1), (1, 1), 1),
    (32, 48, 15, 3, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    # Images that take more than one frame, cut by rows and by columns.
    (16, 16, 40, 500, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    (16, 16, 1, 20_000, (1, 5), (1, 1), (0, 2, 0, 2), (1, 1), 1),
    # One pixel of two, and rows that end before the image does.
    (32, 32, 1, 2, (1, 1), (1, 2), (0, 0, 0, 0), (1, 1), 1),
    (32, 20, 5, 3, (1, 1), (5, 1), (0, 0, 0, 0), (1, 1), 1),
    # Taps so far apart that no two windows read the same, on either axis, and near the border.
    (16, 24, 9, 8, (3, 3), (1, 1), (20, 20, 20, 20), (20, 20), 1),
    (20, 16, 12, 3, (2, 3), (1, 2), (4, 9, 4, 9), (7, 9), 1),
    (32, 16, 1, 1, (2, 2), (50, 50), (50, 50, 50, 50), (50, 50), 1),
    # Channels of groups that begin anywhere in a pixel.
    (10, 30, 6, 9, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 5),
]


@pytest.mark.parametrize("layout", [NCHW, NHWC])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("how", ["int8 per axis", "uint8", "int8 with zeros"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution(run_layer, convolved, case, how, dtype, layout):
    channels, filters, height, width, kernel, stride, padding, dilation, groups = case
    rng = np.random.default_rng(channels + filters)
    shape = (filters, channels // groups, *kernel)
    weights = Weights(rng, how, shape, 0, filters, channels // groups * kernel[0] * kernel[1])
    x, of_x, of_y = whole(rng, dtype, 2, channels, height, width), of_images(dtype), weights.of_result(dtype)
    activation = ("none", "relu", "relu6")[channels % 3]
    descriptor = layers.Convolution2d(
        stride=stride, padding=padding, dilation=dilation, groups=groups, layout=layout, **ACTIVATIONS[activation]
    )

    def build(net, slot):
        slot.quantization, slot.info = of_x, slot.known_info.with_quantization(of_x)
        stored = net.constant(in_layout(weights.value, layout), quantization=weights.quantization)
        return net.add(descriptor, slot, stored, net.constant(weights.bias), quantization=of_y).output

    [found] = run_layer(build, in_layout(x, layout))
    real = x.astype(np.float64) - of_x.zero_point[0]
    sums = convolved(real, weights.real, weights.bias, stride, padding, dilation, groups)
    close(from_layout(found, layout), sums * 0.05 * weights.scales[None, :, None, None], dtype, of_y, activation)


@pytest.mark.parametrize("depthwise", [False, True])
def test_results_far_from_the_range(run_layer, convolved, depthwise):
    """Sums times factors beyond 2^22, and beyond what int32 holds, end at the bounds."""
    rng = np.random.default_rng(11)
    x, of_x, of_y = whole(rng, DType.INT8, 1, 32, 6, 9), Quantization.per_tensor(64.0), Quantization.per_tensor(2.0**-9, 7)
    value = whole(rng, DType.INT8, 32, 1 if depthwise else 32, 3, 3)
    scales = tuple(float(2.0 ** rng.integers(-30, 20)) for _ in range(32))
    of_weights = Quantization(scales, (0,) * 32, axis=0)
    kind = layers.DepthwiseConvolution2d if depthwise else layers.Convolution2d

    def build(net, slot):
        slot.quantization, slot.info = of_x, slot.known_info.with_quantization(of_x)
        stored = net.constant(value, quantization=of_weights)
        return net.add(kind(padding=(1, 1, 1, 1)), slot, stored, None, quantization=of_y).output

    [found] = run_layer(build, x)
    sums = convolved(
        x.astype(np.float64), value.astype(np.float64), np.zeros(32), (1, 1), (1, 1, 1, 1), (1, 1), 32 if depthwise else 1
    )
    close(found, sums * 64.0 * np.asarray(scales)[None, :, None, None], DType.INT8, of_y)
    assert {-128, 127} <= set(np.unique(found))


WINDOWS = [
    # channels, multiplier, height, width, kernel, stride, padding, dilation
    (16, 1, 9, 11, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    (40, 1, 10, 25, (3, 3), (2, 2), (0, 0, 1, 1), (1, 1)),
    (7, 1, 8, 8, (5, 5), (1, 1), (2, 2, 2, 2), (1, 1)),
    (33, 1, 12, 9, (3, 2), (1, 3), (2, 1, 0, 3), (2, 3)),
    (3, 1, 6, 40, (1, 9), (1, 1), (0, 4, 0, 4), (1, 1)),
    (18, 1, 5, 1, (7, 1), (1, 1), (3, 0, 3, 0), (1, 1)),
    (8, 3, 7, 7, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    (1, 8, 9, 6, (4, 3), (2, 2), (1, 1, 2, 1), (1, 1)),
    # Pixels of half a register, of one and a half, of several: with steps of 1 and of 2.
    (32, 1, 9, 13, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    (32, 1, 9, 13, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    (96, 1, 7, 5, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    (144, 1, 6, 6, (5, 5), (2, 2), (2, 2, 2, 2), (1, 1)),
    (64, 1, 25, 5, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    (2, 1, 3, 5000, (1, 3), (1, 1), (0, 1, 0, 1), (1, 1)),
    (48, 1, 70, 60, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    (32, 1, 9, 8, (3, 3), (1, 1), (20, 20, 20, 20), (20, 20)),
    (16, 1, 6, 5, (2, 3), (1, 2), (4, 9, 4, 9), (5, 9)),
]


@pytest.mark.parametrize("filters", [32, 70])
def test_a_cut_transposed_convolution_of_single_pixels(run_layer, filters):
    """Phases read part of the image as it lies, though their windows have a step of 1."""
    rng = np.random.default_rng(filters)
    x, of_x = whole(rng, DType.INT8, 2, 32, 4, 4), Quantization.per_tensor(0.05)
    weights = whole(rng, DType.INT8, 32, filters, 2, 2)
    of_y = Quantization.per_tensor(4.0)
    descriptor = layers.TransposeConvolution2d(stride=(2, 2), padding=(0, 0, 2, 2))

    def build(net, slot):
        slot.quantization, slot.info = of_x, slot.known_info.with_quantization(of_x)
        stored = net.constant(weights, quantization=Quantization.per_tensor(0.01))
        return net.add(descriptor, slot, stored, None, quantization=of_y).output

    [found] = run_layer(build, x)
    spread = np.einsum("nchw,cfyx->nfhywx", x.astype(np.float64), weights.astype(np.float64))
    close(found, spread.reshape(2, filters, 8, 8)[:, :, :6, :6] * 0.05 * 0.01, DType.INT8, of_y)


@pytest.mark.parametrize("layout", [NCHW, NHWC])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("how", ["int8 per axis", "uint8"])
@pytest.mark.parametrize("case", WINDOWS, ids=str)
def test_depthwise(run_layer, convolved, case, how, dtype, layout):
    channels, multiplier, height, width, kernel, stride, padding, dilation = case
    rng = np.random.default_rng(channels + width)
    filters = channels * multiplier
    weights = Weights(rng, how, (filters, 1, *kernel), 3 if layout is NHWC else 0, filters, kernel[0] * kernel[1])
    x, of_x, of_y = whole(rng, dtype, 2, channels, height, width), of_images(dtype), weights.of_result(dtype)
    descriptor = layers.DepthwiseConvolution2d(
        stride=stride, padding=padding, dilation=dilation, layout=layout, **ACTIVATIONS["relu"]
    )

    def build(net, slot):
        slot.quantization, slot.info = of_x, slot.known_info.with_quantization(of_x)
        value = weights.value.transpose(1, 2, 3, 0) if layout is NHWC else weights.value
        stored = net.constant(np.ascontiguousarray(value), quantization=weights.quantization)
        return net.add(descriptor, slot, stored, net.constant(weights.bias), quantization=of_y).output

    [found] = run_layer(build, in_layout(x, layout))
    real = x.astype(np.float64) - of_x.zero_point[0]
    sums = convolved(real, weights.real, weights.bias, stride, padding, dilation, channels)
    close(from_layout(found, layout), sums * 0.05 * weights.scales[None, :, None, None], dtype, of_y, "relu")


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("how", ["int8", "int8 per axis", "uint8"])
@pytest.mark.parametrize("shape", [(1, 9), (1, 320), (3, 64), (2, 7, 50)], ids=str)
@pytest.mark.parametrize("filters", [1, 12, 100])
def test_fully_connected(run_layer, shape, filters, how, dtype):
    rng = np.random.default_rng(filters)
    weights = Weights(rng, how, (filters, shape[-1]), 0, filters, shape[-1])
    x, of_x, of_y = whole(rng, dtype, *shape), of_images(dtype), weights.of_result(dtype)

    def build(net, slot):
        slot.quantization, slot.info = of_x, slot.known_info.with_quantization(of_x)
        stored = net.constant(weights.value, quantization=weights.quantization)
        return net.add(layers.FullyConnected(), slot, stored, None, quantization=of_y).output

    [found] = run_layer(build, x)
    sums = (x.astype(np.float64) - of_x.zero_point[0]) @ weights.real.T
    close(found, sums * 0.05 * weights.scales, dtype, of_y)
    same(found, sums, 0.05 * weights.scales / of_y.scale[0], of_y)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("shape", [(5,), (2, 33), (1, 3, 5, 7), (2, 16, 4, 4), (0, 3)], ids=str)
def test_addition(run_layer, shape, activation, dtype):
    rng = np.random.default_rng(len(shape))
    of_a, of_b = Quantization.per_tensor(0.05, 3), Quantization.per_tensor(0.09, 17)
    of_y = Quantization.per_tensor(0.11, 5)
    a, b = whole(rng, dtype, *shape), whole(rng, dtype, *shape)

    def build(net, left, right):
        for slot, quantization in ((left, of_a), (right, of_b)):
            slot.quantization, slot.info = quantization, slot.known_info.with_quantization(quantization)
        descriptor = layers.ElementwiseBinary(operation=layers.BinaryOperation.ADD, **ACTIVATIONS[activation])
        return net.add(descriptor, left, right, quantization=of_y).output

    [found] = run_layer(build, a, b)
    exact = 0.05 * (a.astype(np.float64) - 3) + 0.09 * (b.astype(np.float64) - 17)
    close(found, exact, dtype, of_y, activation)


POOLS = [
    {"size": (2, 2), "stride": (2, 2)},
    {"size": (3, 3), "stride": (2, 2), "padding": (1, 1, 1, 1)},
    {"size": (3, 2), "stride": (1, 2), "padding": (2, 0, 1, 1), "dilation": (1, 2)},
    {"size": (3, 3), "stride": (2, 2), "padding": (0, 0, 1, 1), "ceil_mode": True},
    {"size": (3, 3), "stride": (1, 1), "padding": (1, 1, 1, 1), "count_padding": True},
]


def pooled(
    x, zero, function, size, stride, padding=(0, 0, 0, 0), dilation=(1, 1), ceil_mode=False, count_padding=False, shape=()
):
    """By definition, element by element; x is [N, C, H, W], the mean rounds halves away from 0."""
    result = np.zeros(shape, np.int64)
    height, width = x.shape[2:]
    for y, column in np.ndindex(*shape[2:]):
        rows = [y * stride[0] - padding[0] + tap * dilation[0] for tap in range(size[0])]
        columns = [column * stride[1] - padding[1] + tap * dilation[1] for tap in range(size[1])]
        inside = [(i, j) for i in rows for j in columns if 0 <= i < height and 0 <= j < width]
        values = np.stack([x[:, :, i, j] for i, j in inside], -1).astype(np.int64)
        if function is layers.PoolingFunction.MAX:
            result[:, :, y, column] = values.max(-1)
            continue
        count = len(inside)
        if count_padding:
            count = sum(i < height + padding[2] and j < width + padding[3] for i in rows for j in columns)
        total = values.sum(-1) + (count - len(inside)) * zero
        result[:, :, y, column] = np.sign(total) * ((np.abs(total) + count // 2) // count)
    return result


@pytest.mark.parametrize("layout", [NCHW, NHWC])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("function", [layers.PoolingFunction.MAX, layers.PoolingFunction.AVERAGE])
@pytest.mark.parametrize("window", POOLS, ids=str)
@pytest.mark.parametrize("channels", [3, 16, 21, 80])
def test_pooling(run_layer, channels, window, function, dtype, layout):
    rng = np.random.default_rng(channels)
    x, of_x = whole(rng, dtype, 2, channels, 9, 8), of_images(dtype)
    descriptor = layers.Pooling2d(function=function, layout=layout, **window)

    def build(net, slot):
        slot.quantization, slot.info = of_x, slot.known_info.with_quantization(of_x)
        return net.add(descriptor, slot).output

    [found] = run_layer(build, in_layout(x, layout))
    found = from_layout(found, layout)
    np.testing.assert_array_equal(found, pooled(x, of_x.zero_point[0], function, **window, shape=found.shape))


@pytest.mark.parametrize("layout", [NCHW, NHWC])
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("window", POOLS, ids=str)
def test_the_greatest_of_plain_integers(run_layer, window, dtype, layout):
    x = whole(np.random.default_rng(5), dtype, 2, 19, 9, 8)
    descriptor = layers.Pooling2d(function=layers.PoolingFunction.MAX, layout=layout, **window)
    [found] = run_layer(lambda net, slot: net.add(descriptor, slot).output, in_layout(x, layout))
    found = from_layout(found, layout)
    np.testing.assert_array_equal(found, pooled(x, 0, layers.PoolingFunction.MAX, **window, shape=found.shape))


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("size", [(1, 1), (7, 7), (40, 33)])
def test_global_pooling(run_layer, size, dtype):
    rng = np.random.default_rng(size[0])
    x, of_x = whole(rng, dtype, 2, 20, *size), of_images(dtype)

    def build(net, slot):
        slot.quantization, slot.info = of_x, slot.known_info.with_quantization(of_x)
        return net.add(layers.GlobalPooling(function=layers.PoolingFunction.AVERAGE), slot).output

    [found] = run_layer(build, x)
    expected = pooled(x, 0, layers.PoolingFunction.AVERAGE, size, (1, 1), shape=found.shape)
    np.testing.assert_array_equal(found, expected)


# --- networks -------------------------------------------------------------------------------------


def residual(dtype, layout, channels=24, size=12):
    """A block as in MobileNet v2, and its input."""
    rng = np.random.default_rng(channels)
    net = Network("block")
    of_x, of_y = of_images(dtype), Quantization.per_tensor(0.7, 4)
    shape = (1, channels, size, size)
    x = net.input("x", shape if layout is NCHW else (1, size, size, channels), dtype, of_x)

    def stored(*shape, depthwise=False):
        value = rng.integers(-127, 128, shape).astype(np.int8)
        if depthwise and layout is NHWC:
            value = value.transpose(1, 2, 3, 0)
        elif layout is NHWC:
            value = value.transpose(0, 2, 3, 1)
        return net.constant(np.ascontiguousarray(value), quantization=Quantization.per_tensor(0.01))

    wide = net.add(
        layers.Convolution2d(layout=layout, **ACTIVATIONS["relu6"]), x, stored(96, channels, 1, 1), None, quantization=of_y
    )
    deep = net.add(
        layers.DepthwiseConvolution2d(padding=(1, 1, 1, 1), layout=layout),
        wide.output,
        stored(96, 1, 3, 3, depthwise=True),
        None,
        quantization=of_y,
    )
    narrow = net.add(layers.Convolution2d(layout=layout), deep.output, stored(channels, 96, 1, 1), None, quantization=of_y)
    added = net.add(
        layers.ElementwiseBinary(operation=layers.BinaryOperation.ADD),
        x,
        narrow.output,
        quantization=Quantization.per_tensor(0.9, -2),
    )
    net.output(net.add(layers.GlobalPooling(function=layers.PoolingFunction.AVERAGE, layout=layout), added.output).output, "y")
    return net, {"x": whole(rng, dtype, *x.known_info.sizes)}


@pytest.mark.parametrize("layout", [NCHW, NHWC])
def test_images_stay_in_bytes_between_layers(layout):
    net, feeds = residual(DType.INT8, layout)
    with dovetail.load(net, backends=["CpuAcc"], threads=1) as loaded, loaded.profiling() as profile:
        loaded.run(feeds)
    kinds = [layer.kind.removeprefix("CpuAcc.") for layer in profile.layers]
    assert kinds.count("ReorderQuantized") == 2
    assert set(kinds) == {"ReorderQuantized", "ConvolveQuantized", "DepthwiseQuantized", "AddQuantized", "PoolQuantized"}


@pytest.mark.parametrize("layout", [NCHW, NHWC])
@pytest.mark.parametrize(("channels", "size"), [(24, 12), (40, 33), (3, 5)])
def test_every_way_gives_the_same(channels, size, layout):
    """Instruction sets, dot products, threads and optimization do not show in the results."""
    net, feeds = residual(DType.INT8, layout, channels, size)
    expected = None
    products = [{"dot_products": True}, {"dot_products": False}, {"matrix_unit": False}]
    for isa, how, threads, passes in itertools.product(HERE, products, (1, 2, 3), (True, False)):
        options = {"CpuAcc": {"isa": isa, **how}}
        with dovetail.load(net, backends=["CpuAcc"], threads=threads, options=options, passes=passes) as loaded:
            found = loaded.run(feeds)["y"]
        expected = found if expected is None else expected
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("quantized", [True, False])
@pytest.mark.parametrize(("first", "second"), [(NCHW, NHWC), (NHWC, NCHW)])
def test_who_counts_axes_in_another_order_reads_another_layout(first, second, quantized):
    rng = np.random.default_rng(8)
    net = Network("orders")
    if quantized:
        x = net.input("x", (1, 64, 2, 64), DType.INT8, Quantization.per_tensor(0.1))
        value, options = rng.integers(-99, 99, (64, 64, 1, 1)).astype(np.int8), {"quantization": Quantization.per_tensor(5.0)}
        weights = net.constant(in_layout(value, first), quantization=Quantization.per_tensor(0.1))
        feed = whole(rng, DType.INT8, 1, 64, 2, 64)
    else:
        x, options = net.input("x", (1, 64, 2, 64)), {}
        weights = net.constant(in_layout(rng.standard_normal((64, 64, 1, 1)).astype(np.float32), first))
        feed = rng.standard_normal((1, 64, 2, 64)).astype(np.float32)
    convolved = net.add(layers.Convolution2d(layout=first), x, weights, None, **options)
    net.output(
        net.add(layers.Pooling2d(function=layers.PoolingFunction.MAX, size=(1, 1), layout=second), convolved.output).output, "y"
    )
    net.output(
        net.add(layers.Pooling2d(function=layers.PoolingFunction.MAX, size=(1, 1), layout=first), convolved.output).output, "z"
    )
    with dovetail.load(net, backends=["CpuAcc"], threads=1) as loaded:
        found = loaded.run({"x": feed})
    np.testing.assert_array_equal(found["y"], found["z"])


@pytest.mark.parametrize("passes", [True, False])
def test_constants_are_operands_too(passes):
    net, one = Network("constants"), Quantization.per_tensor(0.5)
    x = net.input("x", (1, 3, 2, 2), DType.INT8, one)
    value = np.arange(12, dtype=np.int8).reshape(1, 3, 2, 2)
    constant = net.constant(value, quantization=one)
    net.output(
        net.add(layers.ElementwiseBinary(operation=layers.BinaryOperation.ADD), x, constant, quantization=one).output, "sum"
    )
    net.output(net.add(layers.Pooling2d(function=layers.PoolingFunction.MAX, size=(1, 1)), constant).output, "same")
    with dovetail.load(net, backends=["CpuAcc"], threads=1, passes=passes) as loaded:
        found = loaded.run({"x": value})
    np.testing.assert_array_equal(found["sum"], value + value)
    np.testing.assert_array_equal(found["same"], value)


def test_factors_beyond_float32_saturate_and_leave_zero_alone():
    net, zero = Network("far"), 5
    of_x, of_y = Quantization.per_tensor(1e38, 3), Quantization.per_tensor(1e-5, zero)
    a, b = (net.input(name, (4,), DType.INT8, of_x) for name in "ab")
    net.output(net.add(layers.ElementwiseBinary(operation=layers.BinaryOperation.ADD), a, b, quantization=of_y).output, "sum")
    weights = net.constant(np.ones((1, 4), np.int8), quantization=Quantization.per_tensor(1e10))
    net.output(net.add(layers.FullyConnected(), a, weights, None, quantization=of_y).output, "product")
    with dovetail.load(net, backends=["CpuAcc"], threads=1) as loaded:
        found = loaded.run({"a": np.array([3, 4, 2, 3], np.int8), "b": np.array([3, 3, 3, 2], np.int8)})
    np.testing.assert_array_equal(found["sum"], np.array([zero, 127, -128, -128], np.int8))
    np.testing.assert_array_equal(found["product"], np.array([zero], np.int8))


def test_a_bound_is_rounded_as_tensorflow_lite_rounds_it():
    net, of_y = Network("bound"), Quantization.per_tensor(0.09160305559635162, -100)
    a, b = (net.input(name, (1,), DType.INT8, Quantization.per_tensor(1.0)) for name in "ab")
    descriptor = layers.ElementwiseBinary(operation=layers.BinaryOperation.ADD, **ACTIVATIONS["relu6"])
    net.output(net.add(descriptor, a, b, quantization=of_y).output, "y")
    feeds = {"a": np.array([100], np.int8), "b": np.array([100], np.int8)}
    results = []
    for backend in ("CpuAcc", "CpuRef"):
        with dovetail.load(net, backends=[backend], threads=1) as loaded:
            results.append(int(loaded.run(feeds)["y"][0]))
    assert results == [-34, -34]


def dequantized():
    """Dequantize - convolve - quantize."""
    net, scale = Network("qdq"), Quantization.per_tensor(0.1)
    x = net.dequantize(net.quantize(net.input("x", (1, 8, 5, 5)), scale), scale)
    w = net.dequantize(net.constant(np.arange(-64, 64, dtype=np.int8).reshape(16, 8, 1, 1)), scale)
    net.output(net.dequantize(net.quantize(net.convolution2d(x, w), scale), scale), "y")
    return net


def kinds_of(**options):
    with dovetail.load(dequantized(), backends=["CpuAcc"], **options) as net, net.profiling() as profile:
        net.run({"x": np.ones((1, 8, 5, 5), np.float32)})
    return {layer.kind for layer in profile.layers}


def test_integers_are_computed_with_unless_asked_otherwise():
    assert "CpuAcc.ConvolveQuantized" in kinds_of()
    assert "CpuAcc.ConvolveQuantized" not in kinds_of(integer_layers=False)


def test_the_matrix_unit_is_an_option():
    """On a machine without one both are empty."""
    assert kernels_of(CpuAccOptions(matrix_unit=False)).matrix_unit == ""
    assert kernels_of(CpuAccOptions()).matrix_unit == Kernels(HERE[0]).matrix_unit


def test_which_dot_products(kernels):
    names = {"avx512": "avx512_vnni", "avx2": "avx2_vnni", "neon": "neon_dotprod"}
    assert kernels.dot_products in ("", names.get(kernels.name))
    assert kernels.matrix_unit in ("", "amx" if kernels.dot_products == "avx512_vnni" else "")
