"""Products of matrices against NumPy in float64, with the kernels of CPUs and those of GPUs."""

import numpy as np
import pytest

import dovetail
from dovetail import DType, Network
from dovetail.layers import ActivationFunction, FullyConnected
from dovetail_cl.devices import opened


def sample(shape, dtype=np.float32, seed=3):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def run(backend, build, *operands, constant=()):
    """Run a layer; operands whose index is in `constant` are constants."""
    network = Network("products")
    slots, feeds = [], {}
    for index, value in enumerate(operands):
        if index in constant:
            slots.append(network.constant(value))
        else:
            slots.append(network.input(f"x{index}", value.shape, DType.of(value.dtype)))
            feeds[f"x{index}"] = value
    network.output(build(network, *slots), name="y")
    with dovetail.load(network, [backend]) as net:
        return net.run(feeds)["y"].copy()


def check(y, expected, magnitudes):
    """Compare sums; `magnitudes` are those of the terms, which bound what rounding does."""
    assert y.shape == expected.shape
    allowed = magnitudes * 2e-6 + (abs(expected) * 2.0**-11 + 1e-7 if y.dtype == np.float16 else 0)
    assert (abs(y - expected) <= allowed).all()


def check_matmul(way, a, b, transposes=(False, False), constant=()):
    def build(network, x, z):
        return network.matmul(x, z, transpose_a=transposes[0], transpose_b=transposes[1])

    left, right = (
        np.swapaxes(x, -1, -2) if swap and x.ndim > 1 else x
        for x, swap in zip((a.astype(np.float64), b.astype(np.float64)), transposes, strict=True)
    )
    y = run(way, build, a, b, constant=constant)
    assert y.dtype == a.dtype
    check(y, np.matmul(left, right), np.matmul(abs(left), abs(right)))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("constant", [(), (0,), (1,)])
@pytest.mark.parametrize("transposes", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize(
    ("rows", "columns", "depth"),
    [(1, 70, 33), (2, 16, 65), (3, 1, 300), (5, 33, 4), (13, 65, 31), (1, 1, 1), (40, 5, 7), (29, 128, 17), (70, 131, 140)],
)
def test_sizes(way, rows, columns, depth, transposes, constant, dtype):
    a = sample((depth, rows) if transposes[0] else (rows, depth), dtype)
    b = sample((columns, depth) if transposes[1] else (depth, columns), dtype, 4)
    check_matmul(way, a, b, transposes, constant)


@pytest.mark.parametrize("transposes", [(False, False), (True, True)])
@pytest.mark.parametrize(("rows", "columns", "depth"), [(260, 200, 40), (201, 131, 67), (20, 30, 700), (3, 5, 9000)])
def test_large(way, rows, columns, depth, transposes):
    a = sample((depth, rows) if transposes[0] else (rows, depth))
    b = sample((columns, depth) if transposes[1] else (depth, columns), seed=4)
    check_matmul(way, a, b, transposes)


@pytest.mark.parametrize("width", [1, 8])
@pytest.mark.parametrize("constant", [(), (1,)])
@pytest.mark.parametrize("transposes", [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize(("rows", "columns", "depth"), [(1, 70, 33), (13, 65, 31), (40, 1, 7), (29, 7, 17), (47, 16, 5)])
def test_narrow_vectors(backend, monkeypatch, rows, columns, depth, transposes, constant, width):
    monkeypatch.setitem(opened(0).facts, "kind", "cpu")
    monkeypatch.setitem(opened(0).facts, "vector_width", width)
    a = sample((depth, rows) if transposes[0] else (rows, depth))
    b = sample((columns, depth) if transposes[1] else (depth, columns), seed=4)
    check_matmul(backend, a, b, transposes, constant)


@pytest.mark.parametrize("transposes", [(False, False), (True, True)])
@pytest.mark.parametrize("constant", [(), (1,)])
@pytest.mark.parametrize(
    ("left", "right"),
    [((2, 3), (2, 3)), ((2, 3), ()), ((), (3,)), ((2, 1), (1, 3)), ((1, 1), (2, 3)), ((3,), (2, 1)), ((2, 3), (1,))],
)
@pytest.mark.parametrize("sizes", [(4, 5, 3), (1, 35, 70), (30, 1, 21), (20, 40, 36)])
def test_batches_broadcast(way, left, right, sizes, constant, transposes):
    rows, columns, depth = sizes
    a = sample((*left, *((depth, rows) if transposes[0] else (rows, depth))))
    b = sample((*right, *((columns, depth) if transposes[1] else (depth, columns))), seed=4)
    check_matmul(way, a, b, transposes, constant)


@pytest.mark.parametrize(
    ("a", "b"),
    [((7,), (7,)), ((7,), (7, 9)), ((9, 7), (7,)), ((2, 9, 7), (7,)), ((7,), (3, 7, 9)), ((3, 1, 7), (3, 7, 1))],
)
def test_vectors(way, a, b):
    check_matmul(way, sample(a), sample(b, seed=4))


@pytest.mark.parametrize(
    ("a", "b"), [((0, 7), (7, 3)), ((4, 0), (0, 3)), ((4, 7), (7, 0)), ((0, 4, 7), (7, 3)), ((2, 1, 0), (2, 0, 1))]
)
@pytest.mark.parametrize("constant", [(), (1,)])
def test_empty(way, a, b, constant):
    check_matmul(way, sample(a), sample(b, seed=4), constant=constant)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("constant", [(1, 2), (), (1,)])
@pytest.mark.parametrize("shape", [(9,), (1, 40), (2, 3, 65), (50, 36), (2, 1100), (2, 2100), (3, 0), (0, 5)])
@pytest.mark.parametrize("columns", [1, 37, 64])
def test_fully_connected(way, shape, columns, constant, dtype):
    x, weights, bias = sample(shape, dtype), sample((columns, shape[-1]), dtype, 4), sample((columns,), dtype, 5)
    wide = [each.astype(np.float64) for each in (x, weights, bias)]

    def build(network, *slots):
        layer = FullyConnected(activation=ActivationFunction.LEAKY_RELU, activation_alpha=0.25)
        return network.add(layer, *slots).output

    total = wide[0] @ wide[1].T + wide[2]
    magnitudes = abs(wide[0]) @ abs(wide[1]).T + abs(wide[2])
    check(run(way, build, x, weights, bias, constant=constant), np.where(total < 0, total / 4, total), magnitudes)
