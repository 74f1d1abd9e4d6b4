"""Check products of int16 and bytes against integers of any size: every bit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dovetail
from dovetail import DataLayout, DType, Network, Quantization
from dovetail.layers import ActivationFunction, Convolution2d, DepthwiseConvolution2d, FullyConnected, TransposeConvolution2d
from dovetail_neon.kernels import Kernels, instruction_sets

X = Quantization.per_tensor(float(np.float32(0.0003)))
ACTIVATIONS = {
    None: {},
    "relu": {"activation": ActivationFunction.RELU},
    "clamp": {"activation": ActivationFunction.BOUNDED_RELU, "activation_alpha": 6.0, "activation_beta": -2.5},
}


def ways():
    """What multiplies on this machine: (instruction set, dot products)."""
    for name in (name for name, here in instruction_sets().items() if here):
        yield name, False
        if Kernels(name).dot_products:
            yield name, True


@pytest.fixture(params=list(ways()), ids=str)
def kernels(request):
    name, dots = request.param
    return Kernels(name, dot_products=dots)


def shorts(rng, *shape):
    """Elements of the whole range; some are the least and the greatest."""
    values = rng.integers(-32768, 32768, shape).astype(np.int16)
    return np.where(rng.random(shape) < 0.1, rng.choice(np.int16([-32768, 32767]), shape), values)


class Weights:
    """Weights [filters, taps, channels], their quantization, and a bias, or none."""

    def __init__(self, rng, filters, taps, channels, *, bias="int64", per_axis=True, zero=0, scales=None):
        self.value = rng.integers(-127, 128, (filters, taps, channels)).astype(np.int8)
        if scales is None:
            scales = rng.uniform(0.004, 0.012, filters if per_axis else 1).astype(np.float32)
        self.scales = [float(one) for one in scales]
        self.zero, self.per_axis = zero, per_axis
        terms = taps * channels
        most = int(4000 * np.sqrt(terms)) * (100 if bias == "int64" else 1)
        self.bias = None if bias is None else rng.integers(-most, most, filters).astype(bias)
        self.result = Quantization.per_tensor(float(np.float32(X.scale[0] * 0.008 * 19000 * 74 * np.sqrt(terms) / 9000)))

    def quantization(self, axis):
        return Quantization(tuple(self.scales), (self.zero,) * len(self.scales), axis=axis if self.per_axis else None)

    @property
    def wide(self):
        return self.value.astype(np.int64) - self.zero

    def factors(self, of_y):
        """Of each filter, as Python's floats."""
        scales = self.scales if self.per_axis else self.scales * len(self.value)
        return [X.scale[0] * one / of_y.scale[0] for one in scales]


def fixed(factor):
    """TensorFlow Lite's QuantizeMultiplier: 31 bits and a shift."""
    fraction, shift = np.frexp(factor)
    multiplier = int(np.floor(fraction * 2**31 + 0.5))
    if multiplier == 1 << 31:
        multiplier, shift = multiplier >> 1, shift + 1
    return (0, 0) if shift < -31 else (multiplier, int(shift))


def of_wide(total, factor):
    """MultiplyByQuantizedMultiplier of 64 bits: a multiplier of 15 bits, halves up."""
    multiplier, shift = fixed(factor)
    multiplier = (multiplier + (1 << 15)) >> 16 if multiplier < 0x7FFF0000 else 0x7FFF
    return (total * multiplier + (1 << 14 - shift)) >> 15 - shift


def of_narrow(total, factor):
    """The same of 32 bits: SaturatingRoundingDoublingHighMul, then RoundingDivideByPOT."""
    multiplier, shift = fixed(factor)
    total = (((total << max(shift, 0)) + (1 << 31)) % (1 << 32)) - (1 << 31)
    product = total * multiplier
    high = abs(product) + (1 << 30 if product >= 0 else (1 << 30) - 1) >> 31
    high = high if product >= 0 else -high
    right = max(-shift, 0)
    mask = (1 << right) - 1
    return (high >> right) + ((high & mask) > (mask >> 1) + (high < 0))


def of_real(total, factor):
    """Fully connected layers: a double, halves away from zero."""
    value = float(total) * factor
    whole = int(np.trunc(value))
    return whole + int(np.sign(value)) * (abs(value - whole) >= 0.5)


def finished(sums, weights, of_y, how, activation=None):
    """Results of sums [..., filters]."""
    low, high = -32768, 32767
    if activation == "relu":
        low = 0
    elif activation == "clamp":
        low = max(low, int(np.trunc(-2.5 / of_y.scale[0] - 0.5)))
        high = min(high, int(np.floor(6.0 / of_y.scale[0] + 0.5)))
    found = np.empty(sums.shape, np.int64)
    for at in np.ndindex(*sums.shape):
        total = int(sums[at]) + (0 if weights.bias is None else int(weights.bias[at[-1]]))
        found[at] = max(low, min(high, int(how(total, weights.factors(of_y)[at[-1]]))))
    return found.astype(np.int16)


