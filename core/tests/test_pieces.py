"""Test that a load works on large arrays by pieces: same result, and a stop between two pieces."""

from __future__ import annotations

import io
import time

import numpy as np
import pytest

from dovetail import layers
from dovetail.graph.descriptor import evaluated
from dovetail.graph.element_types import DType
from dovetail.graph.tensor import Quantization, TensorInfo
from dovetail.ground import pieces
from dovetail.ground.errors import LoadTimeoutError
from dovetail.ground.limits import Limits, limited
from dovetail.layers import generating, indexing, joining, reshaping

LUCK = np.random.default_rng(0)


@pytest.fixture
def tiny(monkeypatch):
    """Make pieces so small that any array is many."""

    def shrink(elements):
        for module in (pieces, generating, indexing, joining, reshaping):
            monkeypatch.setattr(module, "PIECE", elements)

    return shrink


def drawn(*shape, dtype=np.float32):
    return LUCK.integers(-100, 100, shape).astype(dtype)


X, Y = drawn(5, 4, 3), drawn(4, 1)
SCHEME = Quantization(scale=(0.5, 2.0, 4.0), zero_point=(1, 2, 3), axis=2)
CASES = {
    "unary": (layers.ElementwiseUnary(operation="abs"), [X]),
    "binary": (layers.ElementwiseBinary(operation="sub"), [X, Y]),
    "integer division": (layers.ElementwiseBinary(operation="div"), [drawn(40, dtype=np.int8), drawn(40, dtype=np.int8)]),
    "comparison": (layers.Comparison(operation="less"), [X, Y]),
    "where": (layers.Where(), [X > 0, X, Y]),
    "to integers": (layers.Cast(dtype=DType.INT16), [X]),
    "to bfloat16": (layers.Cast(dtype=DType.BFLOAT16), [X]),
    "to bool": (layers.Cast(dtype=DType.BOOL), [drawn(7, 3, dtype=np.int64)]),
    "slice": (layers.StridedSlice(begin=(4, 0), end=(-9, 3), stride=(-2, 2), axes=(0, 1)), [X]),
    "backwards": (layers.StridedSlice(begin=(5,), end=(-99,), stride=(-1,)), [X]),
    "gather": (layers.Gather(axis=1), [X, np.array([[3, -4], [0, 1], [-1, -1]])]),
    "gather first": (layers.Gather(axis=0), [X, np.array([4, 0, -1])]),
    "trilu": (layers.Trilu(k=-1), [drawn(3, 5, 6)]),
    "lower": (layers.Trilu(k=2, upper=False), [drawn(6, 5)]),
    "range": (layers.Range(start=3, limit=90, delta=2, dtype=DType.INT32), []),
    "range of reals": (layers.Range(start=0.5, limit=-9.0, delta=-0.25, dtype=DType.FLOAT32), []),
    "fill": (layers.Fill(shape=(6, 7), value=2.5), []),
    "concat": (layers.Concat(axis=-2), [X, drawn(5, 2, 3), X]),
    "stack": (layers.Stack(axis=-1), [X, X * 2]),
    "split": (layers.Split(parts=3, axis=1, sizes=(1, 2, 1)), [X]),
    "pad": (layers.Pad(before=(1, 0, 2), after=(0, 3, 1), value=7), [X]),
    "permute": (layers.Permute(permutation=(2, 0, 1)), [X]),
    "broadcast": (layers.BroadcastTo(shape=(2, 5, 4, 3)), [X]),
    "tile": (layers.Tile(repeats=(2, 1, 4)), [X]),
    "tile rows": (layers.Tile(repeats=(1, 3, 2)), [X]),
    "sum": (layers.Reduce(function="sum", axes=(0, 2)), [drawn(6, 5, 4, dtype=np.int8)]),
    "product": (layers.Reduce(function="prod", axes=(1,), keep_dims=True), [drawn(6, 5, 4, dtype=np.uint8)]),
    "largest": (layers.Reduce(function="max"), [drawn(6, 5, 4, dtype=np.int64)]),
    "reduce nothing": (layers.Reduce(function="min", axes=()), [drawn(6, 5, dtype=np.int32)]),
    "dequantize": (layers.Dequantize(quantization=SCHEME), [drawn(5, 4, 3, dtype=np.int8)]),
    "dequantize wide": (layers.Dequantize(quantization=SCHEME), [drawn(5, 4, 3, dtype=np.int32)]),
}


def result_of(case):
    descriptor, values = CASES[case]
    infos = [TensorInfo.of_array(value) for value in values]
    return evaluated(descriptor, infos, values, descriptor.infer(infos))


@pytest.mark.parametrize("elements", [1, 5, 13])
@pytest.mark.parametrize("case", CASES)
def test_what_is_folded_in_pieces(tiny, case, elements):
    """The same bits, type and shape, in row-major order."""
    whole = result_of(case)
    tiny(elements)
    for one, expected in zip(result_of(case), whole, strict=True):
        assert (one.dtype, one.shape) == (expected.dtype, expected.shape)
        assert one.flags.c_contiguous
        assert one.tobytes() == expected.tobytes()


@pytest.mark.parametrize("case", CASES)
def test_folding_stops_in_time(tiny, case):
    tiny(5)
    with limited(Limits(seconds=1e-6)):
        time.sleep(0.001)
        with pytest.raises(LoadTimeoutError):
            result_of(case)


def test_casts_that_do_not_fit_are_left_alone(tiny):
    tiny(4)
    x = np.zeros(30, np.float32)
    x[-1] = 300
    assert layers.Cast(dtype=DType.INT8).evaluate([TensorInfo.of_array(x)], [x]) is None


@pytest.mark.parametrize("elements", [1, 4, 100])
def test_regions_cover_each_element_once(monkeypatch, elements):
    monkeypatch.setattr(pieces, "PIECE", elements)
    for shape in [(), (0,), (9,), (3, 0, 4), (3, 1, 4), (2, 3, 2, 2)]:
        seen = np.zeros(shape, int)
        for region in pieces.regions(shape):
            assert seen[region].size <= elements or not shape
            seen[region] += 1
        assert (seen == 1).all()


def test_bits_equal_compares_bits(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 3)
    x = np.array([1.0, np.nan, 2.0, 3.0], np.float32)
    other = x.copy()
    assert pieces.bits_equal(x, other)
    other[3] = -3.0
    assert not pieces.bits_equal(x, other)
    assert not pieces.bits_equal(np.zeros(1), np.full(1, -0.0))


def test_read_into_reads_what_there_is(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 1)
    data = bytes(range(100))
    for size in (0, 5, 100, 120):
        array = np.full(size, 255, np.uint8)
        assert pieces.read_into(io.BytesIO(data), array) == min(size, 100)
        assert array.tobytes() == (data + b"\xff" * 20)[:size]
