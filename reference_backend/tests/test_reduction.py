"""Reduce and CumulativeSum against NumPy in float64 and exact integers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dovetail import DType, Quantization
from dovetail.layers import ReduceFunction

FLOATS = ["float64", "float32", "float16", "bfloat16"]
INTEGERS = [d.label for d in DType if d.is_integer]


def _log_sum_exp(x, axis, keepdims):
    return np.logaddexp.reduce(x, axis=axis, keepdims=keepdims)


def _over(function):
    def reduce(x, axis, keepdims):
        # logaddexp.reduce takes one axis only: go one by one, from the last.
        for a in sorted(axis, reverse=True):
            x = function(x, a, True)
        return x if keepdims else np.squeeze(x, axis=tuple(axis))

    return reduce


FUNCTIONS = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "l1": lambda x, axis, keepdims: np.sum(np.abs(x), axis=axis, keepdims=keepdims),
    "l2": lambda x, axis, keepdims: np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims)),
    "sum_square": lambda x, axis, keepdims: np.sum(x * x, axis=axis, keepdims=keepdims),
    "log_sum": lambda x, axis, keepdims: np.log(np.sum(x, axis=axis, keepdims=keepdims)),
    "log_sum_exp": _over(_log_sum_exp),
}


def test_every_function_is_tested():
    assert set(FUNCTIONS) == {f.value for f in ReduceFunction}


@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_all_axes(run_layer, samples, function, keep_dims):
    x = np.abs(samples.array("float32", (3, 4, 5, 2)))
    for count in range(5):
        for axes in itertools.combinations(range(4), count):
            [y] = run_layer(lambda net, a, axes=axes: net.reduce(a, function, axes, keep_dims=keep_dims), x)
            samples.rounded_equal(y, np.asarray(FUNCTIONS[function](x.astype(np.float64), axis=axes, keepdims=keep_dims)))


@pytest.mark.parametrize("label", FLOATS)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("axes", [None, (1,), (-1,), (0, 2)])
def test_floats(run_layer, samples, label, function, axes):
    x = samples.array(label, (5, 7, 301), scale=1.0)
    named = (0, 1, 2) if axes is None else tuple(a % 3 for a in axes)
    with np.errstate(all="ignore"):
        [y] = run_layer(lambda net, a: net.reduce(a, function, axes), x)
        exact = np.asarray(FUNCTIONS[function](x.astype(np.float64), axis=named, keepdims=False))
        if label == "float64":
            np.testing.assert_allclose(y, exact, rtol=1e-9, atol=1e-12)  # sums in another order
        else:
            samples.rounded_equal(y, exact)


EXACT = {
    "sum": sum,
    "prod": math.prod,
    "max": max,
    "min": min,
    "l1": lambda v: sum(map(abs, v)),
    "sum_square": lambda v: sum(x * x for x in v),
}


@pytest.mark.parametrize("label", INTEGERS)
@pytest.mark.parametrize("function", EXACT)
def test_integers_wrap(run_layer, samples, label, function):
    x = samples.array(label, (6, 9))
    [y] = run_layer(lambda net, a: net.reduce(a, function, 1), x)
    assert y.tolist() == [samples.wrapped(EXACT[function](row), label) for row in x.tolist()]


@pytest.mark.parametrize("label", INTEGERS)
def test_mean_of_integers_truncates(run_layer, samples, label):
    x = samples.small(label, (20, 7), maximum=40)
    [y] = run_layer(lambda net, a: net.mean(a, 1), x)
    assert y.tolist() == [math.trunc(sum(row) / 7) for row in x.tolist()]


def test_l2_of_integers_truncates(run_layer):
    x = np.asarray([[3, 4], [1, 1], [2, 2]], np.int32)
    assert run_layer(lambda net, a: net.reduce(a, "l2", 1), x)[0].tolist() == [5, 1, 2]


EMPTY = {
    "sum": 0,
    "prod": 1,
    "max": -np.inf,
    "min": np.inf,
    "l1": 0,
    "l2": 0,
    "sum_square": 0,
    "log_sum": -np.inf,
    "log_sum_exp": -np.inf,
    "mean": np.nan,
}


@pytest.mark.parametrize("label", FLOATS)
@pytest.mark.parametrize("function", EMPTY)
def test_over_no_elements_is_neutral(run_layer, samples, label, function):
    [y] = run_layer(lambda net, a: net.reduce(a, function, 1), np.zeros((3, 0, 2), samples.dtype(label)))
    assert np.array_equal(y.astype(np.float64), np.full((3, 2), EMPTY[function]), equal_nan=True)


@pytest.mark.parametrize("label", INTEGERS)
def test_extremes_over_no_elements(run_layer, label):
    x, limits = np.zeros((2, 0), label), np.iinfo(label)
    assert run_layer(lambda net, a: net.reduce(a, "max", 1), x)[0].tolist() == [limits.min] * 2
    assert run_layer(lambda net, a: net.reduce(a, "min", 1), x)[0].tolist() == [limits.max] * 2
    assert run_layer(lambda net, a: net.reduce(a, "mean", 1), x)[0].tolist() == [0, 0]


def test_bool(run_layer):
    x = np.asarray([[True, False], [True, True], [False, False]])
    assert run_layer(lambda net, a: net.reduce(a, "max", 1), x)[0].tolist() == [True, True, False]
    assert run_layer(lambda net, a: net.reduce(a, "min", 1), x)[0].tolist() == [False, True, False]
    assert run_layer(lambda net, a: net.reduce(a, "min", 1), np.zeros((1, 0), bool))[0].tolist() == [True]
    assert run_layer(lambda net, a: net.reduce(a, "max", 1), np.zeros((1, 0), bool))[0].tolist() == [False]


def test_nan_wins(run_layer):
    x = np.asarray([[1, np.nan, 3], [np.nan, -np.inf, np.inf]], np.float32)
    for function in ("max", "min"):
        assert np.isnan(run_layer(lambda net, a, f=function: net.reduce(a, f, 1), x)[0]).all()


def test_log_sum_exp_of_large_and_infinite(run_layer):
    x = np.asarray([[1000, 1000], [-1000, -1000], [np.inf, 0], [-np.inf, -np.inf], [np.nan, np.inf]], np.float32)
    [y] = run_layer(lambda net, a: net.reduce(a, "log_sum_exp", 1), x)
    expected = np.asarray([1000 + math.log(2), -1000 + math.log(2), np.inf, -np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(y, expected)


def test_scalar_and_empty_result(run_layer):
    assert run_layer(lambda net, a: net.reduce(a, "sum"), np.asarray(3.5, np.float32))[0] == 3.5
    assert run_layer(lambda net, a: net.reduce(a, "sum", 1), np.zeros((0, 3), np.float32))[0].shape == (0,)


def test_float32_sums_in_double(run_layer):
    x = np.asarray([1e8] + [1.0] * 1000 + [-1e8], np.float32)
    assert run_layer(lambda net, a: net.reduce(a, "sum"), x)[0] == 1000


@pytest.mark.parametrize("label", ["int8", "uint8"])
@pytest.mark.parametrize("function", ["mean", "sum", "max", "min"])
def test_quantized(run_layer, samples, label, function):
    low, high = (-128, 127) if label == "int8" else (0, 255)
    mine, theirs = Quantization.per_tensor(0.05, low + 100), Quantization.per_tensor(0.2, low + 130)
    x = samples.array(label, (4, 6, 5))

    def build(net, a):
        y = net.reduce(a, function, (0, 2))
        y.quantization = theirs
        net.infer(y.layer)
        return y

    [y] = run_layer(build, x, quantizations=[mine])
    real = getattr(np, function)((x.astype(np.float64) - mine.zero_point[0]) * 0.05, axis=(0, 2))
    assert np.abs(y - np.clip(real / 0.2 + theirs.zero_point[0], low, high)).max() <= 0.5 + 1e-9


# -- running sum -----------------------------------------------------------------------------------


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("label", [*FLOATS, "int8", "int64", "uint16"])
def test_cumulative_sum(run_layer, samples, label, axis, reverse, exclusive):
    x = samples.small(label, (3, 4, 5), maximum=5)
    [y] = run_layer(lambda net, a: net.cumulative_sum(a, axis, exclusive=exclusive, reverse=reverse), x, in_place=0)
    wide = np.flip(x, axis).astype(np.float64) if reverse else x.astype(np.float64)
    total = np.cumsum(wide, axis=axis) - (wide if exclusive else 0)
    samples.same_bits(y, (np.flip(total, axis) if reverse else total).astype(x.dtype))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2), (700,)])
def test_cumulative_sum_of_odd_shapes(run_layer, shape):
    x = np.ones(shape, np.int32)
    for reverse in (False, True):
        [y] = run_layer(lambda net, a, r=reverse: net.cumulative_sum(a, len(shape) - 1, reverse=r), x)
        assert np.array_equal(y, np.flip(np.cumsum(x, -1), -1) if reverse else np.cumsum(x, -1))


@pytest.mark.parametrize("build", [lambda net, a: net.reduce(a, "sum"), lambda net, a: net.cumulative_sum(a, 0)])
def test_cancelled(run_layer, direct, build):
    with pytest.raises(direct.Cancelled):
        run_layer(build, np.zeros(200_000, np.float32), cancel=True)
