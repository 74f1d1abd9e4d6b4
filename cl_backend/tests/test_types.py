"""Element types beside float32: against CpuRef, on CPU and GPU ways through the kernels."""

import numpy as np
import pytest

import dovetail
from dovetail import DType, Network
from dovetail.layers import BinaryOperation, Cast, ElementwiseBinary, MatMul

rng = np.random.default_rng(12)
WHOLE = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
OPERATIONS = ["add", "mul", "div", "mod", "fmod", "pow", "squared_difference", "maximum", "bitwise_xor", "shift_left"]


def bfloat16(x):
    """Round to the bits of bfloat16."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def both(backend, build, inputs, dtypes):
    """Run a network on the backend and on CpuRef."""
    made = []
    for backends in ([backend], ["CpuRef"]):
        network = Network("types")
        slots = [network.input(f"x{i}", x.shape, dtype) for i, (x, dtype) in enumerate(zip(inputs, dtypes, strict=True))]
        results = build(network, *slots)
        for i, slot in enumerate(results if isinstance(results, tuple) else (results,)):
            network.output(slot, name=f"y{i}")
        with dovetail.load(network, backends) as net:
            made.append([y.copy() for y in net.run({f"x{i}": x for i, x in enumerate(inputs)}).values()])
    return made


def all_of(dtype, shape):
    """Numbers of a type, the extremes and zero among them."""
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    x.reshape(-1)[:6] = limits.min, limits.max, 0, 1, 2, limits.max - 1
    return x


@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_functions_of_integers(way, dtype, operation):
    a = all_of(np.dtype(dtype), (3, 37))
    b = rng.permuted(rng.integers(0 if dtype[0] == "u" else -9, 9, 37)).astype(dtype)

    def build(network, a, b):
        return network.add(ElementwiseBinary(operation=BinaryOperation(operation)), a, b).output

    kind = DType.of(np.dtype(dtype))
    got, expected = both(way, build, [a, b], [kind, kind])
    np.testing.assert_array_equal(got[0], expected[0])


@pytest.mark.parametrize("source", [*WHOLE, "bool", "float32", "float16", "float64"])
def test_casts(way, source):
    """Each rounds once, and wraps."""
    given = np.dtype(source)
    x = (
        all_of(given, 200)
        if given.kind in "iu"
        else (rng.normal(0, 1e4, 200).astype(given) if given.kind == "f" else rng.random(200) < 0.5)
    )
    if given.kind == "f":
        x[:6] = np.nan, np.inf, -np.inf, 3.9, -3.9, 0
    if source == "float64":
        x[6:9] = 1 + 2.0**-9 + 2.0**-40, 1e300, -(2.0**70)
    targets = [one for one in DType if one.is_float or one.is_integer or one is DType.BOOL]

    def build(network, x):
        return tuple(network.add(Cast(dtype=target), x).output for target in targets)

    got, expected = both(way, build, [x], [DType.of(given)])
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "float64"])
def test_products_of_matrices(way, dtype):
    kind = np.dtype(dtype)
    a, b = (rng.integers(0, 100, shape).astype(kind) for shape in ((2, 5, 33), (33, 7)))
    got, expected = both(way, lambda network, a, b: network.add(MatMul(), a, b).output, [a, b], [DType.of(kind)] * 2)
    np.testing.assert_array_equal(got[0], expected[0])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_bfloat16(way, layout):
    """Convolution, functions, pooling and a product; each stores the upper half of a float."""
    x = bfloat16(rng.normal(0, 1, (2, 20, 9, 20) if layout == "NCHW" else (2, 9, 20, 20)))
    weights = rng.normal(0, 0.1, (24, 20, 3, 3) if layout == "NCHW" else (24, 3, 3, 20)).astype(np.float32)

    def build(network, x):
        filters = network.cast(network.constant(weights), DType.BFLOAT16)
        y = network.tanh(network.convolution2d(x, filters, padding=1, layout=layout))
        y = network.pooling2d(y, "average", 2, stride=2, layout=layout)
        y = network.matmul(y, network.permute(y, (0, 1, 3, 2)))
        return network.softmax(network.layer_normalization(y))

    got, expected = both(way, build, [x], [DType.BFLOAT16])
    one, other = ((y.astype(np.uint32) << 16).view(np.float32) for y in (got[0], expected[0]))
    np.testing.assert_allclose(one, other, rtol=4e-2, atol=2e-3)


def test_float64(way):
    x = rng.normal(0, 1, (3, 40))

    def build(network, x):
        return network.reduce(network.gelu(network.multiplication(network.tanh(x), x)), "l2", 1), network.sigmoid(x)

    got, expected = both(way, build, [x], [DType.FLOAT64])
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)
