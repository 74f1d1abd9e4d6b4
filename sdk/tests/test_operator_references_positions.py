"""References that pick and place by position, against examples of ONNX's specification."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import DType
from dovetail.layers import ScatterReduction
from dovetail_sdk.conformance.operators.gather import gathered
from dovetail_sdk.conformance.operators.gather_elements import gathered_elements
from dovetail_sdk.conformance.operators.gather_nd import gathered_by_position
from dovetail_sdk.conformance.operators.one_hot import hot
from dovetail_sdk.conformance.operators.trilu import triangle
from dovetail_sdk.conformance.references.positions import indices, places
from dovetail_sdk.conformance.references.scattering import MEET, operands, scattered


def test_gather():
    x = np.asarray([[1.0, 1.2], [2.3, 3.4], [4.5, 5.7]])
    assert gathered(x, np.asarray([[0, 1], [1, 2]]), 0, 0).tolist() == [[[1.0, 1.2], [2.3, 3.4]], [[2.3, 3.4], [4.5, 5.7]]]
    x = np.asarray([[1.0, 1.2, 1.9], [2.3, 3.4, 3.9], [4.5, 5.7, 5.9]])
    assert gathered(x, np.asarray([[0, 2]]), 1, 0).tolist() == [[[1.0, 1.9]], [[2.3, 3.9]], [[4.5, 5.9]]]
    assert gathered(x, np.asarray(-1), 0, 0).tolist() == [4.5, 5.7, 5.9]


def test_gather_with_a_batch():
    """TensorFlow, tf.gather: each row of indices picks from its own row of the input."""
    x = np.asarray([[0, 0, 1, 0, 2], [3, 0, 0, 0, 4], [0, 5, 0, 6, 0]])
    assert gathered(x, np.asarray([[2, 4], [0, 4], [1, 3]]), 1, 1).tolist() == [[1, 2], [3, 4], [5, 6]]


def test_gather_elements():
    assert gathered_elements(np.asarray([[1, 2], [3, 4]]), np.asarray([[0, 0], [1, 0]]), 1).tolist() == [[1, 1], [4, 3]]
    x = np.arange(1, 10).reshape(3, 3)
    assert gathered_elements(x, np.asarray([[1, 2, 0], [2, 0, 0]]), 0).tolist() == [[4, 8, 3], [7, 2, 3]]
    assert gathered_elements(x, np.asarray([[-1, -2, 0], [-2, 0, 0]]), 0).tolist() == [[7, 5, 3], [4, 2, 3]]


@pytest.mark.parametrize(
    ("shape", "index", "batch", "expected"),
    [
        ((2, 2), [[0, 0], [1, 1]], 0, [0, 3]),
        ((2, 2), [[1], [0]], 0, [[2, 3], [0, 1]]),
        ((2, 2, 2), [[0, 1], [1, 0]], 0, [[2, 3], [4, 5]]),
        ((2, 2, 2), [[[0, 1]], [[1, 0]]], 0, [[[2, 3]], [[4, 5]]]),
        ((2, 2, 2), [[1], [0]], 1, [[2, 3], [4, 5]]),
    ],
)
def test_gather_nd(shape, index, batch, expected):
    x = np.arange(np.prod(shape)).reshape(shape)
    assert gathered_by_position(x, np.asarray(index), batch).tolist() == expected


def test_scatter_elements():
    x = np.asarray([[1.0, 2.0, 3.0, 4.0, 5.0]])
    updates = [((0, 1), np.float64(1.1)), ((0, 3), np.float64(2.1))]
    assert scattered(x, updates, ScatterReduction.NONE, DType.FLOAT64).tolist() == [[1.0, 1.1, 3.0, 2.1, 5.0]]
    same = [((0, 1), np.float64(1.5)), ((0, -4), np.float64(2.0))]
    assert scattered(x, same, ScatterReduction.ADD, DType.FLOAT64).tolist() == [[1.0, 5.5, 3.0, 4.0, 5.0]]
    assert scattered(x, same, ScatterReduction.MUL, DType.FLOAT64).tolist() == [[1.0, 6.0, 3.0, 4.0, 5.0]]
    assert scattered(x, same, ScatterReduction.MIN, DType.FLOAT64).tolist() == [[1.0, 1.5, 3.0, 4.0, 5.0]]
    assert scattered(x, same, ScatterReduction.MAX, DType.FLOAT64).tolist() == [[1.0, 2.0, 3.0, 4.0, 5.0]]
    assert set(MEET) == set(ScatterReduction)


def test_scatter_nd():
    x = np.arange(1, 9)
    updates = [((4,), 9), ((3,), 10), ((1,), 11), ((7,), 12)]
    assert scattered(x, updates, ScatterReduction.NONE, DType.INT64).tolist() == [1, 11, 3, 10, 9, 6, 7, 12]
    assert x.tolist() == list(range(1, 9))


def test_scattered_bfloat16_meets_as_real_numbers():
    one, two = np.asarray([0x3F80], np.uint16), np.uint16(0x4000)
    assert scattered(one, [((0,), two)], ScatterReduction.ADD, DType.BFLOAT16).tolist() == [3.0]


@pytest.mark.parametrize("reduction", [ScatterReduction.ADD, ScatterReduction.MUL])
def test_sums_and_products_fit_the_narrowest_type(reduction):
    x, updates = operands(DType.INT8, (50,), (50,), reduction, np.random.default_rng(1))
    maximum, widest = int(np.abs(x).max()), int(np.abs(updates).max())
    assert (maximum + 8 * widest if reduction is ScatterReduction.ADD else maximum * widest**3) <= 127


def test_one_hot():
    off_on = np.asarray([1.0, 3.0])
    assert hot(np.asarray([0, -1, 5]), 3, off_on, 1).tolist() == [[3, 1, 1], [1, 1, 3], [1, 1, 1]]
    assert hot(np.asarray([0, -3, -4]), 3, off_on, 0).tolist() == [[3, 3, 1], [1, 1, 1], [1, 1, 1]]


def test_trilu():
    x = np.arange(12).reshape(3, 4)
    for k in (-2, 0, 1, 9):
        assert np.array_equal(triangle(x, True, k), np.triu(x, k))
        assert np.array_equal(triangle(x, False, k), np.tril(x, k))


# -- positions -------------------------------------------------------------------------------------


def test_indices_reach_both_ends():
    rng = np.random.default_rng(2)
    found = indices("int32", (3, 4), 5, True, rng)
    assert (found.dtype, found.shape, found.min(), found.max()) == (np.int32, (3, 4), -5, 4)
    assert indices("int64", (20,), 5, False, rng).min() == 0
    assert indices("int64", (2,), 0, False, rng) is None
    assert indices("int64", (0,), 0, False, rng).shape == (0,)


@pytest.mark.parametrize("negative", [False, True])
def test_no_place_comes_twice(negative):
    found = places("int64", 12, (3, 4), negative, np.random.default_rng(3))
    assert {(int(a) % 3, int(b) % 4) for a, b in found} == {(a, b) for a in range(3) for b in range(4)}
    assert (found.min() < 0) == negative
    assert places("int64", 13, (3, 4), negative, np.random.default_rng(3)) is None
    assert places("int64", 0, (3, 4), negative, np.random.default_rng(3)).shape == (0, 2)
