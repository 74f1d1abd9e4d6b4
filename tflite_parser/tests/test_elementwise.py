"""Arithmetic against NumPy: corners of the types, and signs that golden outputs do not have."""

from __future__ import annotations

import numpy as np
import pytest
from one_operator import Held, Stated, made, real, run, steps_apart

import dovetail
from dovetail import DovetailError, ModelError
from dovetail_tflite import parse


@pytest.mark.parametrize("dtype", [np.int32, np.int16, np.int8])
def test_floor_division_of_integers(dtype: type) -> None:
    limits = np.iinfo(dtype)
    corners = np.asarray([limits.min, limits.min + 1, -7, -3, -1, 1, 2, 3, 7, limits.max], dtype)
    a, b = corners[:, None], corners[None, :]
    (found,) = run("FLOOR_DIV", [a, b], [Stated(dtype, (10, 10))], version=3)
    expected = (a.astype(np.int64) // b.astype(np.int64)).astype(dtype)  # the least one by -1 wraps
    np.testing.assert_array_equal(found, expected)


def test_floor_division_of_floats() -> None:
    a, b = np.asarray([7.0, -7.0, 7.0, -7.5, 6.0], np.float32), np.asarray([2.0, 2.0, -2.0, -2.5, 3.0], np.float32)
    (found,) = run("FLOOR_DIV", [a, b], [Stated(np.float32, (5,))], version=2)
    np.testing.assert_array_equal(found, np.floor_divide(a, b))


def test_remainder_has_the_sign_of_the_divisor() -> None:
    a, b = np.asarray([7, -7, 7, -7, 6], np.int64), np.asarray([3, 3, -3, -3, -3], np.int64)
    (found,) = run("FLOOR_MOD", [a, b], [Stated(np.int64, (5,))])
    np.testing.assert_array_equal(found, np.mod(a, b))


def test_division_of_integers_is_cut_off() -> None:
    a, b = np.asarray([7, -7, 7, -7], np.int32), np.asarray([2, 2, -2, -2], np.int32)
    (found,) = run("DIV", [a, b], [Stated(np.int32, (4,))], {"fused_activation_function": 0})
    np.testing.assert_array_equal(found, [3, -3, -3, 3])


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32])
def test_right_shift_keeps_the_sign(dtype: type) -> None:
    limits = np.iinfo(dtype)
    a, b = np.asarray([[limits.min], [limits.max], [100]], dtype), np.arange(limits.bits, dtype=dtype)[None]
    (found,) = run("RIGHT_SHIFT", [a, b], [Stated(dtype, (3, limits.bits))])
    np.testing.assert_array_equal(found, np.right_shift(a, b))


def test_exclusive_or() -> None:
    a, b = np.asarray([0b1100, -1], np.int32), np.asarray([0b1010, 5], np.int32)
    (found,) = run("BITWISE_XOR", [a, b], [Stated(np.int32, (2,))])
    np.testing.assert_array_equal(found, np.bitwise_xor(a, b))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_angle(dtype: type) -> None:
    largest, least = np.finfo(dtype).max, np.finfo(dtype).tiny
    corners = np.asarray([0.0, -0.0, 1.0, -1.0, 0.3, -7.0, np.inf, -np.inf, largest, -largest, least, np.nan], dtype)
    y, x = (np.broadcast_to(axis, (12, 12)).copy() for axis in (corners[:, None], corners[None]))
    (found,) = run("ATAN2", [y, x], [Stated(dtype, (12, 12))])
    expected = np.arctan2(y.astype(np.float64), x.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).tiny)
    np.testing.assert_array_equal(np.signbit(found)[~np.isnan(expected)], np.signbit(expected)[~np.isnan(expected)])


