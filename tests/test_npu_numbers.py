"""Check the numbers of the NPU template, bit for bit, and that it takes what it claims."""

import math
import re

import numpy as np
import pytest

from dovetail import DataLayout, Device, Network, Quantization, Runtime, layers
from dovetail_reference import ReferenceBackend

RELU = {"activation": "relu"}
RELU6 = {"activation": "bounded_relu", "activation_alpha": 6.0}


@pytest.fixture
def runtime():
    with Runtime(threads=1) as runtime:
        yield runtime


def scale(value, zero=0):
    return Quantization.per_tensor(value, zero)


# -- an independent reference: TensorFlow Lite's rules in exact integers ---------------------------


def away(x):
    """Round halves away from zero."""
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def halved(x, bits):
    """Divide integers by 2^bits, rounded to nearest, ties away from zero."""
    return np.sign(x) * ((np.abs(x) + ((1 << bits) >> 1)) >> bits)


def fixed_point(x, factor):
    """Multiply int64 by a factor as MultiplyByQuantizedMultiplier does.

    It rounds after 31 bits, then after the shift.
    """
    fraction, exponent = math.frexp(factor)
    multiplier = math.floor(fraction * 2**31 + 0.5)
    if multiplier == 2**31:
        multiplier, exponent = 2**30, exponent + 1
    product = (x << max(exponent, 0)) * multiplier
    # Of the halves only those below zero differ from `halved`: gemmlowp truncates what it nudged.
    nudged = product + np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    high = np.sign(nudged) * (np.abs(nudged) >> 31)
    return halved(high, max(-exponent, 0))


def clamp(y, descriptor, info):
    low, high = -128, 127
    zero = info.zero_point[0]
    if descriptor.activation == "relu":
        low = max(low, zero)
    if descriptor.activation == "bounded_relu":
        low = max(low, zero + int(away(np.float32(descriptor.activation_beta / info.scale[0]))))
        high = min(high, zero + int(away(np.float32(descriptor.activation_alpha / info.scale[0]))))
    return np.clip(y, low, high).astype(np.int8)


def windows(x, kernel, stride, padding, fill):
    """[y, x, channel, tap y, tap x] of an image [1, H, W, C]."""
    top, left, bottom, right = padding
    padded = np.pad(x[0].astype(np.int64), ((top, bottom), (left, right), (0, 0)), constant_values=fill)
    return np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(0, 1))[:: stride[0], :: stride[1]]


def expected(layer, *arrays):
    """What a layer must answer, by its descriptor and infos."""
    d = layer.descriptor
    q = [info and info.quantization for info in layer.input_infos]
    out = layer.output.known_info.quantization
    x = arrays[0].astype(np.int64)
    if isinstance(d, layers.ElementwiseBinary):
        a, b, y = (np.float32(one.scale[0]) for one in (*q, out))
        widest = 2.0 * max(float(a), float(b))
        parts = [
            fixed_point((array.astype(np.int64) - one.zero_point[0]) << 20, float(np.float32(one.scale[0])) / widest)
            for array, one in zip(arrays, q, strict=True)
        ]
        total = fixed_point(parts[0] + parts[1], widest / (2.0**20 * float(y)))
        return clamp(total + out.zero_point[0], d, out)
    if isinstance(d, layers.GlobalPooling | layers.Pooling2d):
        pooling = isinstance(d, layers.Pooling2d)
        kernel, stride = (d.size, d.stride) if pooling else (x.shape[1:3], (1, 1))
        padding = d.padding if pooling else (0, 0, 0, 0)
        if d.function == "max":
            return windows(x, kernel, stride, padding, -128).max(axis=(3, 4))[None].astype(np.int8)
        count = windows(np.ones_like(x), kernel, stride, padding, 0).sum(axis=(3, 4))
        return away(windows(x, kernel, stride, padding, 0).sum(axis=(3, 4)) / count)[None].astype(np.int8)
    w = layer.constant(1).astype(np.int64)
    bias = 0 if layer.constant(2) is None else layer.constant(2).astype(np.int64)
    factors = [q[0].scale[0] * one / out.scale[0] for one in q[1].scale] * (
        w.shape[0 if w.ndim == 2 else -1] if len(q[1].scale) == 1 else 1
    )
    real = x - q[0].zero_point[0]
    if isinstance(d, layers.FullyConnected):
        return clamp(
            away((real @ (w - q[1].zero_point[0]).T + bias) * np.array(factors[: w.shape[0]])) + out.zero_point[0], d, out
        )
    seen = windows(real, w.shape[1:3], d.stride, d.padding, 0)
    zeros = np.array(q[1].zero_point)
    if isinstance(d, layers.Convolution2d):
        sums = np.einsum("yxcij,oijc->yxo", seen, w - zeros.reshape(-1, 1, 1, 1)) + bias
    else:
        many = w.shape[3] // x.shape[3]
        sums = np.einsum("yxcij,ijc->yxc", np.repeat(seen, many, axis=2), (w - zeros)[0]) + bias
    factors = factors[:1] * sums.shape[2] if len(q[1].scale) == 1 else factors
    scaled = np.stack([fixed_point(sums[..., o], factors[o]) for o in range(sums.shape[2])], axis=-1)
    return clamp(scaled + out.zero_point[0], d, out)[None]


