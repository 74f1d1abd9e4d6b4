"""Check products of computed matrices against NumPy in float64, on each instruction set."""

import numpy as np
import pytest

import dovetail


def sample(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def swapped(x, swap):
    return np.swapaxes(x, -1, -2) if swap and x.ndim > 1 else x


def check(run_layer, a, b, transpose_a=False, transpose_b=False):
    [y] = run_layer(lambda net, x, z: net.matmul(x, z, transpose_a=transpose_a, transpose_b=transpose_b), a, b)
    left, right = swapped(a.astype(np.float64), transpose_a), swapped(b.astype(np.float64), transpose_b)
    with np.errstate(invalid="ignore"):
        expected = np.matmul(left, right)
        # The rounding of a sum of products grows with the sum of their magnitudes.
        bound = np.matmul(abs(left), abs(right)) * 1e-6
        right_enough = (abs(y - expected) <= bound) | (y == expected) | (np.isnan(y) & np.isnan(expected))
    assert y.shape == expected.shape
    assert right_enough.all(), (y[~right_enough][:4], expected[~right_enough][:4])
    return y


TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]


@pytest.mark.parametrize("transpose", TRANSPOSES)
@pytest.mark.parametrize(
    ("rows", "columns", "depth"),
    [(m, n, k) for m in (1, 2, 5, 33) for n in (1, 16, 70) for k in (1, 4, 33)] + [(127, 129, 65), (40, 200, 130)],
)
def test_sizes(run_layer, rows, columns, depth, transpose):
    a = sample((depth, rows) if transpose[0] else (rows, depth), 1)
    b = sample((columns, depth) if transpose[1] else (depth, columns), 2)
    check(run_layer, a, b, *transpose)


@pytest.mark.parametrize("transpose", TRANSPOSES)
@pytest.mark.parametrize(
    ("left", "right"),
    [((2, 3), (2, 3)), ((2, 3), ()), ((), (3,)), ((2, 1), (1, 3)), ((1, 1), (2, 3)), ((3,), (2, 1)), ((2, 3), (1,))],
)
@pytest.mark.parametrize("sizes", [(4, 5, 3), (1, 19, 7), (6, 1, 21), (60, 90, 80)])
def test_batches_broadcast(run_layer, left, right, sizes, transpose):
    rows, columns, depth = sizes
    a = sample((*left, *((depth, rows) if transpose[0] else (rows, depth))), 3)
    b = sample((*right, *((columns, depth) if transpose[1] else (depth, columns))), 4)
    check(run_layer, a, b, *transpose)


@pytest.mark.parametrize(
    ("a", "b"),
    [((7,), (7,)), ((7,), (7, 9)), ((9, 7), (7,)), ((2, 9, 7), (7,)), ((7,), (3, 7, 9)), ((3, 1, 7), (3, 7, 1))],
)
@pytest.mark.parametrize("transpose", TRANSPOSES)
def test_vectors(run_layer, a, b, transpose):
    a = a[:-2] + a[:-3:-1] if transpose[0] and len(a) > 1 else a
    b = b[:-2] + b[:-3:-1] if transpose[1] and len(b) > 1 else b
    check(run_layer, sample(a, 5), sample(b, 6), *transpose)


@pytest.mark.parametrize("transpose", TRANSPOSES)
@pytest.mark.parametrize("sizes", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 4, 0), (3, 1, 0), (0, 0, 0), (1, 1, 0), (30, 40, 0)])
def test_nothing(run_layer, sizes, transpose):
    rows, columns, depth = sizes
    a, b = np.zeros((2, rows, depth), np.float32), np.zeros((2, depth, columns), np.float32)
    check(run_layer, np.ascontiguousarray(swapped(a, transpose[0])), np.ascontiguousarray(swapped(b, transpose[1])), *transpose)
    none = np.zeros((0, 3, 4), np.float32), np.zeros((0, 4, 3), np.float32)
    check(run_layer, *none)


@pytest.mark.parametrize("rows", [1, 3, 60])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_values_that_are_not_finite(run_layer, rows, transpose_b):
    a, b = sample((rows, 70), 7), sample((70, 80), 8)
    a[0, 3], b[5, 6], b[7, 8], b[9, 79] = 0.0, np.inf, np.nan, -np.inf
    b[3, 10] = np.inf
    check(run_layer, a, np.ascontiguousarray(b.T) if transpose_b else b, False, transpose_b)


@pytest.mark.parametrize("rows", [1, 3, 5, 6])
@pytest.mark.parametrize(("depth", "columns"), [(53, 5003), (601, 450)])
def test_few_rows(run_layer, rows, depth, columns):
    """By a matrix that fits no cache and has more columns than a chunk, in both orders."""
    a, b = sample((rows, depth), 9), sample((depth, columns), 10)
    check(run_layer, a, b)
    check(run_layer, a, np.ascontiguousarray(b.T), transpose_b=True)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("constant", [None, (130, 70), (3, 130, 70)])
def test_in_a_network(threads, transpose_a, constant):
    """Computed operands, or constants that cannot be packed; bits do not depend on threads."""
    net = dovetail.Network("product")
    a, b = sample((3, 130, 90) if transpose_a else (3, 90, 130), 11), sample(constant or (3, 130, 70), 12)
    x = net.input("a", a.shape)
    y = net.constant(b) if constant else net.input("b", b.shape)
    net.output(net.matmul(x, y, transpose_a=transpose_a), "y")
    feeds = {"a": a} if constant else {"a": a, "b": b}
    results = [dovetail.load(net, ["CpuAcc"], threads=count, fallback=False).run(feeds)["y"] for count in (1, threads)]
    np.testing.assert_allclose(results[0], np.matmul(swapped(a.astype(np.float64), transpose_a), b), rtol=0, atol=1e-4)
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("transpose_b", [False, True])
def test_a_constant_matrix_alone(run_layer, transpose_b):
    """Rows by packed weights, where the layer stands alone too."""
    a, b = sample((3, 20), 13), sample((30, 20) if transpose_b else (20, 30), 14)
    [y] = run_layer(lambda net, x: net.matmul(x, net.constant(b), transpose_b=transpose_b), a)
    np.testing.assert_allclose(y, a.astype(np.float64) @ swapped(b, transpose_b), rtol=0, atol=1e-5)
