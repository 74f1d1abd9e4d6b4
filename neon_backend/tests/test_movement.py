"""Layers that only move elements, against NumPy, in every instruction set that is here."""

from __future__ import annotations

import numpy as np
import pytest

import dovetail
from dovetail import DType, Network
from dovetail_neon.kernels import instruction_sets

ISAS = [name for name, here in instruction_sets().items() if here]
TYPES = [np.float32, np.int64, np.uint8, np.int16]


@pytest.fixture(params=ISAS)
def isa(request):
    return request.param


def run(isa, build, *arrays, threads=2):
    """Run what `build(net, *slots)` makes, with nothing left to another backend."""
    net = Network()
    slots = [net.input(f"x{i}", a.shape, DType.of(a.dtype)) for i, a in enumerate(arrays)]
    made = build(net, *slots)
    for i, slot in enumerate(made if isinstance(made, tuple) else (made,)):
        net.output(slot, f"y{i}")
    with dovetail.load(net, ["CpuAcc"], threads=threads, fallback=False, options={"CpuAcc": {"isa": isa}}) as loaded:
        found = loaded.run({f"x{i}": a for i, a in enumerate(arrays)})
        return [np.array(found[f"y{i}"]) for i in range(len(found))]


def numbers(*shape, dtype=np.float32, seed=0):
    values = np.random.default_rng(seed).integers(0, 2**32, shape, np.uint64)
    return values.astype(np.float32) if dtype is np.float32 else values.astype(dtype)


def same(found, expected):
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((3, 17, 33), (0, 2, 1)),  # transposed, with remainders of every width
        ((64, 48), (1, 0)),
        ((1, 12, 100, 7), (0, 2, 3, 1)),
        ((5, 3, 40), (1, 0, 2)),  # runs
        ((6, 50, 2), (1, 0, 2)),  # short runs, which become larger elements
        ((40, 3), (1, 0)),  # too narrow to transpose
        ((3, 40), (1, 0)),
        ((2, 3, 4, 5, 6), (4, 2, 0, 3, 1)),
        ((4, 0, 3), (2, 1, 0)),
        ((2, 130, 70), (2, 0, 1)),
    ],
)
def test_permute(isa, dtype, shape, order):
    x = numbers(*shape, dtype=dtype)
    same(run(isa, lambda net, a: net.permute(a, order), x)[0], x.transpose(order))


@pytest.mark.parametrize("threads", [1, 2])
def test_large_permute(isa, threads):
    x = numbers(3, 85, 1601)
    same(run(isa, lambda net, a: net.permute(a, (0, 2, 1)), x, threads=threads)[0], x.transpose(0, 2, 1))


def test_unaligned_source_is_transposed(isa):
    raw = np.zeros(33 * 35 * 4 + 4, np.uint8)
    x = raw[4:].view(np.float32).reshape(33, 35)
    x[:] = numbers(33, 35)
    same(run(isa, lambda net, a: net.permute(a, (1, 0)), x)[0], x.T)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_joining_and_splitting(isa, dtype, axis):
    shapes = [[5, 6, 7] for _ in range(4)]
    for shape, size in zip(shapes, (3, 0, 1, 9), strict=True):
        shape[axis] = size
    parts = [numbers(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes)]
    whole = np.concatenate(parts, axis)
    same(run(isa, lambda net, *p: net.concat(p, axis), *parts)[0], whole)
    same(run(isa, lambda net, *p: net.stack(p, axis), whole, whole, whole)[0], np.stack([whole] * 3, axis))
    for found, expected in zip(run(isa, lambda net, a: net.split(a, 4, axis, sizes=(3, 0, 1, 9)), whole), parts, strict=True):
        same(found, expected)


def test_large_concat(isa):
    parts = [numbers(40, n, 9, seed=n) for n in (100, 3, 700)]
    same(run(isa, lambda net, *p: net.concat(p, 1), *parts)[0], np.concatenate(parts, 1))
    same(
        run(isa, lambda net, *p: net.concat(p), *[p.transpose(1, 0, 2).copy() for p in parts])[0],
        np.concatenate([p.transpose(1, 0, 2) for p in parts]),
    )


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "index",
    [
        np.s_[2:9:2, :, 1:],
        np.s_[::-1, 1:3, ::-2],
        np.s_[3:3, :, :],
        np.s_[4:9],
        np.s_[:, ::3, 6:7],
        np.s_[-1:-20:-3, :, -5:-1],
    ],
)
def test_slice(isa, dtype, index):
    x = numbers(11, 6, 30, dtype=dtype)
    given = index if isinstance(index, tuple) else (index,)
    far = 1 << 40
    begin = [(-far if (s.step or 1) > 0 else far) if s.start is None else s.start for s in given]
    end = [(far if (s.step or 1) > 0 else -far) if s.stop is None else s.stop for s in given]
    stride = [s.step or 1 for s in given]
    same(run(isa, lambda net, a: net.strided_slice(a, begin, end, stride=stride), x)[0], x[index])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("before", "after"), [((1, 0, 2), (0, 3, 1)), ((-2, 1, 0), (1, -1, 0)), ((0, 0, 0), (0, 0, 0)), ((5, 1, 0), (-6, 0, 4))]
)
def test_pad(isa, dtype, before, after):
    x = numbers(6, 5, 7, dtype=dtype)
    positive = [(max(b, 0), max(a, 0)) for b, a in zip(before, after, strict=True)]
    expected = np.pad(x, positive, constant_values=3)
    cut = tuple(slice(max(-b, 0), expected.shape[i] - max(-a, 0)) for i, (b, a) in enumerate(zip(before, after, strict=True)))
    same(run(isa, lambda net, a: net.pad(a, before, after, value=3), x)[0], expected[cut])


