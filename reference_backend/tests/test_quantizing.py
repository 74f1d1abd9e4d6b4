"""Quantize and Dequantize against exact rational arithmetic and NumPy in float32."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import DType, Quantization
from dovetail.layers import Quantize, TieRounding

INTEGERS = [d.label for d in DType if d.is_integer]
FLOATS = ["float64", "float32", "float16", "bfloat16"]


def limits(label):
    info = np.iinfo(label)
    return info.min, info.max


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("label", INTEGERS)
def test_quantize_per_tensor(run_layer, samples, label, source):
    low, high = limits(label)
    zero = 7 if low == 0 else -3
    x = samples.array(source, (11, 13), scale=4.0)
    [y] = run_layer(lambda net, a: net.quantize(a, Quantization.per_tensor(0.05, zero), DType.of(label)), x)
    working = np.float64 if source == "float64" else np.float32
    quotient = np.rint(x.astype(working) / working(0.05))
    assert y.dtype == np.dtype(label)
    assert y.ravel().tolist() == [min(max(int(v) + zero, low), high) for v in quotient.ravel()]


@pytest.mark.parametrize("label", INTEGERS)
def test_quantize_saturates(run_layer, label):
    low, high = limits(label)
    x = np.asarray([1e30, -1e30, np.inf, -np.inf, np.nan, 2.0**31, 2.0**63, 2.0**64], np.float64)
    [y] = run_layer(lambda net, a: net.quantize(a, Quantization.per_tensor(1.0, 1), DType.of(label)), x)
    # The zero point is added in double: 2^63 + 1 is 2^63 there.
    assert y.tolist() == [high, low, high, low, 1, *(min(int(v + 1), high) for v in x[5:])]


@pytest.mark.parametrize("x", [0.5, 1.5, 2.5, -0.5, -1.5])
def test_quantize_ties_to_even(run_layer, x):
    [y] = run_layer(lambda net, a: net.quantize(a, Quantization.per_tensor(1.0), DType.INT8), np.asarray(x, np.float32))
    assert y == np.rint(x)


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("axis", [None, 0])
def test_quantize_ties_away_from_zero(run_layer, samples, source, axis):
    x = np.asarray([[0.5, 1.5, 2.5, 0.25, 300], [-0.5, -1.5, -2.5, -0.75, -300]]).astype(samples.dtype(source))
    quantization = Quantization.per_tensor(1.0, 4) if axis is None else Quantization.per_axis([1.0, 1.0], [4, 4], axis=0)
    descriptor = Quantize(dtype=DType.INT8, quantization=quantization, rounding=TieRounding.AWAY_FROM_ZERO)
    [y] = run_layer(lambda net, a: net.add(descriptor, a), x)
    assert y.tolist() == [[5, 6, 7, 4, 127], [3, 2, 1, 3, -128]]


def test_quantize_divides_in_float32(run_layer):
    """0.35 / 0.1 is a tie in float32, and just below one in double: every runtime sees the tie."""
    x = ((np.arange(-60, 60) + 0.5) * 0.1).astype(np.float32)
    [y] = run_layer(lambda net, a: net.quantize(a, Quantization.per_tensor(0.1)), x)
    assert np.array_equal(y, np.rint(x / np.float32(0.1)).astype(np.int8))
    assert not np.array_equal(y, np.rint(x.astype(np.float64) / 0.1).astype(np.int8))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("label", ["int8", "uint8", "int16", "int32"])
def test_per_axis(run_layer, samples, label, axis):
    x = samples.array("float32", (3, 5, 4), scale=2.0)
    size = x.shape[axis]
    low, high = limits(label)
    scales = [0.01 * (i + 1) for i in range(size)]
    zeros = [i + 3 for i in range(size)]
    quantization = Quantization.per_axis(scales, zeros, axis=axis)
    column = [1, 1, 1]
    column[axis] = size
    scale, zero = np.asarray(scales, np.float32).reshape(column), np.asarray(zeros).reshape(column)
    [q] = run_layer(lambda net, a: net.quantize(a, quantization, DType.of(label)), x)
    assert np.array_equal(q, np.clip(np.rint(x / scale) + zero, low, high).astype(label))
    [back] = run_layer(lambda net, a: net.dequantize(a, quantization), q)
    samples.same_bits(back, (q.astype(np.int64) - zero).astype(np.float32) * scale)


@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("label", INTEGERS)
def test_dequantize(run_layer, samples, label, target):
    q = samples.array(label, (9, 31))
    [y] = run_layer(lambda net, a: net.dequantize(a, Quantization.per_tensor(0.03, 5), DType.of(target)), q)
    working = np.float64 if target == "float64" else np.float32
    exact = np.asarray([v - 5 for v in q.ravel().tolist()]).reshape(q.shape).astype(working) * working(0.03)
    with np.errstate(over="ignore"):
        samples.same_bits(y, exact.astype(samples.dtype(target)))


@pytest.mark.parametrize("label", ["int64", "uint64"])
@pytest.mark.parametrize("zero", ["least", "most", 3])
def test_a_difference_of_64_bits_does_not_wrap(run_layer, label, zero):
    low, high = limits(label)
    point = {"least": low, "most": high}.get(zero, zero)
    q = np.asarray([low, low + 1, 0, 5, high - 1, high], label)
    [y] = run_layer(lambda net, a: net.dequantize(a, Quantization.per_tensor(1.0, point), DType.FLOAT64), q)
    assert y.tolist() == [float(value - point) for value in q.tolist()]


@pytest.mark.parametrize("shape", [(), (0,), (1, 0, 2), (513,)])
def test_shapes(run_layer, shape):
    x = np.ones(shape, np.float32)
    [y] = run_layer(lambda net, a: net.quantize(a, Quantization.per_tensor(0.5, 1)), x)
    assert np.array_equal(y, np.full(shape, 3, np.int8))


def test_cancelled(run_layer, direct):
    with pytest.raises(direct.Cancelled):
        run_layer(lambda net, a: net.quantize(a, Quantization.per_tensor(1.0)), np.zeros(100_000, np.float32), cancel=True)
