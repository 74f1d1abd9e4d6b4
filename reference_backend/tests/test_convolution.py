"""Convolution, depthwise, transposed convolution against `reference`."""

import ml_dtypes
import numpy as np
import pytest

from dovetail import DataLayout, Device, Quantization
from dovetail.layers import Convolution2d, DepthwiseConvolution2d, TransposeConvolution2d

DTYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]
NHWC = (0, 2, 3, 1)
NCHW = (0, 3, 1, 2)

# input [N, C, H, W], filters, kernel, stride, padding, dilation, groups
CASES = [
    ((1, 3, 8, 9), 5, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    ((2, 4, 7, 5), 6, (3, 2), (2, 1), (0, 1, 2, 3), (1, 2), 2),
    ((1, 1, 1, 1), 1, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    ((3, 5, 6, 6), 17, (1, 1), (3, 3), (0, 0, 0, 0), (1, 1), 1),  # stride greater than the kernel
    ((0, 3, 6, 6), 4, (3, 3), (1, 1), (0, 0, 0, 0), (1, 1), 1),  # empty batch
    ((1, 6, 5, 5), 6, (3, 3), (1, 1), (2, 2, 2, 2), (2, 2), 6),  # one channel a group
    ((1, 2, 3, 4), 3, (3, 4), (1, 1), (0, 0, 0, 0), (1, 1), 1),  # one output pixel
    ((1, 2, 2, 2), 3, (2, 2), (1, 1), (3, 3, 3, 3), (1, 1), 1),  # windows of padding alone
]


def arrays(shape, filters, kernel, groups, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape).astype(dtype)
    weights = rng.standard_normal((filters, shape[1] // groups, *kernel)).astype(dtype)
    return x, weights, rng.standard_normal(filters).astype(dtype)


def single(value):
    """A float32, as models hold scales."""
    return float(np.float32(value))


def exact(*values):
    return [np.asarray(v).astype(np.float64) for v in values]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution(run_layer, reference, case, dtype, layout):
    shape, filters, kernel, stride, padding, dilation, groups = case
    x, weights, bias = arrays(shape, filters, kernel, groups, dtype)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    wanted = reference.convolution(*exact(x, weights, bias), **options)
    descriptor = Convolution2d(layout=DataLayout(layout), **options)
    if layout == "NHWC":
        x, weights, wanted = x.transpose(NHWC), weights.transpose(NHWC), wanted.transpose(NHWC)
    [y] = run_layer(lambda net, *slots: net.add(descriptor, *slots), x, weights, bias)
    reference.assert_close(y, wanted)


def test_both_layouts_give_the_same_bits(run_layer):
    x, weights, bias = arrays((2, 19, 9, 7), 11, (3, 3), 1, np.float32)
    [nchw] = run_layer(lambda net, *s: net.convolution2d(*s, padding=1), x, weights, bias)
    [nhwc] = run_layer(
        lambda net, *s: net.convolution2d(*s, padding=1, layout="NHWC"), x.transpose(NHWC), weights.transpose(NHWC), bias
    )
    assert (nchw == nhwc.transpose(NCHW)).all()


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("multiplier", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_depthwise(run_layer, reference, dtype, multiplier, layout):
    x, weights, bias = arrays((2, 5, 9, 6), 5 * multiplier, (3, 2), 5, dtype)
    options = {"stride": (2, 1), "padding": (1, 0, 2, 1), "dilation": (1, 2)}
    wanted = reference.convolution(*exact(x, weights, bias), groups=5, **options)
    if layout == "NHWC":  # weights [1, h, w, C * multiplier]
        x, weights, wanted = x.transpose(NHWC), weights.transpose(1, 2, 3, 0), wanted.transpose(NHWC)
    descriptor = DepthwiseConvolution2d(layout=DataLayout(layout), **options)
    [y] = run_layer(lambda net, *slots: net.add(descriptor, *slots), x, weights, bias)
    reference.assert_close(y, wanted)


TRANSPOSED = [  # stride, padding, dilation, output padding, groups
    ((1, 1), (0, 0, 0, 0), (1, 1), (0, 0), 1),
    ((2, 3), (1, 0, 2, 1), (1, 1), (1, 0), 1),
    ((3, 2), (1, 1, 1, 1), (2, 1), (2, 1), 2),
    ((4, 4), (0, 0, 0, 0), (1, 1), (3, 3), 1),  # stride greater than the kernel: pixels that nothing reaches
]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize(
    ("case", "layout"),
    # The kind has one group in NHWC.
    [(case, layout) for case in TRANSPOSED for layout in ("NCHW", "NHWC") if layout == "NCHW" or case[-1] == 1],
    ids=str,
)
def test_transpose(run_layer, reference, case, layout, dtype):
    stride, padding, dilation, output_padding, groups = case
    rng = np.random.default_rng(1)
    x, weights = rng.standard_normal((2, 4, 5, 3)).astype(dtype), rng.standard_normal((4, 6 // groups, 3, 2)).astype(dtype)
    bias = rng.standard_normal(6).astype(dtype)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": output_padding, "groups": groups}
    wanted = reference.transpose_convolution(*exact(x, weights, bias), **options)
    if layout == "NHWC":  # weights [O, h, w, C]
        x, weights, wanted = x.transpose(NHWC), weights.transpose(1, 2, 3, 0), wanted.transpose(NHWC)
    descriptor = TransposeConvolution2d(layout=DataLayout(layout), **options)
    [y] = run_layer(lambda net, *slots: net.add(descriptor, *slots), x, weights, bias)
    reference.assert_close(y, wanted)


@pytest.mark.parametrize(
    ("function", "alpha", "beta"),
    [
        ("relu", 0, 0), ("bounded_relu", 1.5, -0.5), ("leaky_relu", 0.1, 0), ("hard_swish", 0, 0), ("sigmoid", 0, 0),
        ("tanh", 0, 0), ("elu", 0.7, 0), ("swish", 1.0, 0), ("gelu", 0, 0), ("gelu_tanh", 0, 0), ("hard_sigmoid", 0.2, 0.5),
    ],
)  # fmt: skip
def test_fused_activation(run_layer, reference, function, alpha, beta):
    x, weights, bias = arrays((1, 3, 6, 6), 5, (3, 3), 1, np.float32)
    wanted = reference.activation(function, reference.convolution(*exact(x, weights, bias)), alpha, beta)
    descriptor = Convolution2d(activation=function, activation_alpha=alpha, activation_beta=beta)
    [y] = run_layer(lambda net, *slots: net.add(descriptor, *slots), x, weights, bias)
    reference.assert_close(y, wanted)


def test_without_bias(run_layer, reference):
    x, weights, _ = arrays((1, 3, 6, 6), 5, (3, 3), 1, np.float32)
    [y] = run_layer(lambda net, *slots: net.convolution2d(*slots), x, weights)
    reference.assert_close(y, reference.convolution(*exact(x, weights)))


def test_bias_taken_away(run_layer, reference):
    """A pass may disconnect the bias and leave the slot."""

    def build(net, *slots):
        layer = net.convolution2d(*slots).layer
        net.disconnect(layer.inputs[2])
        return layer

    x, weights, bias = arrays((1, 3, 6, 6), 5, (3, 3), 1, np.float16)
    [y] = run_layer(build, x, weights, bias)
    reference.assert_close(y, reference.convolution(*exact(x, weights)))


def test_many_blocks(run_layer, reference):
    """More pixels and filters than one block of panels holds."""
    x, weights, bias = arrays((2, 33, 29, 31), 21, (3, 3), 1, np.float32)
    [y] = run_layer(lambda net, *slots: net.convolution2d(*slots, padding=1), x, weights, bias)
    reference.assert_close(y, reference.convolution(*exact(x, weights, bias), padding=(1, 1, 1, 1)))


def test_channels_in_parts(run_layer):
    """More channels than are multiplied at once: as exact as fewer, for any layout and window."""
    luck = np.random.default_rng(3)
    channels = (1 << 15) + 77
    for layout in DataLayout:
        for kernel in ((1, 1), (2, 1)):
            image = luck.standard_normal((2, channels, 2, 2)).astype(np.float32)
            weights = luck.standard_normal((5, channels, *kernel)).astype(np.float32)
            expected = np.zeros((2, 5, 3 - kernel[0], 2))
            for y in range(kernel[0]):
                seen = image[:, :, y : y + 3 - kernel[0]].astype(np.float64)
                expected += np.einsum("nchw,fc->nfhw", seen, weights[:, :, y, 0].astype(np.float64))
            last = layout is DataLayout.NHWC
            x, w = (a.transpose(0, 2, 3, 1) if last else a for a in (image, weights))
            [y] = run_layer(
                lambda net, x, w: net.convolution2d(x, w, layout=layout),  # noqa: B023
                np.ascontiguousarray(x),
                np.ascontiguousarray(w),
            )
            found = y.transpose(0, 3, 1, 2) if last else y
            assert np.allclose(found, expected, rtol=1e-6, atol=1e-4)


def test_cancel(run_layer, direct):
    x, weights, bias = arrays((1, 3, 6, 6), 5, (3, 3), 1, np.float32)
    with pytest.raises(direct.Cancelled):
        run_layer(lambda net, *slots: net.convolution2d(*slots), x, weights, bias, cancel=True)


class TestQuantized:
    """int8 and uint8 by TensorFlow Lite's rules, bit for bit."""

    def run(self, run_layer, reference, kind, signed, per_axis, layout="NHWC", activation=None, bias=True):
        rng = np.random.default_rng(3)
        dtype = np.int8 if signed else np.uint8
        info = np.iinfo(dtype)
        zero = -3 if signed else 120
        weight_zero = 0 if signed else 131
        channels, filters = (4, 7) if kind is Convolution2d else (4, 8)
        groups = channels if kind is DepthwiseConvolution2d else 1
        x = rng.integers(info.min, info.max, (2, channels, 6, 7), dtype, endpoint=True)
        weights = rng.integers(info.min, info.max, (filters, channels // groups, 3, 3), dtype, endpoint=True)
        offsets = rng.integers(-4000, 4000, filters, np.int32)
        scales = (rng.uniform(0.001, 0.03, filters) if per_axis else np.full(filters, 0.013)).astype(np.float32)
        out = Quantization.per_tensor(single(0.21), -7 if signed else 100)
        sums = reference.convolution(
            x.astype(np.int64) - zero,
            weights.astype(np.int64) - weight_zero,
            offsets.astype(np.int64) if bias else None,
            padding=(1, 0, 1, 2),
            stride=(2, 1),
            groups=groups,
        )
        low, high = info.min, info.max
        if activation == "relu":
            low = max(low, out.zero_point[0])
        if activation == "bounded_relu":
            low, high = max(low, out.zero_point[0]), min(high, out.zero_point[0] + round(6 / 0.21))
        factors = [reference.product_scale(0.05, s, single=not signed) / single(0.21) for s in scales]
        wanted = reference.requantized(sums, factors, out.zero_point[0], low, high)
        axis = 0
        if layout == "NHWC":
            x, wanted = x.transpose(NHWC), wanted.transpose(NHWC)
            axis = 3 if groups > 1 else 0
            weights = weights.transpose(1, 2, 3, 0) if groups > 1 else weights.transpose(NHWC)
        descriptor = kind(
            layout=DataLayout(layout), padding=(1, 0, 1, 2), stride=(2, 1), activation=activation, activation_alpha=6.0
        )
        quantization = (
            Quantization.per_axis(scales.tolist(), [weight_zero] * filters, axis=axis)
            if per_axis
            else Quantization.per_tensor(single(0.013), weight_zero)
        )

        def build(net, image):
            constant = net.constant(np.ascontiguousarray(weights), quantization=quantization)
            return net.add(descriptor, image, constant, offsets if bias else None, quantization=out)

        [y] = run_layer(build, x, quantizations=[Quantization.per_tensor(single(0.05), zero)])
        assert y.dtype == dtype
        np.testing.assert_array_equal(y, wanted)

    @pytest.mark.parametrize("kind", [Convolution2d, DepthwiseConvolution2d])
    @pytest.mark.parametrize("signed", [True, False], ids=["int8", "uint8"])
    @pytest.mark.parametrize("per_axis", [True, False], ids=["per_axis", "per_tensor"])
    @pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
    def test_kinds(self, run_layer, reference, kind, signed, per_axis, layout):
        self.run(run_layer, reference, kind, signed, per_axis, layout)

    @pytest.mark.parametrize("activation", ["relu", "bounded_relu"])
    def test_activation(self, run_layer, reference, activation):
        self.run(run_layer, reference, Convolution2d, True, True, activation=activation)

    def test_without_bias(self, run_layer, reference):
        self.run(run_layer, reference, Convolution2d, True, True, bias=False)

    def test_transpose(self, run_layer, reference):
        rng = np.random.default_rng(5)
        x, weights = rng.integers(-128, 127, (1, 3, 4, 4), np.int8), rng.integers(-128, 127, (3, 5, 3, 3), np.int8)
        sums = reference.transpose_convolution(x.astype(np.int64) + 4, weights.astype(np.int64), stride=(2, 2))
        wanted = reference.requantized(sums, [single(0.1) * single(0.02) / 0.5] * 5, 1, -128, 127)

        def build(net, image):
            constant = net.constant(weights, quantization=Quantization.per_tensor(single(0.02)))
            return net.add(TransposeConvolution2d(stride=(2, 2)), image, constant, quantization=Quantization.per_tensor(0.5, 1))

        [y] = run_layer(build, x, quantizations=[Quantization.per_tensor(single(0.1), -4)])
        np.testing.assert_array_equal(y, wanted)

    @pytest.mark.parametrize(("groups", "taken"), [(1, True), (2, False)])
    def test_transpose_per_axis_needs_a_scale_per_filter(self, direct, groups, taken):
        """[C, O / groups, h, w] has no axis that counts all filters of several groups."""

        def build(net, image):
            scales = Quantization.per_axis([0.1, 0.2, 0.3], axis=1)
            weights = net.constant(np.ones((4, 3, 2, 2), np.int8), quantization=scales)
            return net.add(TransposeConvolution2d(groups=groups), image, weights, quantization=Quantization.per_tensor(0.1))

        x = np.ones((1, 4, 3, 3), np.int8)
        layer, _ = direct.build_layer(build, x, quantizations=[Quantization.per_tensor(0.1)])
        support = direct.ReferenceBackend().supports(layer, None, Device())
        assert support.supported is taken
        assert taken or (support.code, support.attribute) == ("quantization", "weights")
