"""Check what treats quantized elements by themselves against its definition: tables, sums."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dovetail
from dovetail import DataLayout, DType, Network, Quantization, layers
from dovetail.layers import ActivationFunction, BinaryOperation, UnaryOperation

from .quantized_arrays import whole

BYTES = [DType.INT8, DType.UINT8]
CLAMPS = {
    "none": {},
    "relu": {"activation": ActivationFunction.RELU},
    "relu6": {"activation": ActivationFunction.BOUNDED_RELU, "activation_alpha": 6.0, "activation_beta": 0.0},
}
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
OF_REALS = {
    ActivationFunction.RELU: lambda x: max(x, 0.0),
    ActivationFunction.LEAKY_RELU: lambda x: x if x >= 0 else 0.2 * x,
    ActivationFunction.SIGMOID: lambda x: 1 / (1 + math.exp(-x)),
    ActivationFunction.TANH: math.tanh,
    ActivationFunction.HARD_SWISH: lambda x: x * max(0.0, min(1.0, x / 6 + 0.5)),
    ActivationFunction.GELU: lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2))),
    ActivationFunction.ELU: lambda x: x if x >= 0 else 0.8 * math.expm1(x),
    UnaryOperation.ABS: abs,
    UnaryOperation.EXP: math.exp,
    UnaryOperation.SIN: math.sin,
    UnaryOperation.FLOOR: math.floor,
}
UNARY = [
    operation
    for operation in UnaryOperation
    if operation.value not in ("logical_not", "bitwise_not") and "is_" not in operation
]


def described(function):
    if isinstance(function, UnaryOperation):
        return layers.ElementwiseUnary(operation=function)
    alpha, beta = PARAMETERS.get(function, (0.0, 0.0))
    return layers.Activation(function=function, alpha=alpha, beta=beta)


def every(dtype):
    return np.arange(256, dtype=np.uint8).view(dtype.numpy)


def results(build, feeds, quantizations, backend, **how):
    net = Network("net")
    given = zip(feeds.items(), quantizations, strict=True)
    slots = [net.input(name, x.shape, DType.of(x.dtype), scheme) for (name, x), scheme in given]
    net.output(build(net, *slots), "result")
    with dovetail.load(net, backends=[backend], threads=1, **how) as loaded:
        return loaded.run(feeds)["result"]


def close(found, exact, scheme, bounds=(-np.inf, np.inf), off=0.501):
    """Rounded to nearest and clamped; within a thousandth of a tie either neighbour will do."""
    info = np.iinfo(found.dtype)
    wanted = np.clip(exact / scheme.scale[0] + scheme.zero_point[0], max(info.min, bounds[0]), min(info.max, bounds[1]))
    assert found.shape == wanted.shape
    assert np.abs(found.astype(np.float64) - wanted).max(initial=0.0) <= off


def bounds_of(activation, scheme):
    if activation == "none":
        return -np.inf, np.inf
    zero = scheme.zero_point[0]
    return zero, zero + int(np.floor(6.0 / scheme.scale[0] + 0.5)) if activation == "relu6" else np.inf


# --- tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("function", OF_REALS)
def test_a_function_of_every_byte(run_layer, function, dtype):
    of_x, of_y = Quantization.per_tensor(0.045, 11), Quantization.per_tensor(0.034, -5 if dtype is DType.INT8 else 77)
    x = np.concatenate([every(dtype), every(dtype)[::-1], every(dtype)[:77]])

    def build(net, slot):
        return net.add(described(function), slot, quantization=of_y).output

    [found] = run_layer(build, x, quantizations=[of_x])
    exact = np.array([OF_REALS[function](0.045 * (int(one) - 11)) for one in x])
    in_fixed_point = function in (ActivationFunction.HARD_SWISH, ActivationFunction.LEAKY_RELU)
    close(found, exact, of_y, off=1.1 if in_fixed_point else 0.51)  # which rounds more than once


SCALES = [(0.05, 0.03), (0.003, 0.004), (2.0, 0.25), (0.7, 90.0), (1e-12, 1e12), (1e12, 1e-12)]


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("scales", SCALES, ids=str)
@pytest.mark.parametrize("function", [*ActivationFunction, *UNARY])
def test_tables_are_those_of_the_reference(function, scales, dtype):
    first = 0 if dtype is DType.INT8 else 128
    schemes = Quantization.per_tensor(scales[0], first - 3), Quantization.per_tensor(scales[1], first + 9)
    feeds = {"x": every(dtype)}

    def build(net, x):
        return net.add(described(function), x, quantization=schemes[1]).output

    found, expected = (results(build, feeds, schemes[:1], backend) for backend in ("CpuAcc", "CpuRef"))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("layout", DataLayout)
def test_a_function_of_an_image_keeps_it_in_bytes(layout):
    rng = np.random.default_rng(4)
    scheme = Quantization.per_tensor(0.1, 4)
    x = whole(rng, DType.INT8, *((2, 20, 5, 6) if layout is DataLayout.NCHW else (2, 5, 6, 20)))
    window = layers.Pooling2d(function=layers.PoolingFunction.MAX, size=(2, 2), layout=layout)

    def build(net, slot):
        pooled = net.add(window, slot).output
        made = net.add(described(ActivationFunction.TANH), pooled, quantization=Quantization.per_tensor(0.01, -3)).output
        return net.add(window, made).output

    net = Network("net")
    net.output(build(net, net.input("x", x.shape, DType.INT8, scheme)), "y")
    with dovetail.load(net, backends=["CpuAcc"], threads=2) as loaded, loaded.profiling() as profile:
        found = loaded.run({"x": x})["y"]
    assert [layer.kind.rpartition(".")[2] for layer in profile.layers] == [
        "ReorderQuantized", "PoolQuantized", "MapQuantized", "PoolQuantized", "ReorderQuantized"
    ]  # fmt: skip
    np.testing.assert_array_equal(found, results(build, {"x": x}, [scheme], "CpuRef"))


def test_a_gate_of_bytes_is_no_swish_of_floats():
    scheme = Quantization.per_tensor(0.02, 3)

    def build(net, x):
        gate = net.add(described(ActivationFunction.SIGMOID), x, quantization=Quantization.per_tensor(1 / 256, -128)).output
        return net.add(layers.ElementwiseBinary(operation=BinaryOperation.MUL), x, gate, quantization=scheme).output

    found = results(build, {"x": every(DType.INT8)}, [scheme], "CpuAcc")
    real = 0.02 * (every(DType.INT8).astype(np.float64) - 3)
    close(found, real / (1 + np.exp(-real)), scheme, off=1.0)


# --- two operands ---------------------------------------------------------------------------------


def operated(operation, a, b):
    return {"add": np.add, "sub": np.subtract, "mul": np.multiply}[operation.value](a, b)


SHAPES = [
    ((5,), (5,)),
    ((2, 33), (2, 33)),
    ((2, 16, 4, 4), (2, 16, 4, 4)),
    ((0, 3), (0, 3)),
    ((2, 3, 4), (1,)),
    ((3, 1, 5), (4, 1)),
    ((1, 1, 1, 7), (2, 3, 4, 7)),
]


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("activation", CLAMPS)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("operation", [BinaryOperation.ADD, BinaryOperation.SUB, BinaryOperation.MUL])
def test_of_two(run_layer, operation, shapes, activation, dtype):
    rng = np.random.default_rng(len(shapes[0]))
    schemes = [Quantization.per_tensor(0.05, 3), Quantization.per_tensor(0.09, 17)]
    of_y = Quantization.per_tensor(0.11, 5)
    feeds = [whole(rng, dtype, *shape) for shape in shapes]

    def build(net, left, right):
        descriptor = layers.ElementwiseBinary(operation=operation, **CLAMPS[activation])
        return net.add(descriptor, left, right, quantization=of_y).output

    [found] = run_layer(build, *feeds, quantizations=schemes)
    reals = [s.scale[0] * (x.astype(np.float64) - s.zero_point[0]) for x, s in zip(feeds, schemes, strict=True)]
    close(found, operated(operation, *reals), of_y, bounds_of(activation, of_y))


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("operation", [BinaryOperation.MAXIMUM, BinaryOperation.MINIMUM])
@pytest.mark.parametrize("scheme", [None, Quantization.per_tensor(0.1, 4)], ids=["plain", "quantized"])
def test_the_greater_and_the_lesser(run_layer, scheme, operation, shapes, dtype):
    feeds = [whole(np.random.default_rng(3), dtype, *shape) for shape in shapes]

    def build(net, left, right):
        return net.add(layers.ElementwiseBinary(operation=operation), left, right, quantization=scheme).output

    [found] = run_layer(build, *feeds, quantizations=[scheme, scheme])
    np.testing.assert_array_equal(found, (np.maximum if operation is BinaryOperation.MAXIMUM else np.minimum)(*feeds))


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "maximum"])
def test_a_constant_of_one_element_is_a_table_of_the_same(operation, first, dtype):
    """Of the same results as two tensors, bit for bit."""
    schemes = [Quantization.per_tensor(0.05, 3), Quantization.per_tensor(0.05, 3)]
    of_y = schemes[0] if operation == "maximum" else Quantization.per_tensor(0.11, 5)
    descriptor = layers.ElementwiseBinary(operation=BinaryOperation(operation))
    one = np.full((1, 1), 37, dtype.numpy)

    def combined(net, x, other):
        return net.add(descriptor, *((other, x) if first else (x, other)), quantization=of_y).output

    def with_constant(net, x):
        return combined(net, x, net.constant(one, quantization=schemes[1]))

    feeds = {"x": every(dtype).reshape(4, 64)}
    found = results(with_constant, feeds, schemes[:1], "CpuAcc")
    expected = results(combined, {**feeds, "y": np.full((4, 64), 37, dtype.numpy)}, schemes, "CpuAcc")
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("layout", DataLayout)
def test_images_times_a_factor_for_each_channel_stay_in_bytes(layout):
    rng = np.random.default_rng(6)
    schemes = [Quantization.per_tensor(0.1, 4), Quantization.per_tensor(0.02, -9)]
    of_y = Quantization.per_tensor(0.08, -3)
    order = (0, 1, 2, 3) if layout is DataLayout.NCHW else (0, 2, 3, 1)
    feeds = {"x": whole(rng, DType.INT8, 2, 20, 5, 6), "y": whole(rng, DType.INT8, 2, 20, 1, 1)}
    feeds = {name: np.ascontiguousarray(x.transpose(order)) for name, x in feeds.items()}

    def build(net, x, factor):
        pooled = net.add(layers.Pooling2d(function=layers.PoolingFunction.MAX, size=(1, 1), layout=layout), x).output
        return net.add(layers.ElementwiseBinary(operation=BinaryOperation.MUL), pooled, factor, quantization=of_y).output

    found = results(build, feeds, schemes, "CpuAcc")
    close(found, 0.1 * (feeds["x"].astype(np.float64) - 4) * 0.02 * (feeds["y"].astype(np.float64) + 9), of_y)


# --- parts of other quantizations -----------------------------------------------------------------


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("kind", [layers.Concat(axis=1), layers.Concat(axis=-1), layers.Stack(axis=1)], ids=str)
def test_parts_of_other_quantizations(run_layer, kind, dtype):
    rng = np.random.default_rng(2)
    schemes = [Quantization.per_tensor(0.05, 3), Quantization.per_tensor(0.11, 5), Quantization.per_tensor(0.2, 17)]
    of_y = schemes[1]
    feeds = [whole(rng, dtype, 3, 7, 11) for _ in schemes]

    def build(net, *slots):
        return net.add(kind, *slots, quantization=of_y).output

    [found] = run_layer(build, *feeds, quantizations=schemes)
    reals = [s.scale[0] * (x.astype(np.float64) - s.zero_point[0]) for x, s in zip(feeds, schemes, strict=True)]
    close(found, (np.stack if isinstance(kind, layers.Stack) else np.concatenate)(reals, kind.axis), of_y)


# --- reductions -----------------------------------------------------------------------------------

AXES = [
    ((4, 5, 6), (2,)),
    ((4, 5, 6), (0,)),
    ((4, 5, 6), (0, 2)),
    ((2, 7, 5, 19), (1, 2)),
    ((2, 19, 7, 5), (2, 3)),
    ((3, 1, 1, 40), (1, 2)),
    ((3, 4), ()),
    ((9, 33), None),
    ((2, 3, 4, 5, 6), (1, 3)),
    ((1, 70000, 3), (1,)),
]


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("keep_dims", [True, False])
@pytest.mark.parametrize("function", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize(("shape", "axes"), AXES, ids=str)
def test_reductions(run_layer, shape, axes, function, keep_dims, dtype):
    x = whole(np.random.default_rng(len(shape)), dtype, *shape)
    of_x = Quantization.per_tensor(0.05, 3)
    count = x.size // np.sum(x, axis=axes).size
    of_y = Quantization.per_tensor(
        0.05 * math.sqrt(count) / 2 if function == "sum" else 0.06, -2 if dtype is DType.INT8 else 90
    )
    descriptor = layers.Reduce(function=layers.ReduceFunction(function), axes=axes, keep_dims=keep_dims)

    def build(net, slot):
        return net.add(descriptor, slot, quantization=of_y).output

    [found] = run_layer(build, x, quantizations=[of_x])
    close(found, getattr(np, function)(0.05 * (x.astype(np.float64) - 3), axis=axes, keepdims=keep_dims), of_y)


@pytest.mark.parametrize("layout", DataLayout)
@pytest.mark.parametrize("keep_dims", [True, False])
def test_the_mean_of_rows_and_columns_is_taken_in_bytes(keep_dims, layout):
    rng = np.random.default_rng(4)
    of_x, of_y = Quantization.per_tensor(0.1, 4), Quantization.per_tensor(0.03, 4)
    x = whole(rng, DType.INT8, *((2, 20, 5, 6) if layout is DataLayout.NCHW else (2, 5, 6, 20)))
    net = Network("net")
    slot = net.input("x", x.shape, DType.INT8, of_x)
    pooled = net.add(layers.Pooling2d(function=layers.PoolingFunction.MAX, size=(1, 1), layout=layout), slot).output
    axes = layout.spatial_axes()
    mean = layers.Reduce(function=layers.ReduceFunction.MEAN, axes=tuple(axes), keep_dims=keep_dims)
    net.output(net.add(mean, pooled, quantization=of_y).output, "y")
    with dovetail.load(net, backends=["CpuAcc"], threads=1) as loaded, loaded.profiling() as profile:
        found = loaded.run({"x": x})["y"]
    assert [layer.kind.rpartition(".")[2] for layer in profile.layers][1:] == [
        "PoolQuantized",
        "ReduceQuantized",
        "ReorderQuantized",
    ]
    close(found, 0.1 * np.mean(x.astype(np.float64) - 4, axis=tuple(axes), keepdims=keep_dims), of_y)


# --- integers of 16 bits --------------------------------------------------------------------------


@pytest.mark.parametrize("rounding", layers.TieRounding)
@pytest.mark.parametrize("count", [0, 1, 15, 16, 100, 1003])
def test_to_shorts_and_back(run_layer, count, rounding):
    rng = np.random.default_rng(count)
    scheme = Quantization.per_tensor(0.25, -11)
    x = (rng.integers(-400000, 400000, count) / 32).astype(np.float32)  # many ties among them
    x[:6] = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 0.0], np.float32)[: min(6, count)]
    descriptor = layers.Quantize(dtype=DType.INT16, quantization=scheme, rounding=rounding)
    [found] = run_layer(lambda net, slot: net.add(descriptor, slot).output, x)
    ratio = np.where(np.isnan(x), 0, x.astype(np.float64)) / 0.25
    expected = (np.rint(ratio) if rounding == "to_even" else np.copysign(np.floor(np.abs(ratio) + 0.5), ratio)) - 11
    np.testing.assert_array_equal(found, np.clip(expected, -32768, 32767).astype(np.int16))
    [back] = run_layer(lambda net, slot: net.add(layers.Dequantize(quantization=scheme), slot).output, found)
    np.testing.assert_array_equal(back, ((found.astype(np.float64) + 11) * 0.25).astype(np.float32))
