"""The best elements of lines: against NumPy, on CPU and GPU ways through the kernels."""

import numpy as np
import pytest

import dovetail
from dovetail import DType, Network

rng = np.random.default_rng(12)
TYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool", "float16", "float32", "float64"]


def expected(x, k, axis, largest):
    """Sort by value, NaN the largest, then by position."""
    order = np.argsort(x, axis, kind="stable")
    if largest:  # the stable order of the reverse has the last of equal elements first
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    places = np.take(order, np.arange(k), axis)
    return np.take_along_axis(x, places, axis), places


def check(run, way, x, k, axis=-1, largest=True):
    made = run(way, lambda network, x: network.top_k(x, k, axis, largest=largest), x)
    for one, other in zip(made, expected(x, k, axis, largest), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("largest", [True, False])
def test_types(run, way, dtype, largest):
    """Equal elements come in order, and NaN is larger than all numbers."""
    x = rng.integers(0, 9, (3, 50)).astype(dtype)
    if x.dtype.kind == "f":
        x[[0, 0, 1, 2, 2]] = np.where(rng.random((5, 50)) < 0.1, np.nan, x[[0, 0, 1, 2, 2]])
        x[1, :4] = np.inf, -np.inf, -0.0, 0.0
    elif x.dtype.kind in "iu":
        x[:, :2] = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    check(run, way, x, 7, largest=largest)
    check(run, way, x, 50, largest=largest)


@pytest.mark.parametrize(
    ("shape", "axis", "k"),
    [
        ((1,), 0, 1),
        ((4, 1), 1, 1),
        ((1, 4), 0, 1),
        ((2, 9, 5), 1, 9),
        ((2, 9, 5), 1, 4),
        ((3, 2, 7, 3), -3, 1),
        ((0, 4), 1, 2),
        ((3, 0), 1, 0),
        ((3, 5), 1, 0),
    ],
)
@pytest.mark.parametrize("largest", [True, False])
def test_shapes(run, way, shape, axis, k, largest):
    check(run, way, rng.normal(0, 1, shape).astype(np.float32), k, axis, largest)


@pytest.mark.parametrize(
    ("shape", "axis", "k"),
    [((256,), 0, 9), ((2, 257), 1, 257), ((512,), 0, 30), ((513, 3), 0, 513), ((2, 1000, 2), 1, 300), ((1537,), 0, 1)],
)
def test_lines_of_several_parts(run, way, shape, axis, k):
    """Numbers are few, so that equal ones meet from all parts."""
    check(run, way, rng.integers(-20, 20, shape).astype(np.float32), k, axis)
    check(run, way, rng.permuted(np.arange(np.prod(shape), dtype=np.int32)).reshape(shape), k, axis, largest=False)


@pytest.mark.slow  # on a simulator, which interprets what each of a million work items does
@pytest.mark.parametrize("k", [1, 100, 1_000_000])
def test_a_long_line(run, way, k):
    check(run, way, rng.integers(0, 1 << 30, 1_000_000, np.int32), k)


def test_k_of_a_run(way):
    """It may be an input, whose value shapes the results."""
    network = Network("k")
    x, k = network.input("x", (5, 40), DType.FLOAT32), network.input("k", (1,), DType.INT64)
    for slot, name in zip(network.top_k(x, k), ("values", "places"), strict=True):
        network.output(slot, name=name)
    given = rng.normal(0, 1, (5, 40)).astype(np.float32)
    with dovetail.load(network, [way, "CpuRef"]) as net:
        for count in (3, 40):
            made = net.run({"x": given, "k": np.array([count])})
            values, places = expected(given, count, 1, True)
            np.testing.assert_array_equal(made["values"], values)
            np.testing.assert_array_equal(made["places"], places)
