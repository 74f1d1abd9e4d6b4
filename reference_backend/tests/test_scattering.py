"""ScatterElements and ScatterNd, for every element type, against their definitions in Python."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dovetail import Device, DType
from dovetail.layers import ScatterReduction
from dovetail_reference import ReferenceBackend

LABELS = [d.label for d in DType]
MEET = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": np.maximum,
    "min": np.minimum,
}


def test_every_reduction_is_tested():
    assert set(MEET) == {r.value for r in ScatterReduction}


def scatter(x, positions, updates, reduction):
    """Let each update meet the element at its position, in row-major order."""
    y = x.copy()
    with np.errstate(over="ignore"):
        for position, update in zip(positions, updates, strict=True):
            y[position] = MEET[reduction](y[position], update)
    return y


# Arithmetic on bool is refused; test_refusal sees to that.
POSSIBLE = [(label, reduction) for label in LABELS for reduction in MEET if label != "bool" or reduction not in ("add", "mul")]


@pytest.mark.parametrize(("label", "reduction"), POSSIBLE)
@pytest.mark.parametrize(("axis", "shape"), [(0, (6, 4, 2)), (1, (3, 2, 5)), (-1, (2, 4, 9)), (0, (0, 4, 5))])
def test_scatter_elements(run_layer, samples, label, reduction, axis, shape):
    x, updates = samples.small(label, (3, 4, 5), 1, maximum=3), samples.small(label, shape, 2, maximum=2)
    indices = np.random.default_rng(3).integers(-x.shape[axis], x.shape[axis], shape)
    positions = []
    for at in itertools.product(*map(range, shape)):
        place = list(at)
        place[axis] = indices[at]
        positions.append(tuple(place))
    build = lambda net, a, i, u: net.scatter_elements(a, i, u, axis, reduction=reduction)  # noqa: E731  # shared by both runs
    expected = scatter(x, positions, updates.reshape(-1), reduction)
    samples.same_bits(run_layer(build, x, indices, updates)[0], expected)
    samples.same_bits(run_layer(build, x, indices.astype(np.int32), updates, in_place=0)[0], expected)


@pytest.mark.parametrize(("label", "reduction"), POSSIBLE)
@pytest.mark.parametrize("shape", [(1,), (4, 1), (3, 2), (2, 3, 3), (0, 2)])
def test_scatter_nd(run_layer, samples, label, reduction, shape):
    x, depth = samples.small(label, (3, 4, 5), 1, maximum=3), shape[-1]
    rng = np.random.default_rng(5)
    indices = np.stack([rng.integers(-x.shape[i], x.shape[i], shape[:-1]) for i in range(depth)], -1)
    updates = samples.small(label, (*shape[:-1], *x.shape[depth:]), 2, maximum=2)
    positions = [tuple(p) for p in indices.reshape(-1, depth)]
    expected = scatter(x, positions, updates.reshape(-1, *x.shape[depth:]), reduction)
    build = lambda net, a, i, u: net.scatter_nd(a, i, u, reduction=reduction)  # noqa: E731  # shared by both runs
    samples.same_bits(run_layer(build, x, indices, updates)[0], expected)
    samples.same_bits(run_layer(build, x, indices, updates, in_place=0)[0], expected)


def test_long_slices(run_layer, samples):
    x, updates = samples.array("float32", (3, 1000), 1), samples.array("float32", (2, 1000), 2)
    [y] = run_layer(lambda net, a, i, u: net.scatter_nd(a, i, u, reduction="add"), x, np.asarray([[2], [2]]), updates)
    samples.same_bits(y, scatter(x, [(2,), (2,)], updates, "add"))


@pytest.mark.parametrize(
    ("build", "indices", "shape", "words"),
    [
        (lambda net, *s: net.scatter_elements(*s, 1), [[4], [0]], (2, 1), b"index 4 is out of range for axis 1 of size 4"),
        (lambda net, *s: net.scatter_nd(*s), [[0, -5]], (1,), b"index -5 is out of range for axis 1 of size 4"),
    ],
)
def test_positions_out_of_range_fail_the_run(run_layer, direct, build, indices, shape, words):
    with pytest.raises(direct.Failed) as caught:
        run_layer(build, np.zeros((3, 4), np.float32), np.asarray(indices), np.zeros(shape, np.float32))
    assert caught.value.args == (-1, words)


@pytest.mark.parametrize("reduction", ["add", "mul"])
def test_refusal(direct, reduction):
    x = np.zeros((2, 2), bool)
    layer, _ = direct.build_layer(
        lambda net, a, i, u: net.scatter_elements(a, i, u, reduction=reduction), x, np.zeros((1, 1), np.int64), x[:1, :1]
    )
    support = ReferenceBackend().supports(layer, None, Device())
    assert (support.supported, support.code, support.attribute) == (False, "attribute", "reduction")


def test_cancelled(run_layer, direct):
    x, i = np.zeros(100_000, np.float32), np.zeros(100_000, np.int64)
    with pytest.raises(direct.Cancelled):
        run_layer(lambda net, a, i, u: net.scatter_elements(a, i, u), x, i, x, cancel=True)
