"""References that reduce, scan or select, against ONNX's examples; bounds against mutations."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dovetail import DType
from dovetail.layers import ArgFunction, ReduceFunction
from dovetail_sdk.conformance.comparing import mismatch
from dovetail_sdk.conformance.operators.arg_min_max import extreme_position
from dovetail_sdk.conformance.operators.cumulative_sum import OPERATOR as CUMULATIVE_SUM
from dovetail_sdk.conformance.operators.cumulative_sum import running_sum
from dovetail_sdk.conformance.operators.reduce import OPERATOR as REDUCE
from dovetail_sdk.conformance.operators.reduce import REAL, WHOLE, lines_of, wrapped
from dovetail_sdk.conformance.operators.top_k import best_positions
from dovetail_sdk.conformance.references import samples
from dovetail_sdk.conformance.references.tolerances import accumulated, gamma


def test_running_sum():
    x = np.asarray([1.0, 2.0, 3.0, 4.0, 5.0])
    assert running_sum(x, 0, False, False).tolist() == [1, 3, 6, 10, 15]
    assert running_sum(x, 0, True, False).tolist() == [0, 1, 3, 6, 10]
    assert running_sum(x, 0, False, True).tolist() == [15, 14, 12, 9, 5]
    assert running_sum(x, 0, True, True).tolist() == [14, 12, 9, 5, 0]
    table = np.asarray([[1, 2, 3], [4, 5, 6]])
    assert running_sum(table, 0, False, False).tolist() == [[1, 2, 3], [5, 7, 9]]
    assert running_sum(table, -1, False, False).tolist() == [[1, 3, 6], [4, 9, 15]]


def test_top_k():
    x = np.arange(12.0).reshape(3, 4)
    assert best_positions(x, 3, 1, True).tolist() == [[3, 2, 1]] * 3
    assert best_positions(x[:, ::-1], 3, 1, False).tolist() == [[3, 2, 1]] * 3
    assert best_positions(np.asarray([[0, 0, 0, 0], [1, 1, 1, 1]]), 3, 1, True).tolist() == [[0, 1, 2]] * 2
    assert best_positions(np.asarray([1, math.nan, math.inf]), 3, 0, True).tolist() == [1, 2, 0]
    assert best_positions(np.asarray([1, math.nan, math.inf]), 3, 0, False).tolist() == [0, 2, 1]


def test_extreme_position():
    x = np.asarray([[2, 1], [3, 10]])
    assert extreme_position(x, ArgFunction.MAX, 1, True, False).tolist() == [[0], [1]]
    assert extreme_position(x, ArgFunction.MIN, 0, False, False).tolist() == [0, 0]
    ties = np.asarray([[2.0, 2.0], [3.0, 10.0]])
    assert extreme_position(ties, ArgFunction.MAX, 1, True, True).tolist() == [[1], [1]]
    nans = np.asarray([[1.0, math.nan, 3.0, math.nan]])
    assert extreme_position(nans, ArgFunction.MIN, 1, False, False).tolist() == [1]
    assert extreme_position(nans, ArgFunction.MAX, 1, False, True).tolist() == [3]


@pytest.mark.parametrize(
    ("function", "line", "expected"),
    [
        (ReduceFunction.SUM, [1, 2], 3),
        (ReduceFunction.MEAN, [20, 1], 10.5),
        (ReduceFunction.MAX, [20, 2], 20),
        (ReduceFunction.MIN, [5, 1], 1),
        (ReduceFunction.PROD, [3, 5], 15),
        (ReduceFunction.L1, [-3, 4], 7),
        (ReduceFunction.L2, [3, 4], 5),
        (ReduceFunction.L2, [5, 6], 7.810249675906654),
        (ReduceFunction.SUM_SQUARE, [7, 8], 113),
        (ReduceFunction.LOG_SUM, [1, 1], 0.6931471805599453),
        (ReduceFunction.LOG_SUM_EXP, [5, 1], 5.018149927917809),
        (ReduceFunction.LOG_SUM_EXP, [1000, 1000], 1000.6931471805599),
    ],
)
def test_reduced_lines(function, line, expected):
    assert REAL[function](line) == pytest.approx(expected, rel=1e-15)


def test_every_function_has_a_reference():
    assert set(REAL) == set(ReduceFunction)
    assert set(WHOLE) == set(ReduceFunction) - {ReduceFunction.MAX, ReduceFunction.MIN}


def test_integers_truncate_toward_zero_and_wrap():
    assert WHOLE[ReduceFunction.MEAN]([-3, -4]) == -3
    assert WHOLE[ReduceFunction.L2]([2, 2]) == 2
    assert [wrapped(value, DType.INT8) for value in (127, 128, -129, 256)] == [127, -128, 127, 0]
    assert [wrapped(value, DType.UINT8) for value in (255, 256, -1)] == [255, 0, 255]


def test_lines_of():
    shape, lines = lines_of(np.arange(12).reshape(2, 3, 2), (0, 2))
    assert shape == (3,)
    assert lines == [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]]


def test_gamma_and_what_it_bounds():
    assert gamma(1, DType.FLOAT32) == pytest.approx(2**-24, rel=1e-6)
    assert gamma(4, DType.FLOAT16) == gamma(4, DType.FLOAT32)  # 16-bit floats are accumulated in float32
    assert gamma(4, DType.FLOAT64) == pytest.approx(4 * 2**-53)
    terms = np.random.default_rng(0).uniform(-1, 1, 1000).astype(np.float32)
    total = np.float32(0)
    for term in terms:  # the worst order, in float32
        total += term
    exact = math.fsum(terms.tolist())
    bound = accumulated(DType.FLOAT32, len(terms), float(np.abs(terms).sum()))
    assert not mismatch(np.asarray([total]), np.asarray([exact]), bound, DType.FLOAT32)
    assert mismatch(np.asarray([total - np.float32(0.25)]), np.asarray([exact]), bound, DType.FLOAT32)


def parameters_of(operator, **changed):
    return {**{name: values[0] for name, values in operator.parameters.items()}, **changed}


_SUMMING = [function for function in ReduceFunction if function not in (ReduceFunction.MAX, ReduceFunction.MIN)]


@pytest.mark.parametrize("dtype", samples.FLOATS)
@pytest.mark.parametrize("function", _SUMMING)
def test_a_term_left_out_of_a_reduction_shows(function, dtype):
    case = REDUCE.make(parameters_of(REDUCE, function=function, axes=(1, 2)), dtype, np.random.default_rng(3))
    _, lines = lines_of(samples.reals(case.feeds[0].value, dtype), (1, 2))
    for left_out in range(len(lines[0])):
        short = [REAL[function]([*line[:left_out], *line[left_out + 1 :]]) for line in lines]
        wrong = samples.stored(np.asarray(short).reshape(case.expected[0].shape), dtype)
        assert mismatch(wrong, case.expected[0], case.tolerances[0], dtype), left_out


@pytest.mark.parametrize("dtype", samples.FLOATS)
def test_a_term_left_out_of_a_running_sum_shows(dtype):
    case = CUMULATIVE_SUM.make(parameters_of(CUMULATIVE_SUM, axis=-1), dtype, np.random.default_rng(3))
    x = samples.reals(case.feeds[0].value, dtype)
    for left_out in range(x.shape[-1]):
        without = x.copy()
        without[..., left_out] = 0
        wrong = samples.stored(running_sum(without, -1, False, False), dtype)
        assert mismatch(wrong, case.expected[0], case.tolerances[0], dtype), left_out