@pytest.mark.parametrize(("code", "low", "high"), [(1, 0.0, np.inf), (2, -1.0, 1.0), (3, 0.0, 6.0)])
@pytest.mark.parametrize("operator", ["ADD", "SUB", "MUL", "DIV"])
def test_fused_clamps(operator: str, code: int, low: float, high: float) -> None:
    a, b = np.asarray([-9.0, -0.5, 0.5, 9.0], np.float32), np.asarray([[2.0], [-0.5]], np.float32)
    (found,) = run(operator, [a, b], [Stated(np.float32, (2, 4))], {"fused_activation_function": code})
    function = {"ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "DIV": np.divide}[operator]
    np.testing.assert_array_equal(found, np.clip(function(a, b), low, high))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
def test_fused_tanh_of_integers(dtype: type) -> None:
    zero = 128 if dtype is np.uint8 else 0
    mine, theirs = (0.02, zero), (1 / 128, zero)
    x = np.arange(zero - 100, zero + 100, dtype=np.int64).astype(dtype)
    held = Held(x, mine)
    (found,) = run("ADD", [held, held], [Stated(dtype, (200,), theirs)], {"fused_activation_function": 4}, version=3)
    assert steps_apart(found, np.tanh(2 * real(x, mine)), theirs) <= 0.51


def test_fused_sign_bit_is_reported() -> None:
    x = np.ones(2, np.float32)
    with pytest.raises(ModelError, match="fused activation 5"):
        run("ADD", [x, x], [Stated(np.float32, (2,))], {"fused_activation_function": 5})


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
@pytest.mark.parametrize(
    ("operator", "function"),
    [("DIV", np.divide), ("SQUARED_DIFFERENCE", lambda a, b: (a - b) ** 2), ("MAXIMUM", np.maximum), ("MINIMUM", np.minimum)],
)
def test_integers_of_several_scales(operator: str, function: np.ufunc, dtype: type) -> None:
    zero = 128 if dtype is np.uint8 else 0
    mine, other, theirs = (0.05, zero), (0.03, zero), (0.1, zero)
    rng = np.random.default_rng(3)
    a, b = (rng.integers(zero + 20, zero + 120, 50).astype(dtype) for _ in range(2))
    options = {"fused_activation_function": 0} if operator == "DIV" else None
    (found,) = run(operator, [Held(a, mine), Held(b, other)], [Stated(dtype, (50,), theirs)], options, version=2)
    assert steps_apart(found, function(real(a, mine), real(b, other)), theirs) <= 0.51


@pytest.mark.parametrize("operator", ["LOG", "RSQRT"])
def test_integers_that_are_not_positive(operator: str) -> None:
    """The logarithm is the least number there is, the inverse root the largest."""
    x, quantization = np.asarray([-128, -5, 0, 4, 100], np.int8), (0.5, 0)
    (found,) = run(operator, [Held(x, quantization)], [Stated(np.int8, (5,), (0.05, 0))], version=2)
    assert found[:3].tolist() == [-128 if operator == "LOG" else 127] * 3
    numbers = np.asarray([2.0, 50.0])
    expected = np.log(numbers) if operator == "LOG" else 1 / np.sqrt(numbers)
    assert steps_apart(found[3:], expected, (0.05, 0)) <= 0.51


def test_inverse_roots_are_rounded_twice() -> None:
    """Of 189 the result is 62.498, and 63 by the reference kernel of LiteRT 2.3.0."""
    x = np.asarray([-128, -127, -24, 44, 96, -20, 61, 5, -10], np.int8)
    mine, theirs = (0.0017373749287799, -128), (0.009160761721432209, -128)
    (found,) = run("RSQRT", [Held(x, mine)], [Stated(np.int8, x.shape, theirs)], version=2)
    assert found.tolist() == [127, 127, 127, 72, 47, 124, 63, 99, 113]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
def test_magnitudes_and_roots_of_integers(dtype: type) -> None:
    """Roots are cut off, as TensorFlow Lite cuts them, not rounded."""
    zero = 128 if dtype is np.uint8 else 5
    mine, theirs = (0.03, zero), (0.02, zero)
    x = np.arange(zero - 110, zero + 110).astype(dtype)
    (found,) = run("ABS", [Held(x, mine)], [Stated(dtype, x.shape, theirs)], version=3)
    assert steps_apart(found, np.abs(real(x, mine)), theirs) <= 0.51
    (found,) = run("SQRT", [Held(x, mine)], [Stated(dtype, x.shape, theirs)], version=2)
    missing = np.sqrt(np.maximum(real(x, mine), 0)) / theirs[0] + theirs[1] - found
    assert -1e-4 < missing.min() <= missing.max() < 1 + 1e-4


@pytest.mark.parametrize("operator", ["ABS", "SQRT", "RSQRT", "QUANTIZE"])
def test_zero_points_beyond_the_type(operator: str) -> None:
    for mine, theirs in (((0.5, 300), (0.25, 0)), ((0.5, 0), (0.25, -129)), ((0.5, 2**62), (0.25, 0))):
        data, _ = made(operator, [Held(np.ones(2, np.int8), mine)], [Stated(np.int8, (2,), theirs)], version=2)
        with pytest.raises(DovetailError):
            dovetail.load(parse(data), backends=["CpuRef"])


def test_sum_of_one_and_of_many() -> None:
    x = np.asarray([1, 2], np.int32)
    for count in (1, 5):
        (found,) = run("ADD_N", [x] * count, [Stated(np.int32, (2,))])
        np.testing.assert_array_equal(found, count * x)


def test_cast_takes_integers_as_they_are() -> None:
    (found,) = run("CAST", [Held(np.asarray([-3, 100], np.int8), (0.5, 7))], [Stated(np.float32, (2,))])
    np.testing.assert_array_equal(found, [-3.0, 100.0])


def test_no_inputs() -> None:
    data, _ = made("ADD_N", [], [Stated(np.float32, (1,))])
    with pytest.raises(ModelError, match="ADD_N"):
        parse(data)


@pytest.mark.parametrize(("operator", "dtype"), [("ATAN2", np.int32), ("ATAN2", np.int8), ("BITWISE_XOR", np.float32)])
def test_types_that_an_operator_does_not_have(operator: str, dtype: type) -> None:
    data, _ = made(operator, [np.ones(2, dtype), np.ones(2, dtype)], [Stated(dtype, (2,))])
    with pytest.raises(ModelError, match=f"{operator}.* reads {np.dtype(dtype)}, expected"):
        parse(data)
