"""Quantized layers: the nearest integers, ties to even, on CPU and GPU ways through the kernels.

Scales are powers of two, so that floats say exactly which integer is nearest.
"""

import numpy as np
import pytest

import dovetail
from dovetail import DType, Network, Quantization
from dovetail.layers import (
    Activation,
    ActivationFunction,
    BinaryOperation,
    ElementwiseBinary,
    ElementwiseUnary,
    FullyConnected,
    MatMul,
    Reduce,
    ReduceFunction,
    UnaryOperation,
)
from dovetail_cl.devices import opened

rng = np.random.default_rng(11)
INPUT = Quantization.per_tensor(2.0**-4, 3)
WINDOWS = [
    # [filters, channels of a group, height, width], groups, stride, padding, dilation
    ((37, 19, 1, 1), 1, 1, 0, 1),
    ((72, 20, 1, 1), 2, 1, 0, 1),
    ((33, 3, 3, 3), 1, 2, 1, 1),
    ((16, 18, 5, 2), 1, 1, (2, 0, 1, 1), (1, 2)),
    ((12, 5, 3, 3), 3, 1, 1, 1),
    ((40, 1, 3, 3), 40, 1, 1, 1),
    ((40, 1, 5, 3), 40, 2, (2, 1, 2, 1), 1),
    ((34, 1, 3, 3), 17, 1, 2, 2),
]


def both(backend, build, feeds):
    """Run a network, given by what builds it, on the backend and on CpuRef."""
    return [run(backends, build, feeds) for backends in ([backend], ["CpuRef"])]


def run(backends, build, feeds):
    network = Network("quantized")
    network.output(build(network), name="y")
    with dovetail.load(network, backends) as net:
        return net.run(feeds)["y"].copy()


def assert_nearest(got, real, quantization):
    """Compare with the integers that stand for real numbers."""
    limits = np.iinfo(got.dtype)
    expected = np.clip(np.rint(real / quantization.scale[0]) + quantization.zero_point[0], limits.min, limits.max)
    assert len(np.unique(expected)) >= min(4, expected.size // 4)
    np.testing.assert_array_equal(got, expected.astype(got.dtype))


def real(x, quantization, axis=None):
    """Return what integers stand for."""
    shape = [1] * x.ndim
    if quantization.is_per_axis:
        shape[axis] = -1
    return (x.astype(float) - np.reshape(quantization.zero_point, shape)) * np.reshape(quantization.scale, shape)


def convolved(x, weights, groups, stride, padding, dilation):
    """Convolve [N, C, H, W] with [F, C / groups, h, w]."""
    top, left, bottom, right = padding
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    reach = [(size - 1) * by + 1 for size, by in zip(weights.shape[2:], dilation, strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))
    windows = windows[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]
    parts = zip(np.split(windows, groups, 1), np.split(weights, groups), strict=True)
    return np.concatenate([np.einsum("nchwij,fcij->nfhw", window, weight, optimize=True) for window, weight in parts], 1)


def given(network, name, x, quantization=INPUT):
    return network.input(name, x.shape, DType.of(x.dtype), quantization)


def random_bytes(shape, dtype=np.int8):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("shape", "groups", "stride", "padding", "dilation"), WINDOWS)
@pytest.mark.parametrize(("dtype", "per_axis"), [(np.int8, True), (np.uint8, True), (np.uint8, False)])
def test_convolutions(way, layout, shape, groups, stride, padding, dilation, dtype, per_axis):
    assert_convolves(way, layout, shape, groups, stride, padding, dilation, dtype, per_axis)


@pytest.mark.parametrize("window", [WINDOWS[1], WINDOWS[3], WINDOWS[6]])
def test_convolutions_without_products_of_bytes(backend, monkeypatch, window):
    """As on CPUs that lack the instructions."""
    monkeypatch.setitem(opened(0).facts, "kind", "cpu")
    monkeypatch.setitem(opened(0).facts, "multiplies_bytes", False)
    assert_convolves(backend, "NCHW", *window, np.int8, per_axis=True)