# -- layers at random ------------------------------------------------------------------------------


class Maker:
    """Makes layers and networks from a seed."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def scheme(self):
        return scale(self.rng.uniform(0.005, 0.1), int(self.rng.integers(-128, 128)))

    def image(self, net, name, shape):
        return net.input(name, shape, "int8", self.scheme())

    def weights(self, net, shape, axis, per_axis=None):
        count = shape[axis]
        if self.rng.random() < 0.75 if per_axis is None else per_axis:
            scheme = Quantization.per_axis(self.rng.uniform(0.001, 0.02, count), axis=axis)
        else:
            scheme = scale(self.rng.uniform(0.001, 0.02), int(self.rng.integers(-3, 4)))
        return net.constant(self.rng.integers(-127, 128, shape, np.int8), quantization=scheme)

    def bias(self, net, count):
        return net.constant(self.rng.integers(-2000, 2000, count, np.int32)) if self.rng.random() < 0.75 else None

    def window(self):
        kernel = tuple(int(k) for k in self.rng.integers(1, 8, 2))
        padding = tuple(int(self.rng.integers(0, min(k, 4))) for k in (*kernel, *kernel))
        return kernel, {"stride": tuple(int(s) for s in self.rng.integers(1, 3, 2)), "padding": padding}

    def convolution(self, net):
        (kernel, window), channels, filters = self.window(), self.pick(1, 3, 4, 8, 24), self.pick(8, 16)
        x = self.image(net, "x", (1, int(self.rng.integers(7, 12)), int(self.rng.integers(7, 12)), channels))
        descriptor = layers.Convolution2d(layout=DataLayout.NHWC, **window, **self.pick({}, RELU, RELU6))
        return net.add(
            descriptor,
            x,
            self.weights(net, (filters, *kernel, channels), 0),
            self.bias(net, filters),
            quantization=self.scheme(),
        )

    def depthwise(self, net):
        (kernel, window), channels, many = self.window(), self.pick(8, 16), self.pick(1, 1, 2, 3)
        x = self.image(net, "x", (1, int(self.rng.integers(7, 12)), int(self.rng.integers(7, 12)), channels))
        descriptor = layers.DepthwiseConvolution2d(layout=DataLayout.NHWC, **window, **self.pick({}, RELU, RELU6))
        weights = self.weights(net, (1, *kernel, channels * many), 3)
        return net.add(descriptor, x, weights, self.bias(net, channels * many), quantization=self.scheme())

    def connected(self, net):
        depth, units = self.pick(16, 48, 160), int(self.rng.integers(1, 12))
        x = self.image(net, "x", (1, depth))
        descriptor = layers.FullyConnected(**self.pick({}, RELU, RELU6))
        return net.add(descriptor, x, self.weights(net, (units, depth), 0), self.bias(net, units), quantization=self.scheme())

    def pooling(self, net):
        kernel, window = self.window()
        x = self.image(net, "x", (1, int(self.rng.integers(7, 12)), int(self.rng.integers(7, 12)), self.pick(8, 16)))
        return net.add(layers.Pooling2d(function=self.pick("max", "average"), size=kernel, layout=DataLayout.NHWC, **window), x)

    def global_pooling(self, net):
        x = self.image(net, "x", (1, int(self.rng.integers(1, 17)), int(self.rng.integers(1, 17)), self.pick(8, 16)))
        return net.add(layers.GlobalPooling(function=self.pick("max", "average"), layout=DataLayout.NHWC), x)

    def addition(self, net):
        shape = (2, 3, 4, 5)[: int(self.rng.integers(0, 5))]
        other = [size if self.rng.random() < 0.7 else 1 for size in shape][int(self.rng.integers(0, len(shape) + 1)) :]
        operands = [self.image(net, "x", shape), self.image(net, "b", other)]
        descriptor = layers.ElementwiseBinary(operation="add", **self.pick({}, RELU, RELU6))
        return net.add(descriptor, *(operands if self.rng.random() < 0.5 else operands[::-1]), quantization=self.scheme())


KINDS = ("convolution", "depthwise", "connected", "pooling", "global_pooling", "addition")


@pytest.mark.parametrize("passes", [True, False], ids=["compiled", "layers"])
@pytest.mark.parametrize("kind", KINDS)
def test_numbers(npu, runtime, kind, passes):
    """Bit for bit the exact integers of TensorFlow Lite's rules, and CpuRef's."""
    for seed in range(25):
        maker, net = Maker(seed), Network(kind)
        layer = getattr(maker, kind)(net)
        net.output(layer.output, "y")
        feeds = {one.name: maker.rng.integers(-128, 128, one.output.shape, np.int8) for one in net.inputs}
        answers = [
            runtime.load(net, optimize={"backends": [backend], "passes": passes}).run(feeds)["y"]
            for backend in (npu, ReferenceBackend())
        ]
        operands = [feeds[slot.source.layer.name] for slot in layer.inputs if slot.source and slot.source.layer.name in feeds]
        for answer in answers:
            np.testing.assert_array_equal(answer, expected(layer, *operands), err_msg=f"seed {seed}: {layer.descriptor}")


# -- claims ----------------------------------------------------------------------------------------


class Careless(Maker):
    """Makes layers that break one limit or another, or none."""

    def window(self):
        kernel, window = super().window()
        match self.rng.integers(0, 12):
            case 0:
                kernel = (8, kernel[1])
            case 1:
                window["stride"] = (1, 3)
            case 2:
                window["dilation"] = (2, 1)
            case 3:
                window["padding"] = (0, 0, 8, 0)
            case 4:
                window["layout"] = DataLayout.NCHW
        return kernel, window

    def some(self, *shape):
        """Sizes, of which one may be changed."""
        at = int(self.rng.integers(0, 4 * len(shape)))
        return tuple(int(size + (at == i) * self.pick(1, 8, -1)) for i, size in enumerate(shape))

    def slot(self, net, shape):
        dtype = self.pick("int8", "int8", "int8", "int8", "uint8", "float32")
        quantization = None if dtype == "float32" or self.rng.random() < 0.1 else self.scheme().__class__.per_tensor(0.05, 3)
        return net.input("x", shape, dtype, quantization)

    def layer(self, net):
        kernel, window = self.window()
        layout = window.setdefault("layout", DataLayout.NHWC)
        n, channels, filters = self.some(1, self.pick(3, 4, 8, 16), self.pick(8, 16))
        image = (n, 17, 16, channels) if layout is DataLayout.NHWC else (n, channels, 17, 16)
        activation = self.pick({}, RELU, RELU6, {"activation": "sigmoid"})
        out = {"quantization": self.pick(scale(0.1), scale(0.1), scale(0.1), None)}
        match self.rng.integers(0, 6):
            case 0:
                shape = (filters, *kernel, channels) if layout is DataLayout.NHWC else (filters, channels, *kernel)
                return net.add(
                    layers.Convolution2d(**window, **activation), self.slot(net, image), self.operand(net, shape, 0), **out
                )
            case 1:
                shape, axis = ((1, *kernel, channels), 3) if layout is DataLayout.NHWC else ((channels, 1, *kernel), 0)
                descriptor = layers.DepthwiseConvolution2d(**window, **activation)
                return net.add(descriptor, self.slot(net, image), self.operand(net, shape, axis), **out)
            case 2:
                rows, depth = self.some(1, self.pick(16, 32))
                x = self.slot(net, self.pick((rows, depth), (rows, depth), (rows, 1, depth)))
                return net.add(layers.FullyConnected(**activation), x, self.operand(net, (filters, depth), 0), **out)
            case 3:
                flags = {"ceil_mode": self.rng.random() < 0.1, "count_padding": self.rng.random() < 0.1}
                window["padding"] = tuple(min(p, k - 1) for p, k in zip(window["padding"], (*kernel, *kernel), strict=True))
                function = self.pick("max", "average", "average", "lp")
                return net.add(layers.Pooling2d(function=function, size=kernel, **window, **flags), self.slot(net, image))
            case 4:
                size = self.some(16, 16)
                shape = (n, *size, channels) if layout is DataLayout.NHWC else (n, channels, *size)
                return net.add(layers.GlobalPooling(function=self.pick("max", "average"), layout=layout), self.slot(net, shape))
        shape = self.pick((4,), (2, 3), (1, 2, 3, 4), (1, 1, 2, 3, 4))
        x = self.slot(net, shape)
        other = (
            x
            if self.rng.random() < 0.8
            else net.constant(np.zeros(shape, x.dtype.numpy), quantization=x.known_info.quantization)
        )
        return net.add(layers.ElementwiseBinary(operation=self.pick("add", "add", "mul"), **activation), x, other, **out)

    def operand(self, net, shape, axis):
        dtype = net.layers[0].output.dtype
        if dtype.is_float:
            return net.constant(np.zeros(shape, np.float32))
        match self.rng.integers(0, 10):
            case 0:
                return net.input("w", shape, "int8", scale(0.01))
            case 1:
                return net.constant(np.zeros(shape, np.int8))
            case 2:
                return net.constant(np.zeros(shape, np.uint8), quantization=scale(0.01))
        return self.weights(net, shape, axis)


def test_what_is_claimed_is_compiled_and_the_rest_refused_in_words(npu, runtime):
    answers = {True: 0, False: 0}
    codes = set()
    for seed in range(1500):
        network = Network("one")
        layer = Careless(seed).layer(network)
        found = npu.supports(layer, npu.options_type(), npu.devices()[0])
        answers[found.supported] += 1
        if found.supported:
            if answers[True] <= 150:
                network.output(layer.output, "y")
                runtime.load(network, optimize={"backends": [npu], "passes": False}).unload()
        else:
            assert re.search(r" is .*; .* is taken|is not taken; .* (is|are)$", found.reason), found
            codes.add(found.code)
    assert min(answers.values()) > 150, answers
    assert codes == {"dtype", "attribute", "shape", "quantization", "constant"}


def test_what_no_backend_can_take_is_refused(npu):
    net = Network("wrong")
    x = net.input("x", (1, 8, 8, 8), "int8", scale(0.1))
    along_inputs = net.constant(np.ones((8, 1, 1, 8), np.int8), quantization=Quantization.per_axis([0.1] * 8, axis=3))
    convolution = net.add(layers.Convolution2d(layout=DataLayout.NHWC), x, along_inputs, quantization=scale(0.1))
    pooling = net.add(layers.Pooling2d(function="max", size=(2, 2), layout=DataLayout.NHWC), x, quantization=scale(0.2))
    for layer, subject in ((convolution, "weights"), (pooling, "output")):
        refused = npu.supports(layer, npu.options_type(), npu.devices()[0])
        assert (refused.code, refused.attribute) == ("quantization", subject)
        assert not ReferenceBackend().supports(layer, None, Device()).supported
