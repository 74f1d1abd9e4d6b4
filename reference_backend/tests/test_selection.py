"""ArgMinMax and TopK against NumPy and a stable sort in Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dovetail import DType

LABELS = [d.label for d in DType]
FLOATS = ["float64", "float32", "float16", "bfloat16"]


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("function", ["max", "min"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_arg(run_layer, samples, label, function, axis):
    for x in (samples.small(label, (6, 5, 7), maximum=2), samples.array(label, (3, 4, 5))):
        wide = x.astype(object)
        first = (np.argmax if function == "max" else np.argmin)(wide, axis=axis)
        last = x.shape[axis] - 1 - (np.argmax if function == "max" else np.argmin)(np.flip(wide, axis), axis=axis)
        [y] = run_layer(lambda net, a: net.arg_min_max(a, function, axis), x)
        samples.same_bits(y, first)
        [y] = run_layer(lambda net, a: net.arg_min_max(a, function, axis, select_last=True, keep_dims=True), x)
        samples.same_bits(y, np.expand_dims(last, axis))


@pytest.mark.parametrize("dtype", [DType.INT32, DType.INT64, DType.UINT8])
def test_arg_dtype(run_layer, dtype):
    x = np.asarray([1, 9, 3], np.float32)
    [y] = run_layer(lambda net, a: net.arg_min_max(a, "max", 0, dtype=dtype), x)
    assert y == 1
    assert y.dtype == dtype.numpy


@pytest.mark.parametrize("label", FLOATS)
def test_arg_of_special_values(run_layer, samples, label):
    x = np.asarray([[0.0, -0.0, 0.0], [np.inf, np.nan, np.nan], [-np.inf, 1.0, -np.inf]]).astype(samples.dtype(label))
    assert run_layer(lambda net, a: net.arg_min_max(a, "max", 1), x)[0].tolist() == [0, 1, 1]
    assert run_layer(lambda net, a: net.arg_min_max(a, "min", 1), x)[0].tolist() == [0, 1, 0]
    assert run_layer(lambda net, a: net.arg_min_max(a, "min", 1, select_last=True), x)[0].tolist() == [2, 2, 2]


def test_arg_over_long_axis(run_layer):
    x = np.zeros(1000, np.int64)
    x[777] = 5
    assert run_layer(lambda net, a: net.arg_min_max(a, "max", 0), x)[0] == 777


def top(x: np.ndarray, k: int, axis: int, largest: bool) -> np.ndarray:
    """Positions, by Python's stable sort; a NaN is larger than every number."""

    def line(values):
        sign = -1 if largest else 1
        keys = [(sign * math.isnan(v), 0 if math.isnan(v) else sign * v) for v in values.tolist()]
        return np.asarray(sorted(range(len(keys)), key=keys.__getitem__)[:k], np.int64)

    return np.apply_along_axis(line, axis, x.astype(np.float64) if x.dtype.kind not in "iub" else x.astype(object))


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("axis", "k"), [(0, 1), (1, 3), (-1, 7), (2, 4)])
def test_top_k(run_layer, samples, label, axis, k, largest):
    for x in (samples.small(label, (3, 5, 7), maximum=3), samples.array(label, (4, 6, 9))):
        values, positions = run_layer(lambda net, a: net.top_k(a, k, axis, largest=largest), x)
        expected = top(x, k, axis, largest)
        samples.same_bits(positions, expected)
        samples.same_bits(values, np.take_along_axis(x, expected, axis))


@pytest.mark.parametrize("label", FLOATS)
def test_top_k_with_nan(run_layer, samples, label):
    x = np.asarray([1.0, np.nan, -np.inf, np.inf, 0.0, -0.0, np.nan]).astype(samples.dtype(label))
    _, positions = run_layer(lambda net, a: net.top_k(a, 7), x)
    assert positions.tolist() == [1, 6, 3, 0, 4, 5, 2]
    _, positions = run_layer(lambda net, a: net.top_k(a, 7, largest=False), x)
    assert positions.tolist() == [2, 4, 5, 0, 3, 1, 6]


@pytest.mark.parametrize(("shape", "k"), [((3, 4), 0), ((0, 4), 2), ((2, 0), 0), ((1,), 1), ((1000,), 1000)])
def test_top_k_of_odd_shapes(run_layer, samples, shape, k):
    x = samples.array("float32", shape)
    values, positions = run_layer(lambda net, a: net.top_k(a, k), x)
    order = np.argsort(-x, axis=-1, kind="stable")[..., :k]
    assert np.array_equal(positions, order)
    assert np.array_equal(values, np.take_along_axis(x, order, -1))


@pytest.mark.parametrize("build", [lambda net, a: net.arg_min_max(a, "max"), lambda net, a: net.top_k(a, 3)])
def test_cancelled(run_layer, direct, build):
    with pytest.raises(direct.Cancelled):
        run_layer(build, np.zeros(200_000, np.float32), cancel=True)
