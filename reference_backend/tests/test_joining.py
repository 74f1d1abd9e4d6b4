"""Concat, Stack, Split and Pad, for every element type, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import Device, DType, Quantization
from dovetail.layers import PadMode
from dovetail.layers.joining import _max_padding
from dovetail_reference import ReferenceBackend
from dovetail_reference.workloads.joining import create

LABELS = [d.label for d in DType]
VIEW, PART, ELIDABLE = 1, 3, 2


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_concat(run_layer, samples, label, axis):
    parts = []
    for i, n in enumerate([2, 1, 0, 3]):
        shape = [2, 3, 4]
        shape[axis] = n
        parts.append(samples.array(label, shape, i))
    samples.same_bits(run_layer(lambda net, *p: net.concat(p, axis), *parts)[0], np.concatenate(parts, axis))


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(("shape", "axis"), [((), 0), ((3,), 0), ((3,), 1), ((2, 3), -1), ((2, 3), 1), ((0, 2), 0)])
def test_stack(run_layer, samples, label, shape, axis):
    parts = [samples.array(label, shape, i) for i in range(3)]
    samples.same_bits(run_layer(lambda net, *p: net.stack(p, axis), *parts)[0], np.stack(parts, axis))


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize(("axis", "sizes"), [(0, (1, 4, 2)), (1, (2, 0, 1)), (-1, (1, 1, 3))])
def test_split(run_layer, samples, label, axis, sizes):
    x = samples.array(label, (7, 3, 5))
    parts = run_layer(lambda net, a: net.split(a, 3, axis, sizes=sizes), x)
    for found, expected in zip(parts, np.split(x, np.cumsum(sizes)[:-1], axis), strict=True):
        samples.same_bits(found, expected)


def test_split_as_equal_as_can_be(run_layer):
    parts = run_layer(lambda net, a: net.split(a, 3), np.arange(7, dtype=np.int8))
    assert [p.tolist() for p in parts] == [[0, 1, 2], [3, 4, 5], [6]]


def aliases(direct, build, *arrays):
    layer, _ = direct.build_layer(build, *arrays)
    capsule = direct.create(layer)
    workload = direct.workload_of(capsule)
    return [(a.relation, a.output, a.input, a.offset) for a in workload.aliases[: workload.n_aliases]], workload.flags


def test_outermost_axis_shares_memory(direct):
    a, b = np.zeros((1, 2, 3), np.int16), np.zeros((1, 4, 3), np.int16)
    assert aliases(direct, lambda net, p, q: net.concat((p, q), 1), a, b) == ([(PART, 0, 0, 0), (PART, 0, 1, 12)], ELIDABLE)
    assert aliases(direct, lambda net, p, q: net.concat((p, q), 2), a[:, :, :2], a)[0] == []
    assert aliases(direct, lambda net, p, q: net.stack((p, q)), a, a) == ([(PART, 0, 0, 0), (PART, 0, 1, 12)], ELIDABLE)
    split = aliases(direct, lambda net, p: net.split(p, 2, 1, sizes=(1, 3)), b)
    assert split == ([(VIEW, 0, 0, 0), (VIEW, 1, 0, 6)], ELIDABLE)


def quantized(build, quantization):
    def made(net, *slots):
        y = build(net, *slots)
        y.quantization = quantization
        net.infer(y.layer)
        return y

    return made


@pytest.mark.parametrize("label", ["int8", "uint8"])
@pytest.mark.parametrize("kind", ["concat", "stack"])
@pytest.mark.parametrize("scales", [(0.1, 0.17), (0.0731, 0.0419), (0.0173, 0.25)])
def test_differing_quantizations_are_requantized(run_layer, label, kind, scales):
    low, high = (-128, 127) if label == "int8" else (0, 255)
    x = np.arange(low, high + 1).astype(label)
    mine, theirs = Quantization.per_tensor(scales[0], low + 110), Quantization.per_tensor(scales[1], low + 140)
    build = quantized(lambda net, p, q: (net.concat if kind == "concat" else net.stack)((p, q)), theirs)
    [y] = run_layer(build, x, x, quantizations=[mine, theirs])
    first, second = y.reshape(2, 256)
    assert np.array_equal(second, x)
    # ConcatenationWithScaling, step by step in float32.
    scale = np.float32(scales[0]) * (np.float32(1) / np.float32(scales[1]))
    value = x.astype(np.float32) * scale + -np.float32(mine.zero_point[0]) * scale
    rounded = np.where(value < 0, np.ceil(value - 0.5), np.floor(value + 0.5)) + theirs.zero_point[0]
    assert np.array_equal(first, np.clip(rounded, low, high).astype(label))


def test_parts_that_cannot_be_requantized_are_refused(direct):
    x = np.zeros(3, np.int8)
    for given in ([Quantization.per_tensor(0.1), None], [Quantization.per_axis([1, 2, 3], axis=0), Quantization.per_tensor(1)]):
        build = quantized(lambda net, p, q: net.concat((p, q)), Quantization.per_tensor(0.5))
        layer, _ = direct.build_layer(build, x, x, quantizations=given)
        support = ReferenceBackend().supports(layer, None, Device())
        assert not support.supported
        assert support.code == "quantization"


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("mode", list(PadMode))
def test_pad(run_layer, samples, label, mode):
    x = samples.array(label, (3, 1, 4, 5))
    before, after = ((2, 0, 1, 4), (1, 0, 3, 0)) if mode != "reflect" else ((2, 0, 1, 4), (1, 0, 2, 0))
    pads = list(zip(before, after, strict=True))
    fill = {"constant_values": x.dtype.type(1)} if mode == "constant" else {}
    expected = np.pad(x, pads, mode=str(mode), **fill)
    [y] = run_layer(lambda net, a: net.pad(a, before, after, mode=mode, value=1), x)
    samples.same_bits(y, expected.astype(x.dtype))


@pytest.mark.parametrize("mode", ["edge", "wrap"])
def test_pad_by_more_than_the_axis(run_layer, mode):
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    [y] = run_layer(lambda net, a: net.pad(a, (5, 0), (1, 7), mode=mode), x)
    assert np.array_equal(y, np.pad(x, ((5, 1), (0, 7)), mode=mode))


def test_negative_pads_remove(run_layer):
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    [y] = run_layer(lambda net, a: net.pad(a, (-1, 2), (1, -3), value=9.5), x)
    assert np.array_equal(y, np.pad(x[1:, :2], ((0, 1), (2, 0)), constant_values=9.5))


@pytest.mark.parametrize(
    ("label", "value", "stored"),
    [("float16", 1.5, 1.5), ("bfloat16", -2, -2), ("int8", -3.7, -3), ("uint8", 255, 255), ("bool", True, True)],
)
def test_pad_values_are_converted(run_layer, samples, label, value, stored):
    [y] = run_layer(lambda net, a: net.pad(a, (1,), (0,), value=value), samples.small(label, (1,)))
    assert y[0] == stored


@pytest.mark.parametrize(("shape", "before", "after"), [((), (), ()), ((0,), (2,), (1,)), ((0, 2), (0, 1), (0, 1))])
def test_pad_of_odd_shapes(run_layer, shape, before, after):
    x = np.ones(shape, np.float32)
    pads = list(zip(before, after, strict=True))
    [y] = run_layer(lambda net, a: net.pad(a, before, after, value=3), x)
    assert np.array_equal(y, np.pad(x, pads, constant_values=3) if pads else x)


def test_cancelled(run_layer, direct):
    x = np.zeros((300, 300), np.float32)
    with pytest.raises(direct.Cancelled):
        run_layer(lambda net, a: net.pad(a, (1, 1), (1, 1)), x, cancel=True)
    with pytest.raises(direct.Cancelled):
        run_layer(lambda net, a, b: net.concat((a, b), 1), x, x, cancel=True)


_RANGES = [
    *[(-3, 4, 11), (2, 4, 1), (-5, 1, 9), (-9, 4, 12), (3, 4, 3), (-2, 0, 5), (0, 3, 0), (-3, 4, 9), (2, 4, 5)],
    *[(-40000, 1, 80001), (-33333, 20000, 90000)],
]
"""First input position of the result, possibly outside; sizes of the input and the result."""


@pytest.mark.parametrize(
    ("mode", "first", "size", "count"),
    [
        (mode, *one)
        for mode in PadMode
        for one in _RANGES
        if (limit := _max_padding(mode, one[1])) is None or max(-one[0], one[0] + one[2] - one[1]) <= limit
    ],
)
@pytest.mark.parametrize("outer", [(), (2,)])
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64])
def test_positions_of_a_pad(run_layer, mode, first, size, count, outer, dtype):
    """Any piece of what goes on without end, even one far outside; rows of a larger tensor, too."""
    x = (np.arange(np.prod((*outer, size), dtype=int)) % 100 + 1).reshape(*outer, size).astype(dtype)
    before, after = [0] * len(outer) + [-first], [0] * len(outer) + [first + count - size]
    [y] = run_layer(lambda net, a: net.pad(a, before, after, mode=mode), x)
    positions = [pad_position(i, size, mode) for i in range(first, first + count)]
    filled = np.concatenate([x, np.zeros((*outer, 1), dtype)], axis=-1)  # so that -1 is the fill
    assert np.array_equal(y, filled[..., positions])


def pad_position(position, size, mode):
    """One position after the other."""
    if 0 <= position < size:
        return position
    if mode is PadMode.CONSTANT or size == 0:
        return -1
    if mode is PadMode.EDGE:
        return min(max(position, 0), size - 1)
    if mode is PadMode.WRAP:
        return position % size
    period = 2 * size if mode is PadMode.SYMMETRIC else 2 * size - 2
    turn = position % period if period else 0
    return min(turn, 2 * size - (1 if mode is PadMode.SYMMETRIC else 2) - turn)


def test_pads_of_several_axes(run_layer):
    """Each axis has its own positions; what is outside of one is outside whatever others say."""
    x = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    for mode in PadMode:
        for before, after in (((1, -1, 2), (0, 2, -1)), ((0, 2, 0), (1, 0, 3)), ((-1, 0, 1), (0, 0, 0))):
            [y] = run_layer(lambda net, a: net.pad(a, before, after, mode=mode, value=7), x)  # noqa: B023
            expected = np.full(y.shape, 7, x.dtype)
            for index in np.ndindex(*y.shape):
                found = [pad_position(i - b, size, mode) for i, b, size in zip(index, before, x.shape, strict=True)]
                if -1 not in found:
                    expected[index] = x[tuple(found)]
            assert np.array_equal(y, expected), (mode, before, after)


def test_a_huge_pad_needs_no_table(direct):
    layer, _ = direct.build_layer(lambda net, a: net.pad(a, (2**39,), (2**40,)), np.zeros(2, np.int8))
    assert ReferenceBackend().supports(layer, None, Device()).supported
    assert create(layer, layer.output.known_info.dtype) is not None
