"""Quantized layers: bit for bit as CpuRef has them, on CPU and GPU ways through the kernels."""

import numpy as np
import pytest

import dovetail
from dovetail import DType, Network, Quantization
from dovetail.layers import (
    ActivationFunction,
    BinaryOperation,
    ElementwiseBinary,
    FullyConnected,
    MatMul,
    Reduce,
    ReduceFunction,
)

rng = np.random.default_rng(11)
INPUT = Quantization.per_tensor(0.05, 3)
WINDOWS = [
    # [filters, channels of a group, height, width], groups, stride, padding, dilation
    ((37, 19, 1, 1), 1, 1, 0, 1),
    ((33, 3, 3, 3), 1, 2, 1, 1),
    ((16, 18, 5, 2), 1, 1, (2, 0, 1, 1), (1, 2)),
    ((12, 5, 3, 3), 3, 1, 1, 1),
    ((40, 1, 3, 3), 40, 1, 1, 1),
    ((40, 1, 5, 3), 40, 2, (2, 1, 2, 1), 1),
    ((34, 1, 3, 3), 17, 1, 2, 2),
]


def both(backend, build, feeds):
    """Run a network, given by what builds it, on the backend and on CpuRef."""
    made = []
    for backends in ([backend], ["CpuRef"]):
        network = Network("quantized")
        network.output(build(network), name="y")
        with dovetail.load(network, backends) as net:
            made.append(net.run(feeds)["y"].copy())
    assert made[0].dtype == made[1].dtype
    return made


def given(network, name, x, quantization=INPUT):
    return network.input(name, x.shape, DType.of(x.dtype), quantization)


def random_bytes(shape, dtype=np.int8):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("shape", "groups", "stride", "padding", "dilation"), WINDOWS)
@pytest.mark.parametrize(("dtype", "per_axis"), [(np.int8, True), (np.uint8, False)])
def test_convolutions(way, layout, shape, groups, stride, padding, dilation, dtype, per_axis):
    filters, channels, *_ = shape
    x = random_bytes((2, channels * groups, 13, 21), dtype)
    weights = random_bytes(shape)
    scales = rng.uniform(0.001, 0.004, filters).astype(np.float32).tolist()
    bias = rng.integers(-2000, 2000, filters, np.int32)
    is_depthwise = groups == channels * groups == filters
    if layout == "NHWC":
        x = np.ascontiguousarray(np.moveaxis(x, 1, -1))
        weights = np.ascontiguousarray(weights.transpose((1, 2, 3, 0) if is_depthwise else (0, 2, 3, 1)))
    axis = 3 if is_depthwise and layout == "NHWC" else 0
    meaning = Quantization.per_axis(scales, axis=axis) if per_axis else Quantization.per_tensor(0.003, 7)

    result = Quantization.per_tensor(0.03, -5 if dtype == np.int8 else 120)

    def build(network):
        constants = [network.constant(weights, "w", quantization=meaning), network.constant(bias, "b")]
        shared = {"stride": stride, "padding": padding, "dilation": dilation, "layout": layout, "quantization": result}
        if is_depthwise:
            return network.depthwise_convolution2d(given(network, "x", x), *constants, **shared)
        return network.convolution2d(given(network, "x", x), *constants, groups=groups, **shared)

    got, expected = both(way, build, {"x": x})
    assert len(np.unique(expected)) > 50
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("rows", [1, 29])
@pytest.mark.parametrize("is_constant", [True, False])
def test_rows_by_a_matrix(way, rows, is_constant):
    """Scaled in double; with weights that come at run time too."""
    x, weights = random_bytes((rows, 131), np.uint8), random_bytes((70, 131))
    meaning = Quantization.per_axis(rng.uniform(0.001, 0.004, 70).astype(np.float32).tolist(), axis=0)
    feeds = {"x": x} if is_constant else {"x": x, "w": weights}

    def build(network):
        of_x = given(network, "x", x)
        of_w = network.constant(weights, "w", quantization=meaning) if is_constant else given(network, "w", weights, meaning)
        result = Quantization.per_tensor(0.08, 100)
        return network.add(FullyConnected(activation=ActivationFunction.RELU), of_x, of_w, quantization=result).output

    got, expected = both(way, build, feeds)
    assert len(np.unique(expected)) > 15
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("a", "b"), [((5, 40, 33), (33, 47)), ((3, 1, 9, 21), (2, 21, 4)), ((6, 8), (8,))])
@pytest.mark.parametrize("is_constant", [True, False])
def test_products_of_matrices(way, a, b, is_constant):
    a, b = random_bytes(a), random_bytes(b)
    feeds = {"a": a} if is_constant else {"a": a, "b": b}

    def build(network):
        of_a = given(network, "a", a)
        of_b = network.constant(b, "b", quantization=INPUT) if is_constant else given(network, "b", b)
        return network.add(MatMul(), of_a, of_b, quantization=Quantization.per_tensor(0.9, 4)).output

    got, expected = both(way, build, feeds)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("operation", ["add", "sub", "mul"])
@pytest.mark.parametrize(("a", "b"), [((2, 1001), (2, 1001)), ((2, 3, 5, 7), (3, 1, 7)), ((4,), (1,)), ((0, 3), (0, 3))])
def test_sums_and_products(way, operation, a, b):
    a, b = random_bytes(a, np.uint8), random_bytes(b, np.uint8)
    meanings = [Quantization.per_tensor(0.02, 100), Quantization.per_tensor(0.05, 7), Quantization.per_tensor(0.06, 128)]

    def build(network):
        operands = given(network, "a", a, meanings[0]), given(network, "b", b, meanings[1])
        return network.add(ElementwiseBinary(operation=BinaryOperation(operation)), *operands, quantization=meanings[2]).output

    got, expected = both(way, build, {"a": a, "b": b})
    np.testing.assert_array_equal(got, expected)


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


@pytest.mark.parametrize("function", ["relu", "bounded_relu", "leaky_relu", "hard_swish", "sigmoid", "tanh", "gelu", "elu"])
def test_activations(way, function):
    """Every byte, by tables: within one of what other tables say."""
    x = np.arange(-128, 128).astype(np.int8).reshape(2, 128)

    def build(network):
        layer = network.activation(given(network, "x", x), function, 0.7, 0.1).layer
        layer.output.quantization = Quantization.per_tensor(0.04, -11)
        return layer.output

    got, expected = both(way, build, {"x": x})
    assert np.abs(got.astype(int) - expected).max() <= 1


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

    def build(network):
        result = Quantization.per_tensor(2.0 if function == "sum" else 0.04, -2)
        descriptor = Reduce(function=ReduceFunction(function), axes=axes, keep_dims=False)
        return network.add(descriptor, given(network, "x", x), quantization=result).output

    got, expected = both(way, build, {"x": x})
    np.testing.assert_array_equal(got, expected)
