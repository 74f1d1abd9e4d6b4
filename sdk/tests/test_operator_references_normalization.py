"""References of the normalizations, against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import DataLayout, DType
from dovetail_sdk.conformance.operators.batch_normalization import channel_axis
from dovetail_sdk.conformance.operators.local_response_normalization import normalized_by_neighbours
from dovetail_sdk.conformance.operators.lp_normalization import divided_by_norm
from dovetail_sdk.conformance.references.moments import normalized, tolerance


def test_mean_and_variance():
    # Mean 3, variance 8; with epsilon 1 the deviation is 3.
    rows = np.array([[-1.0, 1.0, 5.0, 7.0], [3.0, 3.0, 3.0, 3.0]])
    spread = np.sqrt(10 + 1)
    assert normalized(rows, 1.0) == pytest.approx(np.array([[-4, -2, 2, 4], [0, 0, 0, 0]]) / [[spread], [1.0]])


def test_without_the_mean():
    # Mean square of 1, 7, 5, 5 is 25.
    assert normalized(np.array([1.0, 7.0, -5.0, 5.0]), 0.0, center=False).tolist() == [0.2, 1.4, -1.0, 1.0]


@pytest.mark.parametrize("dtype", [DType.FLOAT64, DType.FLOAT32])
def test_bound_holds_for_the_plain_way_and_sees_a_missing_element(dtype):
    rows = np.random.default_rng(3).uniform(-4, 4, (50, 20)).astype(dtype.numpy)
    exact = normalized(rows.astype(np.longdouble).astype(np.float64), 1e-5)
    mean = rows.mean(-1, keepdims=True, dtype=dtype.numpy)
    square = (rows * rows).mean(-1, keepdims=True, dtype=dtype.numpy)
    one_pass = (rows - mean) / np.sqrt(square - mean * mean + dtype.numpy.type(1e-5))
    bound = tolerance(rows.astype(np.float64), 1e-5, 1.0, 0.0, dtype)
    allowed = bound.absolute + bound.relative * np.abs(exact)
    assert (np.abs(one_pass - exact) <= allowed).all()
    short = normalized(rows[:, :-1].astype(np.float64), 1e-5)
    assert (np.abs(short - exact[:, :-1]) > allowed[:, :-1]).any(-1).all()


def test_norms():
    x = np.array([[3.0, -4.0], [0.5, 0.25]])
    assert divided_by_norm(x, 1, 2, 0.0)[0].tolist() == [0.6, -0.8]
    assert divided_by_norm(x, 1, 1, 1.0).tolist() == [[3 / 7, -4 / 7], [0.5, 0.25]]


def test_neighbouring_channels():
    x = np.array([[1.0, 2.0, 3.0, 4.0]])
    # Two channels: c and the one after it. Squares 1 + 4, 4 + 9, 9 + 16, 16.
    even = normalized_by_neighbours(x, 1, 2, 2.0, 1.0, 1.0)
    assert even == pytest.approx(np.array([[1 / 6, 2 / 14, 3 / 26, 4 / 17]]))
    odd = normalized_by_neighbours(x, 1, 3, 3.0, 1.0, 1.0)
    assert odd == pytest.approx(np.array([[1 / 6, 2 / 15, 3 / 30, 4 / 26]]))


def test_where_the_channels_are():
    assert [channel_axis(DataLayout.NCHW, rank) for rank in (0, 1, 2, 4)] == [None, None, 1, 1]
    assert [channel_axis(DataLayout.NHWC, rank) for rank in (0, 1, 2, 4)] == [None, 0, 1, 3]
