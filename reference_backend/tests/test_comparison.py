"""Comparison and Where against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import DType
from dovetail.layers import ComparisonOperation

LABELS = [d.label for d in DType]
OPERATIONS = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater": np.greater,
    "greater_or_equal": np.greater_equal,
    "less": np.less,
    "less_or_equal": np.less_equal,
}


def test_every_operation_is_tested():
    assert set(OPERATIONS) == {o.value for o in ComparisonOperation}


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_comparison(run_layer, samples, operation, label):
    a = np.concatenate([samples.small(label, 100, 1, maximum=2), samples.array(label, 200, 2)])
    b = np.concatenate([samples.small(label, 100, 3, maximum=2), samples.array(label, 200, 4)])
    b[250:] = a[250:]
    [y] = run_layer(lambda net, p, q: net.comparison(p, q, operation), a, b)
    samples.same_bits(y, OPERATIONS[operation](a, b))


@pytest.mark.parametrize("label", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_special_values(run_layer, samples, operation, label):
    x = np.asarray([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]).astype(samples.dtype(label))
    [y] = run_layer(lambda net, p, q: net.comparison(p, q, operation), x.reshape(6, 1), x)
    wide = x.astype(np.float64)
    samples.same_bits(y, OPERATIONS[operation](wide.reshape(6, 1), wide))


SHAPES = [((), ()), ((3,), ()), ((2, 1, 3), (4, 1)), ((0, 3), (3,)), ((1, 300), (2, 1)), ((2, 3, 4), (2, 3, 4))]


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_broadcast(run_layer, samples, left, right):
    a, b = samples.small("int32", left, 1, maximum=2), samples.small("int32", right, 2, maximum=2)
    samples.same_bits(run_layer(lambda net, p, q: net.comparison(p, q, "less"), a, b)[0], np.asarray(a < b))


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(
    ("condition", "left", "right"),
    [
        ((), (), ()),
        ((5,), (5,), (5,)),
        ((3, 1), (1, 4), ()),
        ((2, 1, 3), (4, 1), (3,)),
        ((0, 1), (1, 2), (1,)),
        ((4,), (), (2, 1)),
    ],
)
def test_where(run_layer, samples, label, condition, left, right):
    c, a, b = samples.array("bool", condition, 1), samples.array(label, left, 2), samples.array(label, right, 3)
    samples.same_bits(run_layer(lambda net, p, q, r: net.where(p, q, r), c, a, b)[0], np.where(c, a, b))


@pytest.mark.parametrize("in_place", [1, 2])
def test_where_in_place(run_layer, in_place):
    c, a, b = np.asarray([True, False] * 3), np.arange(6.0), -np.arange(6.0)
    [y] = run_layer(lambda net, p, q, r: net.where(p, q, r), c, a, b, in_place=in_place)
    assert np.array_equal(y, np.where(c, a, b))


def test_cancelled(run_layer, direct):
    x = np.zeros((300, 300), np.float32)
    with pytest.raises(direct.Cancelled):
        run_layer(lambda net, a, b: net.comparison(a, b, "less"), x, x, cancel=True)
