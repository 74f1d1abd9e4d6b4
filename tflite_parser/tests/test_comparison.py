"""Comparisons and choice against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from one_operator import Held, Stated, made, real, run

from dovetail import DovetailError
from dovetail_tflite import parse

FUNCTIONS = {
    "EQUAL": np.equal,
    "NOT_EQUAL": np.not_equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
    "LESS": np.less,
    "LESS_EQUAL": np.less_equal,
}


@pytest.mark.parametrize("operator", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
def test_integers_of_several_scales(operator: str, dtype: type) -> None:
    mine, other = (0.5, 3), (0.25, 10)
    a, b = np.arange(20, 60).astype(dtype), np.arange(30, 110, 2).astype(dtype)
    b[::3] = (a[::3].astype(int) - 3) * 2 + 10  # the same number
    (found,) = run(operator, [Held(a, mine), Held(b, other)], [Stated(np.bool_, (40,))])
    np.testing.assert_array_equal(found, FUNCTIONS[operator](real(a, mine), real(b, other)))


@pytest.mark.parametrize("dtype", [np.bool_, np.int16, np.int64, np.float32])
def test_equality(dtype: type) -> None:
    a, b = np.asarray([0, 1, 1], dtype), np.asarray([[0], [1]], dtype)
    (found,) = run("EQUAL", [a, b], [Stated(np.bool_, (2, 3))])
    np.testing.assert_array_equal(found, a == b)


def test_select_of_rows() -> None:
    a, b = np.arange(12, dtype=np.int32).reshape(3, 2, 2), -np.arange(12, dtype=np.int32).reshape(3, 2, 2)
    condition = np.asarray([True, False, True])
    (found,) = run("SELECT", [condition, a, b], [Stated(np.int32, a.shape)])
    np.testing.assert_array_equal(found, np.where(condition[:, None, None], a, b))


@pytest.mark.parametrize("operator", ["SELECT", "SELECT_V2"])
def test_select_by_one_condition(operator: str) -> None:
    a, b = np.asarray([1, 2], np.int8), np.asarray([3, 4], np.int8)
    (found,) = run(operator, [np.asarray(False), a, b], [Stated(np.int8, (2,))], version=2)
    np.testing.assert_array_equal(found, b)


def test_select_of_several_scales() -> None:
    a, b, condition = np.asarray([10, 20], np.int8), np.asarray([30, 40], np.int8), np.asarray([True, False])
    (found,) = run(
        "SELECT_V2", [condition, Held(a, (0.5, 0)), Held(b, (0.25, 0))], [Stated(np.int8, (2,), (0.5, -1))], version=2
    )
    np.testing.assert_array_equal(found, [9, 19])


def test_types_that_differ() -> None:
    data, _ = made("LESS", [np.ones(2, np.float32), np.ones(2, np.int32)], [Stated(np.bool_, (2,))])
    with pytest.raises(DovetailError, match="dtypes"):
        parse(data)
