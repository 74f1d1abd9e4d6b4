"""Reductions against NumPy in float64, with each instruction set of this machine."""

import itertools

import numpy as np
import pytest

from dovetail_neon.rows.stages import stages_of


def log_sum_exp(x, axis):
    greatest = x.max(axis=axis, keepdims=True, initial=-np.inf)
    greatest = np.where(np.isfinite(greatest), greatest, 0)
    return np.log(np.exp(x - greatest).sum(axis=axis)) + greatest.reshape(np.sum(x, axis=axis).shape)


REFERENCES = {
    "sum": np.sum,
    "mean": lambda x, axis: np.sum(x, axis=axis) / (x.size // max(np.sum(x, axis=axis).size, 1)),
    "max": lambda x, axis: np.max(x, axis=axis, initial=-np.inf),
    "min": lambda x, axis: np.min(x, axis=axis, initial=np.inf),
    "prod": np.prod,
    "l1": lambda x, axis: np.sum(abs(x), axis=axis),
    "l2": lambda x, axis: np.sqrt(np.sum(x * x, axis=axis)),
    "sum_square": lambda x, axis: np.sum(x * x, axis=axis),
    "log_sum": lambda x, axis: np.log(np.sum(x, axis=axis)),
    "log_sum_exp": log_sum_exp,
}


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def check(run_layer, function, x, axes, keep_dims=False):
    [y] = run_layer(lambda net, a: net.reduce(a, function, axes, keep_dims=keep_dims), x)
    every = tuple(range(x.ndim)) if axes is None else axes
    expected = REFERENCES[function](x.astype(np.float64), every)
    terms = np.sum(abs(x.astype(np.float64)), axis=every)
    if keep_dims:
        shape = tuple(1 if axis in every else size for axis, size in enumerate(x.shape))
        expected, terms = np.reshape(expected, shape), np.reshape(terms, shape)
    assert y.shape == expected.shape
    beside = 1e-6 * (terms if function in ("sum", "log_sum") else terms / x.size if function == "mean" else 1.0)
    if function == "log_sum":
        beside = beside / abs(np.sum(x.astype(np.float64), axis=every))
    right = (abs(y - expected) <= 1e-5 * abs(expected) + beside) | (y == expected) | (np.isnan(y) & np.isnan(expected))
    assert right.all(), (y[~right][:3], expected[~right][:3])


@pytest.mark.parametrize("function", REFERENCES)
@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 17, 33), (2, 70, 1), (130, 2, 19)])
def test_any_axes(run_layer, function, shape):
    x = np.random.default_rng(1).uniform(0.5, 1.5, shape).astype(np.float32)
    if function not in ("prod", "log_sum"):
        x *= np.random.default_rng(2).choice([-1, 1], shape).astype(np.float32)
    for count in range(len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), count):
            check(run_layer, function, x, axes)
    check(run_layer, function, x, None, keep_dims=True)
    check(run_layer, function, x, (1,), keep_dims=True)


@pytest.mark.parametrize("function", ["sum", "mean", "max", "l2", "log_sum_exp"])
def test_runs_of_reduced_axes(run_layer, function):
    x = np.random.default_rng(3).standard_normal((2, 3, 2, 5, 3, 2, 3, 4)).astype(np.float32)
    check(run_layer, function, x, (0, 2, 4, 6))
    check(run_layer, function, x, (1, 3, 5, 7))


@pytest.mark.parametrize("function", ["sum", "mean", "min", "log_sum_exp"])
@pytest.mark.parametrize("size", [1, 63, 1000, 100_000, 65_537])
def test_long_rows(run_layer, function, size):
    check(run_layer, function, np.random.default_rng(4).standard_normal(size).astype(np.float32), None)


@pytest.mark.parametrize("function", REFERENCES)
def test_no_elements(run_layer, function):
    [y] = run_layer(lambda net, a: net.reduce(a, function, (1,)), np.zeros((3, 0), np.float32))
    neutral = {"mean": np.nan, "max": -np.inf, "min": np.inf, "prod": 1.0, "log_sum": -np.inf, "log_sum_exp": -np.inf}
    np.testing.assert_array_equal(y, np.full(3, neutral.get(function, 0.0), np.float32))
    [y] = run_layer(lambda net, a: net.reduce(a, function, (1,)), np.zeros((0, 3), np.float32))
    assert y.shape == (0,)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("function", ["sum", "max", "min", "l2", "log_sum_exp"])
def test_values_that_are_not_finite(run_layer, function, axis):
    x = np.random.default_rng(5).standard_normal((40, 41)).astype(np.float32)
    x[0], x[1], x[2, 3], x[3, 40], x[39, 5], x[:, 7] = np.inf, -np.inf, np.nan, np.inf, np.nan, -np.inf
    check(run_layer, function, x, (axis,))


def test_stages():
    assert stages_of((2, 3, 4, 5), (0, 2, 3)) == [(6, 20, 1), (1, 2, 3)]
    assert stages_of((2, 1, 4), (1,)) == [(1, 1, 8)]
    assert stages_of((), ()) == [(1, 1, 1)]
    assert stages_of((3, 0), (1,)) == [(3, 0, 1)]
    assert stages_of((1 << 16,), (0,)) == [(32, 2048, 1), (1, 32, 1)]
