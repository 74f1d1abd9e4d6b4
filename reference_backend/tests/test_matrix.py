"""Fully connected layers and matrix products against NumPy."""

import ml_dtypes
import numpy as np
import pytest

from dovetail import Quantization
from dovetail.layers import FullyConnected

FLOATS = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]
PLAIN = [np.int16, np.int32, np.int64, np.uint16, np.uint32, np.uint64]


def single(value):
    """A float32, as models hold scales."""
    return float(np.float32(value))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((5, 7), (7, 9)), ((1, 1), (1, 1)), ((7,), (7,)), ((7,), (7, 3)), ((4, 7), (7,)), ((3, 0), (0, 2)), ((0, 3), (3, 2)),
        ((2, 3, 4, 5), (2, 3, 5, 6)), ((2, 1, 4, 5), (3, 5, 6)), ((4, 5), (2, 3, 5, 6)), ((7,), (2, 7, 3)), ((2, 4, 7), (7,)),
        ((33, 17), (17, 1)), ((1, 300), (300, 35)), ((130, 70), (70, 150)), ((0, 4, 5), (1, 5, 3)),
    ],
    ids=str,
)  # fmt: skip
def test_matmul(random, run_layer, reference, a, b, dtype):
    x, y = random(a, dtype), random(b, dtype, 1)
    [got] = run_layer(lambda net, *s: net.matmul(*s), x, y)
    reference.assert_close(got, np.matmul(x.astype(np.float64), y.astype(np.float64)))


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_transposes(random, run_layer, reference, transpose_a, transpose_b):
    a, b = random((3, 5, 7), np.float32), random((3, 7, 21), np.float32, 1)
    wanted = np.matmul(a.astype(np.float64), b.astype(np.float64))
    a = a.swapaxes(1, 2) if transpose_a else a
    b = b.swapaxes(1, 2) if transpose_b else b
    [got] = run_layer(lambda net, *s: net.matmul(*s, transpose_a=transpose_a, transpose_b=transpose_b), a, b)
    reference.assert_close(got, wanted)


def test_transposes_leave_vectors_alone(random, run_layer, reference):
    a, b = random((5,), np.float32), random((5,), np.float32, 1)
    [got] = run_layer(lambda net, *s: net.matmul(*s, transpose_a=True, transpose_b=True), a, b)
    reference.assert_close(got, a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.parametrize("dtype", [*PLAIN, np.int8, np.uint8], ids=lambda d: np.dtype(d).name)
def test_integers_wrap(random, run_layer, dtype):
    a, b = random((5, 40), dtype), random((40, 18), dtype, 1)
    with np.errstate(over="ignore"):
        wanted = np.matmul(a, b)
    [got] = run_layer(lambda net, *s: net.matmul(*s), a, b)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", FLOATS + PLAIN, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", [(6, 11), (11,), (2, 3, 11), (0, 11), (40, 11)], ids=str)
@pytest.mark.parametrize("outputs", [1, 5, 37])
def test_fully_connected(random, run_layer, reference, dtype, shape, outputs):
    x, weights, bias = random(shape, dtype), random((outputs, 11), dtype, 1), random((outputs,), dtype, 2)
    [got] = run_layer(lambda net, *s: net.fully_connected(*s), x, weights, bias)
    if np.dtype(dtype).kind in "iu":
        np.testing.assert_array_equal(got, np.matmul(x, weights.T) + bias)
    else:
        x, weights, bias = (v.astype(np.float64) for v in (x, weights, bias))
        reference.assert_close(got, x @ weights.T + bias)


def test_fused_activation(random, run_layer, reference):
    x, weights = random((6, 11), np.float32), random((5, 11), np.float32, 1)
    wanted = reference.activation("bounded_relu", x.astype(np.float64) @ weights.T.astype(np.float64), 6.0, -1.0)
    descriptor = FullyConnected(activation="bounded_relu", activation_alpha=6.0, activation_beta=-1.0)
    [got] = run_layer(lambda net, *s: net.add(descriptor, *s), x, weights)
    reference.assert_close(got, wanted)


