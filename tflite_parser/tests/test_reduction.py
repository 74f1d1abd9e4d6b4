"""Reductions against NumPy: axes of every form, extremes, hostile numbers."""

from __future__ import annotations

import numpy as np
import pytest
from one_operator import Held, Stated, constant, made, real, run, steps_apart

from dovetail import DovetailError, ModelError
from dovetail_tflite import parse

FUNCTIONS = {"MEAN": np.mean, "SUM": np.sum, "REDUCE_MAX": np.max, "REDUCE_MIN": np.min, "REDUCE_PROD": np.prod}
X = np.random.default_rng(8).uniform(-2, 2, (2, 3, 4)).astype(np.float32)


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("axes", [(0,), (-1,), (2, 0), (0, 1, 2), ()])
@pytest.mark.parametrize("operator", FUNCTIONS)
def test_axes(operator: str, axes: tuple[int, ...], keep: bool, is_constant: bool) -> None:
    expected = FUNCTIONS[operator](X.astype(np.float64), axes, keepdims=keep)
    given = Held(np.asarray(axes, np.int32), constant=is_constant)
    (found,) = run(operator, [X, given], [Stated(np.float32, expected.shape)], {"keep_dims": keep})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_an_axis_named_twice() -> None:
    (found,) = run("SUM", [X, constant(np.asarray([1, -2], np.int32))], [Stated(np.float32, (2, 4))], {})
    np.testing.assert_allclose(found, X.sum(1), rtol=1e-5, atol=1e-6)


def test_a_number_alone() -> None:
    (found,) = run("REDUCE_MAX", [np.asarray(3, np.int32), constant(np.asarray([0], np.int32))], [Stated(np.int32, ())], {})
    assert found == 3


@pytest.mark.parametrize("operator", FUNCTIONS)
def test_axes_that_are_not_there(operator: str) -> None:
    data, _ = made(operator, [X, constant(np.asarray([3], np.int32))], [Stated(np.float32, (2, 3))], {})
    with pytest.raises(ModelError, match="reduces axes"):
        parse(data)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
@pytest.mark.parametrize("operator", FUNCTIONS)
def test_integers_of_several_scales(operator: str, dtype: type) -> None:
    zero = 128 if dtype is np.uint8 else 0
    mine, theirs = (0.02, zero), (0.05, zero)
    x = np.random.default_rng(9).integers(zero - 100, zero + 100, (5, 3)).astype(dtype)
    (found,) = run(operator, [Held(x, mine), constant(np.asarray([1], np.int32))], [Stated(dtype, (5,), theirs)], {}, version=3)
    rounded_twice = operator == "MEAN"  # as TensorFlow Lite does
    assert steps_apart(found, FUNCTIONS[operator](real(x, mine), 1), theirs) <= (0.76 if rounded_twice else 0.51)


@pytest.mark.parametrize(("operator", "function"), [("REDUCE_ANY", np.any), ("REDUCE_ALL", np.all)])
def test_truth(operator: str, function: np.ufunc) -> None:
    x = np.asarray([[True, False], [True, True], [False, False]])
    (found,) = run(operator, [x, constant(np.asarray([1], np.int32))], [Stated(np.bool_, (3,))], {})
    np.testing.assert_array_equal(found, function(x, 1))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(("operator", "function"), [("ARG_MAX", np.argmax), ("ARG_MIN", np.argmin)])
def test_positions(operator: str, function: np.ufunc, dtype: type) -> None:
    (found,) = run(operator, [X, constant(np.asarray(-2, np.int32))], [Stated(dtype, (2, 4))], {"output_type": 2})
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, function(X, -2))


@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("positions", [np.int32, np.int16])
def test_largest(positions: type, is_constant: bool) -> None:
    x = np.asarray([[3, 9, 9, 1], [0, -5, 7, 2]], np.int8)
    k = Held(np.asarray(3, np.int32), constant=is_constant)
    values, places = run(
        "TOPK_V2", [Held(x, (0.5, 1)), k], [Stated(np.int8, (2, 3), (0.5, 1)), Stated(positions, (2, 3))], version=3
    )
    np.testing.assert_array_equal(values, [[9, 9, 3], [7, 2, 0]])
    np.testing.assert_array_equal(places, [[1, 2, 0], [2, 3, 0]])
    assert places.dtype == positions


@pytest.mark.parametrize("k", [-1, 5, [1, 2], []])
def test_hostile_counts(k: object) -> None:
    data, _ = made(
        "TOPK_V2", [X, constant(np.asarray(k, np.int32))], [Stated(np.float32, (2, 3, 1)), Stated(np.int32, (2, 3, 1))]
    )
    with pytest.raises(DovetailError):
        parse(data)


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("reverse", [True, False])
def test_running_sums(exclusive: bool, reverse: bool) -> None:
    x = np.asarray([[1, 2, 3], [4, 5, 6]], np.int64)
    options = {"exclusive": exclusive, "reverse": reverse}
    (found,) = run("CUMSUM", [x, constant(np.asarray(-1, np.int32))], [Stated(np.int64, (2, 3))], options)
    ordered = x[:, ::-1] if reverse else x
    sums = np.cumsum(ordered, 1) - (ordered if exclusive else 0)
    np.testing.assert_array_equal(found, sums[:, ::-1] if reverse else sums)


def mean_of_words(x: np.ndarray, axes: tuple[int, ...], mine: float, theirs: float) -> np.ndarray:
    """Average as TensorFlow Lite does: one factor for the scales and the number, two roundings."""
    count = int(np.prod([x.shape[axis] for axis in axes]))
    fraction, shift = np.frexp(np.float64(mine) / np.float64(theirs))
    multiplier, bits = int(np.floor(fraction * 2**31 + 0.5)), count.bit_length() - 1
    multiplier, shift = (multiplier << bits) // count, int(shift) - bits
    found = []
    for total in x.astype(np.int64).sum(axes).reshape(-1).tolist():
        high = (total * multiplier + (1 << 30)) >> 31
        away = (abs(high) + ((1 << -shift) >> 1)) >> -shift
        found.append(min(max(away if high >= 0 else -away, -32768), 32767))
    return np.asarray(found, np.int16)


@pytest.mark.parametrize("scales", [(1.0, 1.0), (0.01, 0.0073), (0.003, 0.0031), (0.9, 0.46)])
@pytest.mark.parametrize("axes", [(1, 2), (3,), (0, 1, 2, 3), (1,)])
def test_means_of_words(axes: tuple[int, ...], scales: tuple[float, float]) -> None:
    mine, theirs = (float(np.float32(one)) for one in scales)
    random = np.random.default_rng(12)
    for spread in (40, 32767):
        x = random.integers(-spread, spread + 1, (2, 3, 4, 6)).astype(np.int16)
        shape = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
        given = constant(np.asarray(axes, np.int32))
        (found,) = run("MEAN", [Held(x, (mine, 0)), given], [Stated(np.int16, shape, (theirs, 0))], {}, version=2)
        np.testing.assert_array_equal(found.reshape(-1), mean_of_words(x, axes, mine, theirs))