def windows(x, kernel, stride, padding, dilation):
    """Return [N, height, width, taps, C] of images; padding is (top, left, bottom, right)."""
    padded = np.pad(x.astype(np.int64), ((0, 0), (padding[0], padding[2]), (padding[1], padding[3]), (0, 0)))
    sizes = [(padded.shape[1 + i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(2)]
    taps = [
        padded[:, y * dilation[0] :, z * dilation[1] :][:, :: stride[0], :: stride[1]][:, : sizes[0], : sizes[1]]
        for y, z in itertools.product(*map(range, kernel))
    ]
    return np.stack(taps, axis=3)


def sums_of(x, weights, kernel, stride, padding, dilation, groups):
    read = windows(x, kernel, stride, padding, dilation)
    read = read.reshape(*read.shape[:4], groups, -1)
    by_group = weights.reshape(groups, -1, *weights.shape[1:])
    return np.einsum("nhwtgc,gftc->nhwgf", read, by_group).reshape(*read.shape[:3], -1)


CASES = [
    # channels, filters, height, width, kernel, stride, padding, dilation, groups
    (17, 33, 7, 5, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    (32, 70, 5, 7, (1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 1),
    (100, 50, 7, 9, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 1),
    (24, 40, 10, 9, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    (19, 16, 11, 6, (3, 3), (2, 1), (0, 2, 1, 0), (2, 2), 1),
    (40, 130, 2, 3, (3, 2), (1, 1), (2, 1, 2, 1), (1, 1), 1),
    (65, 31, 9, 13, (5, 3), (3, 2), (2, 1, 2, 1), (1, 1), 1),
    (16, 16, 3, 2, (3, 3), (1, 1), (4, 5, 6, 7), (1, 1), 1),
    (36, 54, 6, 7, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 3),
    (3, 24, 9, 8, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 1),
    (4, 17, 9, 23, (2, 11), (3, 1), (0, 5, 1, 2), (1, 1), 1),
    (16, 24, 9, 8, (3, 3), (1, 1), (20, 20, 20, 20), (20, 20), 1),
    (10, 30, 6, 9, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 5),
    (8, 24, 5, 6, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 8),
    (300, 20, 9, 1, (3, 1), (1, 1), (1, 0, 1, 0), (1, 1), 1),
]


@pytest.mark.parametrize(("bias", "per_axis", "zero"), [("int64", True, 0), ("int32", False, 0), (None, True, -9)])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution(run_layer, case, bias, per_axis, zero):
    channels, filters, height, width, kernel, stride, padding, dilation, groups = case
    rng = np.random.default_rng(channels + filters)
    weights = Weights(rng, filters, kernel[0] * kernel[1], channels // groups, bias=bias, per_axis=per_axis, zero=zero)
    x, activation = shorts(rng, 2, height, width, channels), (None, "relu", "clamp")[channels % 3]
    descriptor = Convolution2d(
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        layout=DataLayout.NHWC,
        **ACTIVATIONS[activation],
    )
    [found] = run_layer(build_of(descriptor, weights, (filters, *kernel, channels // groups), 0), x)
    sums = sums_of(x, weights.wide, kernel, stride, padding, dilation, groups)
    how = of_narrow if bias == "int32" else of_wide
    np.testing.assert_array_equal(found, finished(sums, weights, weights.result, how, activation))


def build_of(descriptor, weights, shape, axis, of_y=None, value=None):
    def build(net, slot):
        slot.quantization, slot.info = X, slot.known_info.with_quantization(X)
        stored = weights.value.reshape(shape) if value is None else value
        bias = None if weights.bias is None else net.constant(weights.bias)
        constant = net.constant(np.ascontiguousarray(stored), quantization=weights.quantization(axis))
        return net.add(descriptor, slot, constant, bias, quantization=weights.result if of_y is None else of_y).output

    return build


WINDOWS = [
    # channels, height, width, kernel, stride, padding, dilation
    (16, 9, 11, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    (40, 10, 13, (3, 3), (2, 2), (0, 0, 1, 1), (1, 1)),
    (7, 8, 8, (5, 5), (1, 1), (2, 2, 2, 2), (1, 1)),
    (33, 9, 9, (3, 2), (1, 3), (2, 1, 0, 3), (2, 3)),
    (3, 6, 40, (1, 9), (1, 1), (0, 4, 0, 4), (1, 1)),
    (18, 5, 1, (7, 1), (1, 1), (3, 0, 3, 0), (1, 1)),
    (96, 4, 5, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    (144, 6, 6, (5, 5), (2, 2), (2, 2, 2, 2), (1, 1)),
    (2, 3, 3000, (1, 3), (1, 1), (0, 1, 0, 1), (1, 1)),
    (5, 20, 21, (16, 16), (1, 1), (0, 0, 0, 0), (1, 1)),
    (4, 20, 21, (17, 17), (1, 1), (1, 1, 1, 1), (1, 1)),
    (64, 9, 8, (3, 3), (1, 1), (20, 20, 20, 20), (20, 20)),
]


@pytest.mark.parametrize(("bias", "per_axis", "zero"), [("int64", True, 0), ("int32", False, 0), (None, True, -9)])
@pytest.mark.parametrize("case", WINDOWS, ids=str)
def test_depthwise(run_layer, case, bias, per_axis, zero):
    channels, height, width, kernel, stride, padding, dilation = case
    rng = np.random.default_rng(channels + width)
    weights = Weights(rng, channels, kernel[0] * kernel[1], 1, bias=bias, per_axis=per_axis, zero=zero)
    x, activation = shorts(rng, 2, height, width, channels), (None, "relu", "clamp")[channels % 3]
    descriptor = DepthwiseConvolution2d(
        stride=stride, padding=padding, dilation=dilation, layout=DataLayout.NHWC, **ACTIVATIONS[activation]
    )
    value = weights.value[:, :, 0].T.reshape(1, *kernel, channels)
    [found] = run_layer(build_of(descriptor, weights, None, 3, value=value), x)
    sums = sums_of(x, weights.wide, kernel, stride, padding, dilation, channels)
    how = of_narrow if bias == "int32" else of_wide
    np.testing.assert_array_equal(found, finished(sums, weights, weights.result, how, activation))


@pytest.mark.parametrize("bias", ["int64", "int32", None])
@pytest.mark.parametrize("shape", [(1, 9), (1, 320), (3, 64), (2, 7, 50), (40, 31)], ids=str)
@pytest.mark.parametrize("filters", [1, 12, 100])
def test_fully_connected(run_layer, shape, filters, bias):
    rng = np.random.default_rng(filters)
    weights = Weights(rng, filters, 1, shape[-1], bias=bias, per_axis=filters != 12)
    x = shorts(rng, *shape)
    [found] = run_layer(build_of(FullyConnected(), weights, (filters, shape[-1]), 0), x)
    sums = x.astype(np.int64) @ weights.wide[:, 0].T
    np.testing.assert_array_equal(found, finished(sums, weights, weights.result, of_real))


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**-20, 2.0**-9, 1.0, 2.0**12])
@pytest.mark.parametrize("kind", [FullyConnected, Convolution2d])
def test_ties_and_factors_of_any_size(run_layer, kind, scale):
    """Powers of two make many sums fall on ties; results saturate, and vanish."""
    rng = np.random.default_rng(5)
    scales = np.ldexp(1.0, rng.integers(-18, 2, 40))
    weights = Weights(rng, 40, 1, 3, bias="int64", scales=scales)
    weights.bias, weights.value[:] = rng.integers(-9, 9, 40), rng.integers(-2, 3, weights.value.shape)
    of_y = Quantization.per_tensor(X.scale[0] * scale)
    x = shorts(rng, 1, 6, 5, 3)
    connected = kind is FullyConnected
    descriptor = kind() if connected else kind(layout=DataLayout.NHWC)
    [found] = run_layer(build_of(descriptor, weights, (40, 3) if connected else (40, 1, 1, 3), 0, of_y), x)
    sums = x.astype(np.int64) @ weights.wide[:, 0].T

    def wide(total, factor):
        return of_wide(total, factor) if fixed(factor)[1] < 15 else np.sign(total) * 2**31

    np.testing.assert_array_equal(found, finished(sums, weights, of_y, of_real if connected else wide))


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("depth", [16384, 65540, 131100])
def test_sums_beyond_32_bits(run_layer, depth, sign):
    """The greatest products that there are, as many as only 64 bits hold."""
    rng = np.random.default_rng(depth)
    x = np.full((2, depth), -32768, np.int16)
    x[1, ::3] = 32767
    weights = Weights(rng, 18, 1, depth, bias="int64")
    weights.value[:] = 127 * sign
    weights.value[1, 0, ::7] = 5
    of_y = Quantization.per_tensor(X.scale[0] * 0.008 * depth * 200)
    for descriptor, shape, how in (
        (FullyConnected(), (18, depth), of_real),
        (Convolution2d(layout=DataLayout.NHWC), (18, 1, 1, depth), of_wide),
    ):
        connected = isinstance(descriptor, FullyConnected)
        [found] = run_layer(build_of(descriptor, weights, shape, 0, of_y), x if connected else x[:, None, None])
        sums = x.astype(np.int64) @ weights.wide[:, 0].T
        assert np.abs(sums).max() > 2**31
        wanted = finished(sums, weights, of_y, how)
        assert np.ptp(wanted) > 1000
        np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def test_a_bias_of_any_size(run_layer):
    rng = np.random.default_rng(3)
    weights = Weights(rng, 20, 9, 8)
    weights.bias = rng.integers(-(2**61), 2**61, 20)
    weights.bias[:4] = 0
    of_y = Quantization.per_tensor(2.0**20)
    x = shorts(rng, 1, 5, 5, 8)
    [found] = run_layer(build_of(Convolution2d(layout=DataLayout.NHWC), weights, (20, 3, 3, 8), 0, of_y), x)
    sums = sums_of(x, weights.wide, (3, 3), (1, 1), (0, 0, 0, 0), (1, 1), 1)

    def wraps(total, factor):  # the product has 64 bits, and the result 32
        multiplier, shift = fixed(factor)
        multiplier, right = (multiplier + (1 << 15)) >> 16, 15 - shift
        product = (total * multiplier + (1 << right - 1) + 2**63) % 2**64 - 2**63
        return ((product >> right) + 2**31) % 2**32 - 2**31

    np.testing.assert_array_equal(found, finished(sums, weights, of_y, wraps))


@pytest.mark.parametrize("bias", ["int64", "int32"])
@pytest.mark.parametrize(("stride", "padding"), [((1, 1), (0, 0, 0, 0)), ((2, 2), (1, 1, 0, 1)), ((3, 2), (0, 2, 1, 0))])
def test_transposed_convolution(run_layer, stride, padding, bias):
    rng = np.random.default_rng(stride[0])
    kernel, channels, filters = (3, 4), 9, 21
    weights = Weights(rng, filters, 12, channels, bias=bias)
    x = shorts(rng, 2, 5, 4, channels)
    descriptor = TransposeConvolution2d(stride=stride, padding=padding, layout=DataLayout.NHWC, **ACTIVATIONS["relu"])
    [found] = run_layer(build_of(descriptor, weights, (filters, *kernel, channels), 0), x)
    full = np.zeros((2, stride[0] * 4 + 3, stride[1] * 3 + 4, filters), np.int64)
    taps = weights.wide.reshape(filters, *kernel, channels)
    for y, z, ky, kx in itertools.product(range(5), range(4), range(3), range(4)):
        full[:, y * stride[0] + ky, z * stride[1] + kx] += x[:, y, z].astype(np.int64) @ taps[:, ky, kx].T
    sums = full[:, padding[0] : full.shape[1] - padding[2], padding[1] : full.shape[2] - padding[3]]
    how = of_narrow if bias == "int32" else of_wide
    np.testing.assert_array_equal(found, finished(sums, weights, weights.result, how, "relu"))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("channels", [3, 40, 128])
def test_a_network_gives_the_bits_of_the_reference(channels, threads):
    """Images are cut into rectangles, and filters into panels, by threads."""
    rng = np.random.default_rng(channels)
    net = Network()
    slot = net.input("x", (2, 37, 29, channels), DType.INT16)
    slot.quantization, slot.info = X, slot.known_info.with_quantization(X)
    first, second = Weights(rng, 70, 9, channels), Weights(rng, 70, 9, 1)
    for weights in (first, second):
        weights.result = X
        weights.scales = [one * float(np.sqrt(9 / weights.value[0].size) / 4) for one in weights.scales]
    more = {"padding": (1, 1, 1, 1), "layout": DataLayout.NHWC}
    y = build_of(Convolution2d(stride=(2, 1), **more), first, (70, 3, 3, channels), 0)(net, slot)
    value = second.value[:, :, 0].T.reshape(1, 3, 3, 70)
    net.output(build_of(DepthwiseConvolution2d(**more), second, None, 3, value=value)(net, y), "y")
    x = {"x": shorts(rng, 2, 37, 29, channels)}
    found = {}
    for backends in (["CpuRef"], ["CpuAcc"]):
        with dovetail.load(net, backends, threads=threads) as loaded:
            found[backends[0]] = loaded.run(x)["y"]
            assert {row.backend for row in loaded.placement.layers} == set(backends)
    assert np.ptp(found["CpuRef"].astype(np.int32)) > 10000
    np.testing.assert_array_equal(found["CpuRef"], found["CpuAcc"])
