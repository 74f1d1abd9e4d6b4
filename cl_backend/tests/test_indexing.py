"""What picks and places elements by indices: against NumPy, on CPU and GPU ways of the kernels."""

import numpy as np
import pytest

import dovetail
from dovetail import DType, Network
from dovetail.layers import GatherNd, ScatterElements, ScatterNd, ScatterReduction

rng = np.random.default_rng(12)
MEET = {
    "none": lambda _, update: update,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def values(*shape, dtype=np.float32):
    return rng.integers(1, 9, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.int64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather(run, way, axis, index, dtype):
    x = values(5, 7, 33, dtype=dtype)
    indices = rng.integers(-5, 5, (2, 3)).astype(index)
    (y,) = run(way, lambda net, x, i: net.gather(x, i, axis), x, indices)
    np.testing.assert_array_equal(y, np.take(x, indices, axis))


def test_gather_by_a_constant(run, way):
    table, indices = values(50, 16), np.array([3, -1, 0, 3], np.int64)
    (y,) = run(way, lambda net, i: net.gather(net.constant(table), i, 0), indices)
    np.testing.assert_array_equal(y, table[indices])


def test_gather_elements(run, way):
    x, indices = values(3, 9, 5), rng.integers(-9, 9, (2, 11, 5))
    (y,) = run(way, lambda net, x, i: net.gather_elements(x, i, 1), x, indices)
    np.testing.assert_array_equal(y, np.take_along_axis(x[:2], indices, 1))


def test_gather_nd_in_batches(run, way):
    x, indices = values(2, 4, 5, 3), rng.integers(-4, 4, (2, 6, 2))
    (y,) = run(way, lambda net, x, i: net.add(GatherNd(batch_dims=1), x, i).output, x, indices)
    expected = np.stack([x[b][tuple(np.moveaxis(indices[b], -1, 0))] for b in range(2)])
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("reduction", list(MEET))
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float16, np.float32])
def test_scatter_elements(run, way, reduction, dtype):
    """Indices repeat: updates meet an element one after the other."""
    x, indices, updates = values(3, 5, 4, dtype=dtype), rng.integers(-5, 5, (2, 8, 4)), values(2, 8, 4, dtype=dtype)
    descriptor = ScatterElements(axis=1, reduction=ScatterReduction(reduction))
    (y,) = run(way, lambda net, *slots: net.add(descriptor, *slots).output, x, indices, updates)
    expected = x.copy()
    for i, j, k in np.ndindex(*indices.shape):
        place = i, indices[i, j, k], k
        expected[place] = MEET[reduction](expected[place], updates[i, j, k])
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("reduction", list(MEET))
@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 200), (40, 30, 1)])
def test_scatter_nd(run, way, reduction, shape):
    x, indices = values(*shape), rng.integers(-5, 5, (70, 2))
    updates = values(70, *shape[2:])
    descriptor = ScatterNd(reduction=ScatterReduction(reduction))
    (y,) = run(way, lambda net, *slots: net.add(descriptor, *slots).output, x, indices, updates)
    expected = x.copy()
    for place, update in zip(map(tuple, indices), updates, strict=True):
        expected[place] = MEET[reduction](expected[place], update)
    np.testing.assert_array_equal(y, expected)


def test_scatter_of_what_is_still_needed(run, backend):
    """The input is overwritten only where nothing else reads it, the updates included."""
    x = values(4, 4)
    indices = np.array([[3, 2, 1, 0]] * 4)

    def build(net, x, i):
        doubled = net.addition(x, x)
        return net.add(ScatterElements(axis=0), doubled, i, doubled).output

    (y,) = run(backend, build, x, indices)
    expected = x + x
    for row, column in np.ndindex(4, 4):
        expected[indices[row, column], column] = 2 * x[row, column]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_one_hot(run, way, axis):
    indices, pair = np.array([[0, -1, 7], [2, 9, -8]]), np.array([-3, 5], np.float32)
    (y,) = run(way, lambda net, i, v: net.one_hot(i, 4, v, axis), indices, pair)
    hot = (indices[..., None] == np.arange(4)) | (indices[..., None] == np.arange(-4, 0))
    np.testing.assert_array_equal(y, np.moveaxis(np.where(hot, pair[1], pair[0]), -1, axis))


@pytest.mark.parametrize("kind", ["gather", "gather_elements", "scatter"])
def test_an_index_out_of_range_ends_the_run(backend, kind):
    network = Network("outside")
    x, indices = network.input("x", (4, 3)), network.input("i", (2, 3), DType.INT64)
    if kind == "scatter":
        made = network.add(ScatterElements(axis=0), x, indices, network.constant(np.ones((2, 3), np.float32)), name="places")
        slot = made.output
    else:
        slot = getattr(network, kind)(x, indices, 0, name="places")
    network.output(slot, name="y")
    feeds = {"x": values(4, 3), "i": np.zeros((2, 3), np.int64)}
    with dovetail.load(network, [backend]) as net:
        for outside in (4, -5):
            feeds["i"][1, 1] = outside
            with pytest.raises(dovetail.DovetailError, match=f"places: index {outside} is out of range"):
                net.run(feeds)
        feeds["i"][1, 1] = -4
        net.run(feeds)  # the one before left nothing behind