def assert_convolves(way, layout, shape, groups, stride, padding, dilation, dtype, per_axis):
    """Compare a convolution of random integers with NumPy's."""
    filters, channels, *_ = shape
    x = random_bytes((2, channels * groups, 13, 21), dtype)
    weights = random_bytes(shape)
    bias = rng.integers(-2000, 2000, filters, np.int32)
    is_depthwise = groups == channels * groups == filters
    scales = (2.0 ** rng.integers(-9, -6, filters)).tolist()
    meaning = Quantization.per_axis(scales, axis=0) if per_axis else Quantization.per_tensor(2.0**-8, 7)
    pads = (padding,) * 4 if isinstance(padding, int) else padding
    pairs = [(one, one) if isinstance(one, int) else one for one in (stride, dilation)]
    steps = np.reshape(meaning.scale, (-1, 1, 1)) * INPUT.scale[0]
    expected = convolved(real(x, INPUT), real(weights, meaning, 0), groups, pairs[0], pads, pairs[1]) + steps * bias.reshape(
        -1, 1, 1
    )
    if layout == "NHWC":
        expected = np.moveaxis(expected, 1, -1)
        x = np.ascontiguousarray(np.moveaxis(x, 1, -1))
        weights = np.ascontiguousarray(weights.transpose((1, 2, 3, 0) if is_depthwise else (0, 2, 3, 1)))
        if is_depthwise and per_axis:
            meaning = Quantization.per_axis(scales, axis=3)
    result = Quantization.per_tensor(2.0**-2 if channels > 1 else 2.0**-4, -5 if dtype == np.int8 else 120)

    def build(network):
        constants = [network.constant(weights, "w", quantization=meaning), network.constant(bias, "b")]
        shared = {"stride": stride, "padding": padding, "dilation": dilation, "layout": layout, "quantization": result}
        if is_depthwise:
            return network.depthwise_convolution2d(given(network, "x", x), *constants, **shared)
        return network.convolution2d(given(network, "x", x), *constants, groups=groups, **shared)

    assert_nearest(run([way], build, {"x": x}), expected, result)


@pytest.mark.parametrize("rows", [1, 29])
@pytest.mark.parametrize("is_constant", [True, False])
def test_rows_by_a_matrix(way, rows, is_constant):
    """With weights that come at run time too."""
    x, weights = random_bytes((rows, 131), np.uint8), random_bytes((70, 131))
    meaning = Quantization.per_axis((2.0 ** rng.integers(-9, -6, 70)).tolist(), axis=0)
    result = Quantization.per_tensor(2.0**-1, 100)
    feeds = {"x": x} if is_constant else {"x": x, "w": weights}

    def build(network):
        of_x = given(network, "x", x)
        of_w = network.constant(weights, "w", quantization=meaning) if is_constant else given(network, "w", weights, meaning)
        return network.add(FullyConnected(activation=ActivationFunction.RELU), of_x, of_w, quantization=result).output

    expected = np.maximum(real(x, INPUT) @ real(weights, meaning, 0).T, 0)
    assert_nearest(run([way], build, feeds), expected, result)


@pytest.mark.parametrize(("a", "b"), [((5, 40, 33), (33, 47)), ((3, 1, 9, 21), (2, 21, 4)), ((6, 8), (8,))])
@pytest.mark.parametrize("is_constant", [True, False])
def test_products_of_matrices(way, a, b, is_constant):
    a, b = random_bytes(a), random_bytes(b)
    result = Quantization.per_tensor(1.0, 4)
    feeds = {"a": a} if is_constant else {"a": a, "b": b}

    def build(network):
        of_a = given(network, "a", a)
        of_b = network.constant(b, "b", quantization=INPUT) if is_constant else given(network, "b", b)
        return network.add(MatMul(), of_a, of_b, quantization=result).output

    assert_nearest(run([way], build, feeds), real(a, INPUT) @ real(b, INPUT), result)


@pytest.mark.parametrize("operation", ["add", "sub", "mul"])
@pytest.mark.parametrize(("a", "b"), [((2, 1001), (2, 1001)), ((2, 3, 5, 7), (3, 1, 7)), ((4,), (1,)), ((0, 3), (0, 3))])
def test_sums_and_products(way, operation, a, b):
    a, b = random_bytes(a, np.uint8), random_bytes(b, np.uint8)
    meanings = [
        Quantization.per_tensor(2.0**-6, 100),
        Quantization.per_tensor(2.0**-4, 7),
        Quantization.per_tensor(2.0**-4, 128),
    ]

    def build(network):
        operands = given(network, "a", a, meanings[0]), given(network, "b", b, meanings[1])
        return network.add(ElementwiseBinary(operation=BinaryOperation(operation)), *operands, quantization=meanings[2]).output

    combined = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[operation](real(a, meanings[0]), real(b, meanings[1]))
    assert_nearest(run([way], build, {"a": a, "b": b}), combined, meanings[2])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("function", "count_padding"), [("max", False), ("average", False), ("average", True)])
def test_pooling(way, layout, function, count_padding):
    x = random_bytes((2, 19, 13, 18))

    def build(network):
        window = {"stride": 2, "padding": (1, 0, 2, 1), "layout": layout, "count_padding": count_padding}
        return network.pooling2d(given(network, "x", x), function, 3, **window)

    got, expected = both(way, build, {"x": x})
    np.testing.assert_array_equal(got, expected)
    got, expected = both(way, lambda net: net.global_pooling(given(net, "x", x), function, layout=layout), {"x": x})
    np.testing.assert_array_equal(got, expected)


