"""Activation and Prelu against their definitions in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dovetail import Quantization
from dovetail.layers import Activation, ActivationFunction

FLOATS = ["float64", "float32", "float16", "bfloat16"]


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _softplus(x):
    return np.logaddexp(0, x)


def _erfc(x):
    return np.vectorize(math.erfc, otypes=[np.float64])(x)


FUNCTIONS = {
    "linear": (1.5, -0.25, lambda x, a, b: a * x + b),
    "relu": (0, 0, lambda x, a, b: np.maximum(x, 0)),
    "bounded_relu": (2.0, -0.5, lambda x, a, b: np.clip(x, b, a)),
    "leaky_relu": (0.1, 0, lambda x, a, b: np.where(x >= 0, x, a * x)),
    "thresholded_relu": (0.75, 0, lambda x, a, b: np.where(x > a, x, 0)),
    "elu": (1.3, 0, lambda x, a, b: np.where(x >= 0, x, a * np.expm1(x))),
    "selu": (1.67326319, 1.05070102, lambda x, a, b: b * np.where(x > 0, x, a * np.expm1(x))),
    "celu": (0.7, 0, lambda x, a, b: np.maximum(0, x) + np.minimum(0, a * np.expm1(x / a))),
    "sigmoid": (0, 0, lambda x, a, b: _sigmoid(x)),
    "tanh": (0, 0, lambda x, a, b: np.tanh(x)),
    "hard_sigmoid": (0.2, 0.5, lambda x, a, b: np.clip(a * x + b, 0, 1)),
    "hard_swish": (0, 0, lambda x, a, b: x * np.clip(x / 6 + 0.5, 0, 1)),
    "swish": (1.2, 0, lambda x, a, b: x * _sigmoid(a * x)),
    "gelu": (0, 0, lambda x, a, b: x / 2 * _erfc(-x / math.sqrt(2))),
    "gelu_tanh": (0, 0, lambda x, a, b: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    "softplus": (0, 0, lambda x, a, b: _softplus(x)),
    "softsign": (0, 0, lambda x, a, b: x / (1 + np.abs(x))),
    "mish": (0, 0, lambda x, a, b: x * np.tanh(_softplus(x))),
    "shrink": (0.6, 0.2, lambda x, a, b: np.where(x < -a, x + b, np.where(x > a, x - b, 0))),
}


def test_every_function_is_tested():
    assert set(FUNCTIONS) == {f.value for f in ActivationFunction}


@pytest.mark.parametrize("label", FLOATS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions(run_layer, samples, function, label):
    alpha, beta, definition = FUNCTIONS[function]
    x = np.concatenate([samples.array(label, 600), np.asarray([0.0, 1.0, -1.0, 30.0, -30.0]).astype(samples.dtype(label))])
    [y] = run_layer(lambda net, a: net.activation(a, function, alpha, beta), x)
    assert y.dtype == x.dtype
    exact = definition(x.astype(np.float64), alpha, beta)
    if function == "gelu_tanh":
        # 1 + tanh(u) cancels far below zero, in this definition as in the header: what is left is
        # 2^-53 of x at most, each.
        wide = y.astype(np.float64)
        exact = np.where(np.abs(wide - exact) <= 2.0**-52 * np.abs(x.astype(np.float64)), wide, exact)
    # erfc multiplies the rounding of its argument by the argument's square, here up to 900.
    samples.rounded_equal(y, exact, ulps=2048 if label == "float64" else 1)


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_nan_stays(run_layer, function):
    alpha, beta, _ = FUNCTIONS[function]
    [y] = run_layer(lambda net, a: net.activation(a, function, alpha, beta), np.asarray([np.nan, 1.0], np.float32))
    assert np.isnan(y).tolist() == [True, False]


@pytest.mark.parametrize("shape", [(), (0, 4), (1,), (2, 3, 5), (257,)])
def test_shapes(run_layer, shape):
    x = np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape) - 2, np.float32)
    assert np.array_equal(run_layer(lambda net, a: net.relu(a), x)[0], np.maximum(x, 0))


def test_in_place(run_layer):
    x = np.asarray([-1.0, 2.0, 9.0], np.float32)
    assert run_layer(lambda net, a: net.relu6(a), x, in_place=0)[0].tolist() == [0, 2, 6]


@pytest.mark.parametrize("label", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_clamps_of_integers(run_layer, samples, label):
    x = samples.array(label, 300)
    assert np.array_equal(run_layer(lambda net, a: net.relu(a), x)[0], np.maximum(x, 0))
    [y] = run_layer(lambda net, a: net.activation(a, "bounded_relu", 100.7, -3.5), x)
    assert y.tolist() == [min(max(v, -3), 100) for v in x.tolist()]


@pytest.mark.parametrize("label", ["int8", "uint8"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_quantized(run_layer, samples, function, label):
    alpha, beta, definition = FUNCTIONS[function]
    low, high = (-128, 127) if label == "int8" else (0, 255)
    mine, theirs = Quantization.per_tensor(0.05, low + 120), Quantization.per_tensor(0.04, low + 100)
    x = np.arange(low, high + 1).astype(label)

    def build(net, a):
        y = net.activation(a, function, alpha, beta)
        y.quantization = theirs
        net.infer(y.layer)
        return y

    [y] = run_layer(build, x, quantizations=[mine])
    exact = definition((x.astype(np.float64) - mine.zero_point[0]) * 0.05, alpha, beta) / 0.04 + theirs.zero_point[0]
    # TensorFlow Lite works in float32, hence 0.0001, and in fixed point with more than one rounding
    # for two of the functions.
    allowed = 1.0 if function in ("leaky_relu", "hard_swish") else 0.5001
    assert np.abs(y - np.clip(exact, low, high)).max() <= allowed


@pytest.mark.parametrize("slope", [(), (4,), (3, 1), (1, 3, 1), (2, 3, 4)])
@pytest.mark.parametrize("label", [*FLOATS, "int32", "uint8"])
def test_prelu(run_layer, samples, label, slope):
    x, s = samples.small(label, (2, 3, 4), 1), samples.small(label, slope, 2, maximum=3)
    [y] = run_layer(lambda net, a, b: net.prelu(a, b), x, s, in_place=0)
    samples.same_bits(y, np.where(x.astype(np.float64) < 0, x * s, x).astype(x.dtype))


@pytest.mark.parametrize("label", [*FLOATS, "int8", "uint8", "int64"])
def test_of_bounds_that_cross_the_upper_one_wins(run_layer, samples, label):
    """As in ONNX's Clip: min(max, max(x, min))."""
    x = np.asarray([0, 1, 2, 3, 4, 5, 6]).astype(samples.dtype(label))
    [y] = run_layer(lambda net, a: net.activation(a, "bounded_relu", 2.0, 5.0), x)
    assert np.array_equal(y, np.full_like(x, 2))


def test_of_quantized_bounds_that_cross_the_upper_one_wins(run_layer):
    real = Quantization.per_tensor(0.5, 10)
    x = np.arange(-128, 128).astype(np.int8)

    def build(net, a):
        descriptor = Activation(function=ActivationFunction.BOUNDED_RELU, alpha=2.0, beta=5.0)
        return net.add(descriptor, a, quantization=real).output

    [y] = run_layer(build, x, quantizations=[real])
    assert np.array_equal(y, np.full_like(x, 14))
