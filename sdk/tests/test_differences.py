"""How far two tensors are apart in numbers, and what is too far."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from dovetail import DType, Quantization
from dovetail.optimizer import TensorSpec
from dovetail_sdk.differences import ONE_QUANTIZED, QUANTIZED, Difference, default_tolerance, real_values

STEP = Quantization((0.05,), (3,))


def spec(dtype: DType, quantization: Quantization | None = None) -> TensorSpec:
    return TensorSpec("t", (2, 2), dtype, quantization)


def test_numbers_of_a_difference() -> None:
    found = Difference()
    found.add(np.array([3.0, -4.0, 0.0, np.nan, np.inf]), np.array([3.0, -2.0, 1.0, np.nan, -np.inf]))
    assert (found.elements, found.different, found.unlike) == (5, 3, 1)
    assert (found.nan, found.infinite) == ([1, 1], [1, 1])
    assert (found.max_abs, found.mean_abs, found.max_relative) == (2.0, 1.0, 0.5)
    assert found.snr == pytest.approx(10 * math.log10(25 / 5))
    assert found.cosine == pytest.approx(17 / math.sqrt(25 * 14))
    assert found.is_beyond(100)
    json.dumps(found.as_dict(), allow_nan=False)


def test_nothing_zero_and_all_infinite_have_numbers_too() -> None:
    empty, zeros, wrong = Difference(), Difference(), Difference()
    empty.add(np.empty(0), np.empty(0))
    zeros.add(np.zeros(3), np.zeros(3))
    wrong.add(np.zeros(3), np.ones(3))
    assert [one.cosine for one in (empty, zeros, wrong)] == [1, 1, 0]
    assert [one.snr for one in (empty, zeros, wrong)] == [math.inf, math.inf, -math.inf]
    assert [one.is_beyond(0.1) for one in (empty, zeros, wrong)] == [False, False, True]
    for one in (empty, zeros, wrong):
        json.dumps(one.as_dict(), allow_nan=False)


def test_what_tensors_stand_for() -> None:
    per_axis = Quantization((0.5, 2.0), (1, 0), axis=1)
    np.testing.assert_array_equal(real_values(np.array([[3, 3]], np.int8), spec(DType.INT8, per_axis)), [[1, 6]])
    np.testing.assert_array_equal(real_values(np.array(5, np.int8), spec(DType.INT8, STEP)), 0.1)
    np.testing.assert_array_equal(real_values(np.array([0x3F80], np.uint16), spec(DType.BFLOAT16)), [1.0])


def test_tolerances_go_by_type() -> None:
    plain, mixed, both = (False, False), (False, True), (True, True)
    assert default_tolerance(spec(DType.FLOAT32), spec(DType.FLOAT32), plain) == 1e-4
    assert default_tolerance(spec(DType.FLOAT32), spec(DType.FLOAT16), plain) == 5e-3
    assert default_tolerance(spec(DType.FLOAT32), spec(DType.INT8, STEP), mixed) == ONE_QUANTIZED
    assert default_tolerance(spec(DType.INT8, STEP), spec(DType.INT8, STEP), both) == QUANTIZED
    assert default_tolerance(spec(DType.INT64), spec(DType.INT64), both) == 0
    assert default_tolerance(spec(DType.FLOAT32), spec(DType.FLOAT32), plain, ("float32", "float16")) == 5e-3
    assert default_tolerance(spec(DType.FLOAT32), spec(DType.FLOAT32), plain, ("float16", "float16")) == 1e-4


def test_one_step_of_a_quantized_tensor_is_allowed() -> None:
    found = Difference(step=0.1)
    found.add(np.array([0.1, 0.2]), np.array([0.2, 0.3]))
    assert not found.is_beyond(QUANTIZED)
    found.add(np.array([0.1]), np.array([0.35]))
    assert found.is_beyond(QUANTIZED)