PARAMETERS = {
    ActivationFunction.LINEAR: (0.7, -0.2),
    ActivationFunction.BOUNDED_RELU: (2.5, -1.0),
    ActivationFunction.LEAKY_RELU: (0.2, 0.0),
    ActivationFunction.THRESHOLDED_RELU: (0.6, 0.0),
    ActivationFunction.ELU: (0.8, 0.0),
    ActivationFunction.SELU: (1.6733, 1.0507),
    ActivationFunction.CELU: (1.3, 0.0),
    ActivationFunction.HARD_SIGMOID: (0.2, 0.5),
    ActivationFunction.SWISH: (1.0, 0.0),
    ActivationFunction.SHRINK: (0.5, 0.25),
}
UNARY = [one for one in UnaryOperation if one.value not in ("logical_not", "bitwise_not") and "is_" not in one]
SCALES = [
    *((0.05, 0.03), (0.0625, 0.04), (0.003, 0.004), (2.0, 0.25), (0.7, 90.0)),
    *((0.05, 1e-12), (0.3, 1e-30), (1e-12, 1e12), (1e12, 1e-12)),
]


def described(function):
    if isinstance(function, UnaryOperation):
        return ElementwiseUnary(operation=function)
    alpha, beta = PARAMETERS.get(function, (0.0, 0.0))
    return Activation(function=function, alpha=alpha, beta=beta)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("scales", SCALES, ids=str)
def test_functions_of_every_byte(way, scales, dtype):
    """By tables, which are those of CpuRef to the bit."""
    x = np.arange(256, dtype=np.uint8).view(dtype)
    first = 0 if dtype == np.int8 else 128
    meanings = [Quantization.per_tensor(scale, first + zero) for scale, zero in zip(scales, (-3, 9), strict=True)]

    def results(backends):
        network = Network("functions")
        slot = given(network, "x", x, meanings[0])
        for function in (*ActivationFunction, *UNARY):
            made = network.add(described(function), slot, quantization=meanings[1]).output
            network.output(made, name=f"{type(function).__name__} {function}")
        with dovetail.load(network, backends) as net:
            return {name: y.copy() for name, y in net.run({"x": x}).items()}

    got, expected = results([way]), results(["CpuRef"])
    assert [name for name in expected if not np.array_equal(got[name], expected[name])] == []
    assert sum(len(np.unique(y)) > 1 for y in expected.values()) > 2


SLOPES = {"leaky_relu": lambda x: np.where(x >= 0, x, 0.7 * x), "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1)}


@pytest.mark.parametrize("function", SLOPES)
def test_functions_in_fixed_point_mean_what_they_should(way, function):
    """Within a quantum and a tenth: they are rounded more than once."""
    x, result = np.arange(-128, 128).astype(np.int8), Quantization.per_tensor(0.04, -11)

    def build(network):
        layer = network.activation(given(network, "x", x), function, 0.7).layer
        layer.output.quantization = result
        return layer.output

    wanted = np.clip(SLOPES[function](real(x, INPUT)) / result.scale[0] + result.zero_point[0], -128, 127)
    assert len(np.unique(np.rint(wanted))) > 90
    assert np.abs(run([way], build, {"x": x}) - wanted).max() <= 1.1


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
@pytest.mark.parametrize("per_axis", [True, False])
def test_to_integers_and_back(way, dtype, per_axis):
    x = rng.normal(0, 30, (3, 5, 7)).astype(np.float32)
    x[0, 0, :3] = np.nan, np.inf, -np.inf
    zero = 9 if per_axis else 3
    meaning = (
        Quantization.per_axis([0.25, 0.31, 0.5, 0.7, 0.11], [zero] * 5, axis=1)
        if per_axis
        else Quantization.per_tensor(0.3, zero)
    )

    def build(network):
        q = network.quantize(network.input("x", x.shape), meaning, DType.of(np.dtype(dtype)))
        return network.dequantize(q, meaning)

    got, expected = both(way, build, {"x": x})
    np.testing.assert_array_equal(got, expected)


def test_join_of_other_quantizations(way):
    feeds = {name: random_bytes((2, 3, 4)) for name in "abc"}

    def build(network):
        meanings = zip((INPUT, Quantization.per_tensor(0.11, -40), INPUT), feeds.items(), strict=True)
        layer = network.concat([given(network, name, x, meaning) for meaning, (name, x) in meanings], 1).layer
        layer.output.quantization = INPUT
        return layer.output

    got, expected = both(way, build, feeds)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("function", ["mean", "sum", "max", "min"])
@pytest.mark.parametrize("axes", [(1, 2), (0,), (3,)])
def test_reductions(way, function, axes):
    x = random_bytes((2, 7, 7, 33))

    result = Quantization.per_tensor(2.0 if function == "sum" else 2.0**-4, -2)

    def build(network):
        descriptor = Reduce(function=ReduceFunction(function), axes=axes, keep_dims=False)
        return network.add(descriptor, given(network, "x", x), quantization=result).output

    x_real = real(x, INPUT)
    assert_nearest(run([way], build, {"x": x}), getattr(x_real, function)(axes), result)
