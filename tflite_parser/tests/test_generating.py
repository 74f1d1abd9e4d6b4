"""What is made of numbers that lie, are known late, or are no numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operator_models import Given, computed, constant, one_operator

from dovetail import ErrorCode, GraphError, ModelError, UnsupportedModelError
from dovetail_tflite import parse

ONE, ZERO = constant(1, np.float32), constant(0, np.float32)


@pytest.mark.parametrize(
    ("name", "given", "options"),
    [
        ("FILL", [constant([2, -1]), ONE], None),
        ("FILL", [constant([2]), constant([1], np.float32)], None),
        ("FILL", [constant([2]), constant([1, 2], np.float32)], None),
        ("RANGE", [ZERO, ONE, ZERO], None),
        ("RANGE", [ZERO, constant(np.inf, np.float32), ONE], None),
        ("RANGE", [ZERO, constant([1, 2], np.float32), ONE], None),
        ("RANGE", [ZERO, constant(3), ONE], None),
        ("ONE_HOT", [constant([0, 1]), constant(-1), ONE, ZERO], {"axis": -1}),
        ("ONE_HOT", [constant([0, 1]), constant([2, 2]), ONE, ZERO], {"axis": -1}),
        ("ONE_HOT", [constant([0, 1]), constant(2), ONE, ZERO], {"axis": 2}),
        ("ONE_HOT", [constant([0, 1]), constant(2), constant([1, 2], np.float32), ZERO], {"axis": -1}),
        ("ONE_HOT", [constant([0, 1]), constant(2), ONE, constant(1)], {"axis": -1}),
        ("ONE_HOT", [constant([0, 1], np.float32), constant(2), ONE, ZERO], {"axis": -1}),
        ("MATRIX_DIAG", [ONE], None),
    ],
)
def test_numbers_that_do_not_fit_are_refused(name: str, given: list[Given], options: Any) -> None:
    with pytest.raises((GraphError, ModelError)) as caught:
        computed(name, given, options)
    assert not isinstance(caught.value, UnsupportedModelError)
    assert caught.value.code in (
        *(ErrorCode.MODEL_MALFORMED, ErrorCode.ATTRIBUTE_INVALID, ErrorCode.SHAPE_MISMATCH, ErrorCode.DTYPE_MISMATCH),
    )


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_an_index_below_zero_is_in_no_row(is_constant: bool, dtype: Any) -> None:
    indices = Given(np.array([[-1, 0], [2, -3], [7, 1]], dtype), constant=is_constant)
    y = computed("ONE_HOT", [indices, constant(3), constant(5, np.float32), ONE], {"axis": 1})[0]
    wanted = np.where(np.asarray(indices.value)[:, None, :] == np.arange(3)[:, None], 5, 1)
    np.testing.assert_array_equal(y, wanted)


def test_all_of_a_one_hot_may_be_inputs() -> None:
    values = [np.array([1, 0], np.int64), np.array(2, np.int32), np.array(7, np.int16), np.array(-1, np.int16)]
    y = computed("ONE_HOT", [Given(value) for value in values], {"axis": -1}, dtypes=[np.int16])[0]
    assert y.tolist() == [[-1, 7], [7, -1]]


def test_a_diagonal_of_what_is_no_number() -> None:
    """Beside the diagonal there are zeros: not what is no number times zero."""
    x = np.array([[np.nan, np.inf, 2]], np.float32)
    y = computed("MATRIX_DIAG", [Given(x, signature=(-1, -1))])[0]
    np.testing.assert_array_equal(y, [[[np.nan, 0, 0], [0, np.inf, 0], [0, 0, 2]]])


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.bool_])
def test_a_fill_whose_value_is_an_input(dtype: Any) -> None:
    given = [Given(np.array([2, 0, 3], np.int64)), Given(np.array(1, dtype))]
    y = computed("FILL", given, dtypes=[dtype])[0]
    assert (y.shape, y.dtype) == ((2, 0, 3), np.dtype(dtype))


def test_zeros_like_an_open_tensor() -> None:
    x = np.full((3, 2), np.nan, np.float32)
    np.testing.assert_array_equal(computed("ZEROS_LIKE", [Given(x, signature=(-1, -1))])[0], np.zeros((3, 2)))


def test_a_range_whose_ends_are_inputs() -> None:
    given = [Given(np.array(number, np.int32)) for number in (7, -2, -3)]
    assert computed("RANGE", given, dtypes=[np.int32])[0].tolist() == [7, 4, 1]


def test_a_range_as_long_as_memory_is_refused() -> None:
    given = [constant(0, np.int64), constant(2**62, np.int64), constant(1, np.int64)]
    with pytest.raises((GraphError, ModelError)) as caught:
        parse(one_operator("RANGE", given, dtypes=[np.int64]))
    assert caught.value.code in (ErrorCode.LIMIT_EXCEEDED, ErrorCode.ATTRIBUTE_INVALID, ErrorCode.SHAPE_MISMATCH)
