"""Kinds that pick by position, for every element type, against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dovetail import DType, GraphError

LABELS = [d.label for d in DType]

SLICES = [
    ((slice(1, 4),), (6,)),
    ((slice(None, None, -1),), (6,)),
    ((slice(-2, 0, -2),), (6,)),
    ((slice(4, 1),), (6,)),
    ((slice(0, 100), slice(-100, 2)), (3, 4)),
    ((slice(1, 3), slice(None), slice(None)), (4, 2, 3)),
    ((slice(None), slice(1, 2), slice(0, 3, 2)), (2, 3, 4)),
    ((slice(None, None, -2), slice(3, None, -1), slice(2, 3)), (5, 4, 3)),
    ((slice(None),), (0, 3)),
]


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(("index", "shape"), SLICES)
def test_strided_slice(run_layer, samples, label, index, shape):
    x = samples.array(label, shape)
    far = 2**62
    begin, end, stride = [], [], []
    for s in index:
        step = s.step or 1
        begin.append(s.start if s.start is not None else 0 if step > 0 else far)
        end.append(s.stop if s.stop is not None else far if step > 0 else -far)
        stride.append(step)
    [y] = run_layer(lambda net, a: net.strided_slice(a, begin, end, stride=stride), x)
    samples.same_bits(y, x[index])


def test_slice_in_one_piece_is_a_view(direct):
    def aliases(build, x):
        layer, _ = direct.build_layer(build, x)
        capsule = direct.create(layer)
        workload = direct.workload_of(capsule)
        return [(a.relation, a.offset) for a in workload.aliases[: workload.n_aliases]]

    x = np.zeros((4, 3, 2), np.float32)
    assert aliases(lambda net, a: net.slice(a, (1, 0, 0), (2, -1, -1)), x) == [(1, 24)]
    assert aliases(lambda net, a: net.slice(a, (1, 2, 0), (1, 1, -1)), x) == [(1, 40)]
    assert aliases(lambda net, a: net.slice(a, (0, 1, 0), (2, 2, 2)), x) == []
    assert aliases(lambda net, a: net.strided_slice(a, (3,), (0,), stride=(-1,)), x) == []


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
@pytest.mark.parametrize(("axis", "shape"), [(0, ()), (0, (5,)), (1, (2, 3)), (-1, (4,)), (2, (0,)), (1, (1, 2, 2))])
def test_gather(run_layer, samples, label, index_dtype, axis, shape):
    x = samples.array(label, (4, 5, 6))
    size = x.shape[axis]
    indices = np.random.default_rng(1).integers(-size, size, shape, index_dtype)
    samples.same_bits(run_layer(lambda net, a, i: net.gather(a, i, axis), x, indices)[0], np.take(x, indices, axis))


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("batch_dims", [0, 1])
def test_gather_with_batch_axes(run_layer, samples, axis, batch_dims):
    x = samples.array("float32", (2, 3, 4, 5))
    indices = np.random.default_rng(2).integers(0, 3, (2, 3, 2))
    [y] = run_layer(lambda net, a, i: net.gather(a, i, axis, batch_dims=batch_dims), x, indices)
    by_batch = [np.take(x[b], indices[b], axis - 1) for b in range(2)]
    expected = np.stack(by_batch) if batch_dims else np.take(x, indices, axis)
    samples.same_bits(y, expected)


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(("axis", "shape"), [(0, (7, 4, 2)), (1, (3, 2, 6)), (-1, (2, 4, 3)), (1, (0, 4, 5))])
def test_gather_elements(run_layer, samples, label, axis, shape):
    x = samples.array(label, (3, 4, 6))
    size = x.shape[axis]
    indices = np.random.default_rng(3).integers(-size, size, shape)
    part = x[tuple(slice(None) if i == axis % 3 else slice(0, n) for i, n in enumerate(shape))]
    [y] = run_layer(lambda net, a, i: net.gather_elements(a, i, axis), x, indices)
    samples.same_bits(y, np.take_along_axis(part, indices, axis))


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(
    ("shape", "batch_dims"),
    [((2, 1), 0), ((5, 3), 0), ((3, 2, 2), 0), ((1,), 0), ((0, 2), 0), ((3, 2, 1), 1), ((3, 4, 2, 1), 2)],
)
def test_gather_nd(run_layer, samples, label, shape, batch_dims):
    x = samples.array(label, (3, 4, 5))
    depth = shape[-1]
    rng = np.random.default_rng(4)
    indices = np.stack([rng.integers(-x.shape[batch_dims + i], x.shape[batch_dims + i], shape[:-1]) for i in range(depth)], -1)
    [y] = run_layer(lambda net, a, i: net.gather_nd(a, i, batch_dims=batch_dims), x, indices)
    lead = [np.arange(n) for n in shape[:batch_dims]]
    grid = np.meshgrid(*lead, *(np.arange(n) for n in shape[batch_dims:-1]), indexing="ij")[:batch_dims] if batch_dims else []
    samples.same_bits(y, x[(*grid, *(indices[..., i] for i in range(depth)))])


@pytest.mark.parametrize(
    ("build", "indices", "words"),
    [
        (lambda net, a, i: net.gather(a, i, 1), [0, 4], "index 4 is out of range for axis 1 of size 4"),
        (lambda net, a, i: net.gather(a, i, 0), [-4], "index -4 is out of range for axis 0 of size 3"),
        (lambda net, a, i: net.gather_elements(a, i, 1), [[0], [9]], "index 9 is out of range for axis 1 of size 4"),
        (lambda net, a, i: net.gather_nd(a, i), [[0, 3], [2, -5]], "index -5 is out of range for axis 1 of size 4"),
        (lambda net, a, i: net.gather(a, i, 0), [2**40], f"index {2**40} is out of range for axis 0 of size 3"),
    ],
)
def test_positions_out_of_range_fail_the_run(run_layer, direct, build, indices, words):
    with pytest.raises(direct.Failed) as caught:
        run_layer(build, np.zeros((3, 4), np.float32), np.asarray(indices))
    assert caught.value.args == (-1, words.encode())


def test_gather_from_an_empty_axis(run_layer):
    x = np.zeros((0, 3), np.float32)
    assert run_layer(lambda net, a, i: net.gather(a, i), x, np.zeros((0,), np.int64))[0].shape == (0, 3)
    with pytest.raises(GraphError, match="no index is in range"):
        run_layer(lambda net, a, i: net.gather(a, i), x, np.zeros((1,), np.int64))


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("index_label", ["int64", "int32", "uint8", "float32"])
def test_one_hot(run_layer, samples, label, axis, index_label):
    values = samples.small(label, (2,), 3)
    indices = np.asarray([[0, 3, 4], [1, 7, 2]]).astype(index_label)
    if index_label != "uint8":
        indices[0, 0] = -1
        indices[1, 1] = -5
    [y] = run_layer(lambda net, i, v: net.one_hot(i, 4, v, axis), indices, values)
    wide = np.asarray(indices, np.int64)
    wide = np.where(wide < 0, wide + 4, wide)
    hot = np.moveaxis(wide[..., None] == np.arange(4), -1, axis)
    samples.same_bits(y, np.where(hot, values[1], values[0]))


@pytest.mark.parametrize("label", LABELS)
def test_trilu(run_layer, samples, label):
    shapes, diagonals = [(4, 5), (2, 3, 3), (5, 2), (0, 3), (2, 0)], [-9, -2, 0, 1, 4, 2**40]
    for shape, k, upper in itertools.product(shapes, diagonals, [True, False]):
        x = samples.array(label, shape)
        bounded = max(min(k, 20), -20)
        for in_place in (None, 0):
            [y] = run_layer(lambda net, a, k=k, u=upper: net.trilu(a, k, upper=u), x, in_place=in_place)
            samples.same_bits(y, np.triu(x, bounded) if upper else np.tril(x, bounded))


@pytest.mark.parametrize("label", LABELS)
def test_fill(run_layer, samples, label):
    [y] = run_layer(lambda net: net.fill((2, 3), 1, DType.of(label)))
    samples.same_bits(y, np.ones((2, 3), samples.dtype(label)))
    assert run_layer(lambda net: net.fill((0,), 1, DType.of(label)))[0].size == 0


def test_cancelled(run_layer, direct):
    x, i = np.zeros((10, 20_000), np.float32), np.zeros(20_000, np.int64)
    for build in (lambda net, a, i: net.gather(a, i, 1), lambda net, a, i: net.one_hot(i, 10, [0.0, 1.0])):
        with pytest.raises(direct.Cancelled):
            run_layer(build, x, i, cancel=True)
