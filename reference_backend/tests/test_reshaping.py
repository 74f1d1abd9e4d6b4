"""Kinds that move elements and keep them, for every element type, against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dovetail import DType
from dovetail.layers import Shape

LABELS = [d.label for d in DType]
VIEW, ELIDABLE = 1, 2


def properties(direct, build, x):
    """(relations and offsets of the aliases, whether the step may disappear)."""
    layer, _ = direct.build_layer(build, x)
    capsule = direct.create(layer)
    workload = direct.workload_of(capsule)
    aliases = [(a.relation, a.output, a.input, a.offset) for a in workload.aliases[: workload.n_aliases]]
    return aliases, bool(workload.flags & ELIDABLE)


VIEWS = [
    (lambda net, a: net.reshape(a, (4, -1)), (2, 3, 4), (4, 6)),
    (lambda net, a: net.reshape(a, ()), (1, 1), ()),
    (lambda net, a: net.reshape(a, (0, 5)), (0,), (0, 5)),
    (lambda net, a: net.expand_dims(a, (0, 2)), (3, 2), (1, 3, 1, 2)),
    (lambda net, a: net.squeeze(a), (1, 3, 1), (3,)),
    (lambda net, a: net.flatten(a, 2), (2, 3, 4, 5), (6, 20)),
    (lambda net, a: net.permute(a, (2, 0, 1, 3)), (3, 1, 1, 4), (1, 3, 1, 4)),
    (lambda net, a: net.broadcast_to(a, (1, 3)), (1, 3), (1, 3)),
    (lambda net, a: net.tile(a, (1, 1)), (2, 3), (2, 3)),
]


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(("build", "shape", "expected"), VIEWS)
def test_views(run_layer, direct, samples, label, build, shape, expected):
    x = samples.array(label, shape)
    for in_place in (None, 0):
        samples.same_bits(run_layer(build, x, in_place=in_place)[0], x.reshape(expected))
    assert properties(direct, build, x) == ([(VIEW, 0, 0, 0)], True)


@pytest.mark.parametrize("shape", [(), (5,), (0, 3), (2, 3), (4, 1, 3), (2, 3, 4), (2, 3, 4, 5)])
def test_every_permutation(run_layer, samples, shape):
    x = samples.array("int16", shape)
    for order in itertools.permutations(range(len(shape))):
        samples.same_bits(run_layer(lambda net, a, o=order: net.permute(a, o), x)[0], x.transpose(order))
    samples.same_bits(run_layer(lambda net, a: net.permute(a), x)[0], x.T)


@pytest.mark.parametrize("label", LABELS)
def test_permute_dtypes(run_layer, direct, samples, label):
    x = samples.array(label, (3, 130, 5))
    samples.same_bits(run_layer(lambda net, a: net.permute(a, (2, 0, 1)), x)[0], x.transpose(2, 0, 1))
    assert properties(direct, lambda net, a: net.permute(a, (2, 0, 1)), x) == ([], False)


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(
    ("shape", "target"),
    [((), (2, 3)), ((3,), (2, 3)), ((2, 1, 3), (4, 1)), ((1, 1), (0, 2)), ((2, 1), (2, 300)), ((4, 3), (1,))],
)
def test_broadcast_to(run_layer, samples, label, shape, target):
    x = samples.array(label, shape)
    samples.same_bits(
        run_layer(lambda net, a: net.broadcast_to(a, target), x)[0], np.broadcast_to(x, np.broadcast_shapes(shape, target))
    )


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(
    ("shape", "repeats"), [((), ()), ((3,), (4,)), ((2, 3), (3, 1)), ((2, 1, 3), (2, 2, 2)), ((2, 3), (0, 2))]
)
def test_tile(run_layer, samples, label, shape, repeats):
    x = samples.array(label, shape)
    [y] = run_layer(lambda net, a: net.tile(a, repeats), x)
    samples.same_bits(y, np.tile(x, repeats).reshape(np.multiply(shape, repeats)))


def space_to_depth(x, block):
    """NCHW, by the definition: output channel (dy * block + dx) * C + c."""
    n, c, h, w = x.shape
    y = np.empty((n, c * block * block, h // block, w // block), x.dtype)
    for dy, dx, channel in itertools.product(range(block), range(block), range(c)):
        y[:, (dy * block + dx) * c + channel] = x[:, channel, dy::block, dx::block]
    return y


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("block", [1, 2, 3])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_space_and_depth(run_layer, samples, label, block, layout):
    x = samples.array(label, (2, 5, 2 * block, 3 * block))
    y = space_to_depth(x, block)

    def laid_out(v):
        return np.ascontiguousarray(v if layout == "NCHW" else v.transpose(0, 2, 3, 1))

    samples.same_bits(run_layer(lambda net, a: net.space_to_depth(a, block, layout=layout), laid_out(x))[0], laid_out(y))
    samples.same_bits(run_layer(lambda net, a: net.depth_to_space(a, block, layout=layout), laid_out(y))[0], laid_out(x))
    # Column first: input channel c * block^2 + dy * block + dx.
    n, c, h, w = y.shape
    crd = y.reshape(n, block * block, c // block**2, h, w).transpose(0, 2, 1, 3, 4).reshape(n, c, h, w)
    [back] = run_layer(lambda net, a: net.depth_to_space(a, block, column_first=True, layout=layout), laid_out(crd))
    samples.same_bits(back, laid_out(x))


@pytest.mark.parametrize(("start", "end", "expected"), [(0, None, [2, 0, 3]), (1, None, [0, 3]), (-2, -1, [0]), (3, None, [])])
def test_shape(run_layer, start, end, expected):
    [y] = run_layer(lambda net, a: net.add(Shape(start=start, end=end), a).output, np.zeros((2, 0, 3), np.float32))
    assert y.tolist() == expected
    assert y.dtype == np.int64


def test_cancelled(run_layer, direct):
    with pytest.raises(direct.Cancelled):
        run_layer(lambda net, a: net.permute(a), np.zeros((300, 300), np.float32), cancel=True)