@pytest.mark.parametrize("dtype", TYPES)
def test_repeating(isa, dtype):
    x = numbers(3, 1, 5, dtype=dtype)
    same(run(isa, lambda net, a: net.broadcast_to(a, (2, 3, 40, 5)), x)[0], np.broadcast_to(x, (2, 3, 40, 5)))
    same(run(isa, lambda net, a: net.broadcast_to(a, (3, 4, 90)), x[:, :, :1])[0], np.broadcast_to(x[:, :, :1], (3, 4, 90)))
    same(run(isa, lambda net, a: net.tile(a, (2, 3, 4)), x)[0], np.tile(x, (2, 3, 4)))
    same(run(isa, lambda net, a: net.tile(a, (2, 0, 4)), x)[0], np.tile(x, (2, 0, 4)))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("column_first", [False, True])
def test_blocks_of_pixels(isa, layout, column_first):
    x = numbers(2, 12, 6, 10)
    n, c, h, w = x.shape
    order = (0, 1, 4, 2, 5, 3) if column_first else (0, 3, 4, 1, 5, 2)
    shape = (n, 3, 2, 2, h, w) if column_first else (n, 2, 2, 3, h, w)
    expected = x.reshape(shape).transpose(order).reshape(n, 3, 2 * h, 2 * w)
    back = (0, 3, 5, 1, 2, 4)
    expected_back = x.reshape(n, c, 3, 2, 5, 2).transpose(back).reshape(n, 4 * c, 3, 5)
    if layout == "NHWC":
        x, expected, expected_back = (np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for a in (x, expected, expected_back))
    deep = run(isa, lambda net, a: net.depth_to_space(a, 2, column_first=column_first, layout=layout), x)[0]
    same(deep, expected)
    same(run(isa, lambda net, a: net.space_to_depth(a, 2, layout=layout), x)[0], expected_back)


def test_reshapes_are_views(isa):
    x = numbers(2, 3, 4, dtype=np.int64)
    same(run(isa, lambda net, a: net.reshape(a, (4, -1)), x)[0], x.reshape(4, 6))
    same(run(isa, lambda net, a: net.expand_dims(a, (0, 2)), x)[0], x.reshape(1, 2, 1, 3, 4))
    same(run(isa, lambda net, a: net.squeeze(net.expand_dims(a, (0, 2))), x)[0], x)
    same(run(isa, lambda net, a: net.flatten(net.permute(a, (0, 2, 1))), x)[0], x.transpose(0, 2, 1).reshape(2, 12))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("positions", [np.int32, np.int64])
@pytest.mark.parametrize(("axis", "batch_dims"), [(0, 0), (1, 0), (2, 0), (2, 1), (1, 1)])
def test_gather(isa, dtype, positions, axis, batch_dims):
    x = numbers(3, 6, 7, dtype=dtype)
    indices = np.random.default_rng(1).integers(-x.shape[axis], x.shape[axis], (3, 4), positions)
    if batch_dims:
        expected = np.stack([np.take(a, i, axis - 1) for a, i in zip(x, indices, strict=True)])
    else:
        expected = np.take(x, indices, axis)
    same(run(isa, lambda net, a, i: net.gather(a, i, axis, batch_dims=batch_dims), x, indices)[0], expected)


@pytest.mark.parametrize(("shape", "axis", "count"), [((1000, 384), 0, 300), ((2, 90000), 0, 3), ((3, 20000), 1, 30000)])
def test_large_gather(isa, shape, axis, count):
    x = numbers(*shape)
    indices = np.random.default_rng(1).integers(0, shape[axis], count)
    same(run(isa, lambda net, a, i: net.gather(a, i, axis), x, indices)[0], np.take(x, indices, axis))


@pytest.mark.parametrize("outside", [-6, 5])
def test_gather_fails_out_of_range(isa, outside):
    with pytest.raises(dovetail.DovetailError, match=f"index {outside} is out of range for axis 1 of size 5"):
        run(isa, lambda net, a, i: net.gather(a, i, 1), numbers(2, 5), np.array([0, outside, 9]))