def test_same_bits_whichever_side_gives_the_rows(random, run_layer):
    a, b = random((60, 50), np.float32), random((50, 3), np.float32, 1)
    [narrow] = run_layer(lambda net, *s: net.matmul(*s), a, b)
    [wide] = run_layer(lambda net, *s: net.matmul(*s), a, np.tile(b, (1, 30)))
    assert (narrow == wide[:, :3]).all()


def test_sums_run_along_the_depth_with_two_roundings_a_step(random, run_layer):
    """Order and roundings are the contract: no fused multiply-add or reordering, anywhere."""
    a, b = random((6, 100), np.float64), random((100, 19), np.float64, 1)
    wanted = np.zeros((6, 19))
    for k in range(100):
        wanted = wanted + a[:, k : k + 1] * b[k : k + 1]
    [got] = run_layer(lambda net, *s: net.matmul(*s), a, b)
    np.testing.assert_array_equal(got, wanted)


def test_a_sum_that_float32_would_lose(run_layer):
    """2^24 + 1 - 2^24 is 1 only if sums are wider than float32."""
    x = np.array([[2.0**24, 1.0, -(2.0**24)]], np.float32)
    [got] = run_layer(lambda net, *s: net.matmul(*s), x, np.ones((3, 1), np.float32))
    assert got.item() == 1.0


def test_cancel(random, run_layer, direct):
    with pytest.raises(direct.Cancelled):
        run_layer(lambda net, *s: net.matmul(*s), random((5, 7), np.float32), random((7, 3), np.float32), cancel=True)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8], ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("per_axis", [False, True], ids=["per_tensor", "per_axis"])
@pytest.mark.parametrize("rows", [3, 50])
@pytest.mark.parametrize("columns", [3, 20])
@pytest.mark.parametrize("relu", [False, True])
def test_quantized_fully_connected(random, run_layer, reference, dtype, per_axis, rows, columns, relu):
    rng = np.random.default_rng(0)
    signed = dtype is np.int8
    zero, weight_zero, out_zero = (5, 0, -9) if signed else (120, 131, 99)
    x, weights = random((rows, 33), dtype), random((columns, 33), dtype, 1)
    bias = rng.integers(-3000, 3000, columns, np.int32)
    scales = (rng.uniform(0.001, 0.02, columns) if per_axis else np.full(columns, 0.01)).astype(np.float32)
    sums = (x.astype(np.int64) - zero) @ (weights.astype(np.int64) - weight_zero).T + bias
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    factors = [reference.product_scale(0.04, s, single=False) / single(0.3) for s in scales]
    low = max(low, out_zero) if relu else low
    wanted = reference.requantized(sums, factors, out_zero, low, high, multiply=reference.multiply_by_real)
    quantization = (
        Quantization.per_axis(scales.tolist(), [weight_zero] * columns, axis=0)
        if per_axis
        else Quantization.per_tensor(single(0.01), weight_zero)
    )

    def build(net, slot):
        constant = net.constant(weights, quantization=quantization)
        descriptor = FullyConnected(activation="relu" if relu else None)
        return net.add(descriptor, slot, constant, bias, quantization=Quantization.per_tensor(single(0.3), out_zero))

    [got] = run_layer(build, x, quantizations=[Quantization.per_tensor(single(0.04), zero)])
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, wanted)


def test_quantized_matmul(random, run_layer, reference):
    from dovetail.layers import MatMul

    a, b = random((2, 4, 9), np.int8), random((2, 9, 11), np.int8, 1)
    sums = np.matmul(a.astype(np.int64) - 3, b.astype(np.int64) + 6)
    wanted = reference.requantized(
        sums, [reference.product_scale(0.1, 0.2, single=True) / single(0.9)] * 11, 4, -128, 127, axis=2
    )
    [got] = run_layer(
        lambda net, *s: net.add(MatMul(), *s, quantization=Quantization.per_tensor(single(0.9), 4)),
        a,
        b,
        quantizations=[Quantization.per_tensor(single(0.1), 3), Quantization.per_tensor(single(0.2), -6)],
    )
    np.testing.assert_array_equal(got, wanted)
