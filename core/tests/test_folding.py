"""Test that folding adds a bounded amount to a graph, and evaluates nothing that is not needed."""

import numpy as np
import pytest

from dovetail import Network
from dovetail.graph.descriptor import Constant
from dovetail.graph.element_types import DType
from dovetail.graph.late_array import LateArray
from dovetail.graph.tensor import Quantization
from dovetail.ground.limits import Limits, budget, limited
from dovetail.layers import Concat, ElementwiseBinary, Fill, Reduce, Shape, Stack, StridedSlice
from dovetail.optimizer.folding import FOLDED_BYTES, FoldingBudget
from dovetail.optimizer.passes import InferAndFold

FILLED = 1 << 22
"""Bytes that each layer of the bombs below asks for."""


def held_bytes(net):
    owners = {}
    for layer in net:
        if isinstance(layer.descriptor, Constant):
            owner = layer.descriptor.value
            while isinstance(owner.base, np.ndarray):
                owner = owner.base
            owners[id(owner)] = owner.nbytes
    return sum(owners.values())


def many_fills(count):
    """Constants of a few bytes, each broadcast to megabytes, all of them read in the end."""
    net = Network()
    total = net.input("x", (1024, FILLED // 4096))
    for number in range(count):
        filled = net.broadcast_to(np.full((1, 1), number, np.float32), (1024, FILLED // 4096))
        total = net.addition(total, filled)
    net.output(total, "y")
    return net


def test_many_folds_together_add_a_bounded_amount():
    net = many_fills(40)  # 160 MiB out of some kilobytes
    InferAndFold().run(net)
    assert FOLDED_BYTES - FILLED <= held_bytes(net) <= FOLDED_BYTES + FILLED
    kinds = [layer.kind for layer in net]
    assert kinds.count("dovetail.BroadcastTo") == 40 - FOLDED_BYTES // FILLED


def test_the_passes_over_one_graph_share_what_they_may_add():
    net, folding = many_fills(40), FoldingBudget()
    assert InferAndFold(folding=folding).run(net) == FOLDED_BYTES // FILLED
    assert InferAndFold(folding=folding).run(net) == 0


def test_a_chain_of_folds_is_counted_by_what_stays():
    net = Network()
    slot = net.broadcast_to(np.ones((1, 1), np.float32), (1024, FILLED // 4096))
    for _ in range(40):  # each makes the one before superfluous
        slot = net.addition(slot, slot)
    net.output(net.addition(net.input("x", (1,)), slot), "y")
    with limited(Limits()):
        assert InferAndFold().run(net) == 41
        assert budget().memory == FILLED
    assert held_bytes(net) <= FILLED + 4


def test_views_of_a_fold_keep_it_counted():
    net, ends = Network(), []
    for number in range(40):
        filled = net.broadcast_to(np.full((1, 1), number, np.float32), (1024, FILLED // 4096))
        ends.append(net.reshape(filled, (FILLED // 4,)))  # a view: the array lives on although its layer goes
    total = net.input("x", (1,))
    for end in ends:
        total = net.addition(total, end)
    net.output(total, "y")
    InferAndFold().run(net)
    assert held_bytes(net) <= FOLDED_BYTES + FILLED


def test_small_integers_that_become_floats_are_folded_however_large_they_are():
    net = Network()
    weights = np.ones((3 * FOLDED_BYTES,), np.int8)  # a limit by itself would leave 96 MiB of float32 to each run
    net.output(net.addition(net.input("x", (1,)), net.cast(net.constant(weights), DType.FLOAT32)), "y")
    assert InferAndFold().run(net) == 1


def test_one_constant_read_over_and_over_ends_too():
    net = Network()
    large = net.broadcast_to(np.ones((1, 1), np.int32), (1024, 2048))
    total = net.input("x", (), DType.INT32)
    for _ in range(1000):  # 8 GiB to read
        total = net.addition(total, net.reduce(large, "sum"))
    net.output(total, "y")
    folded = InferAndFold().run(net)
    assert 100 < folded < 400


def test_a_fold_beyond_the_memory_of_the_load_is_left_to_the_run():
    net = many_fills(3)
    with limited(Limits(memory=FILLED + 100)):
        assert InferAndFold().run(net) == 1


@pytest.mark.parametrize(
    "build",
    [
        lambda net, empty: net.trilu(empty),  # whose mask would have 2^40 elements
        lambda net, empty: net.add(StridedSlice(begin=(0, 0, 0), end=(0, 1 << 20, 1 << 20)), empty).output,
        lambda net, empty: net.tile(empty, (1, 16, 1)),
        lambda net, empty: net.permute(empty, (2, 1, 0)),
    ],
)
def test_sizes_beside_a_zero_cost_nothing(build):
    net = Network()
    empty = net.constant(np.empty((0, 1 << 20, 1 << 20), np.float32))
    made = build(net, empty)
    net.output(made, "y")
    net.output(net.relu(net.input("x", (1,))), "z")
    assert InferAndFold().run(net) == 1
    (layer,) = [one.inputs[0].source.layer for one in net.outputs if one.name == "y"]
    assert isinstance(layer.descriptor, Constant)
    assert layer.descriptor.value.size == 0


def test_the_shape_of_a_scalar_is_empty_and_known():
    net = Network()
    net.output(net.add(Shape(), net.relu(net.input("x", ()))).output, "y")
    InferAndFold().run(net)
    value = net.outputs[0].inputs[0].source.layer.descriptor.value
    assert (value.shape, value.dtype) == ((0,), np.int64)


ONE, OTHER = Quantization.per_tensor(0.5, 3), Quantization.per_tensor(0.25, -7)
QUANTIZED = {  # kind, what its operands and its result stand for, whether NumPy gives its integers
    "add": (ElementwiseBinary(operation="add"), [ONE, ONE, ONE], False),
    "maximum": (ElementwiseBinary(operation="maximum"), [ONE, OTHER, ONE], False),
    "concat": (Concat(axis=1), [ONE, ONE, ONE], True),
    "concat of others": (Concat(axis=1), [ONE, OTHER, ONE], False),
    "concat to others": (Concat(axis=1), [ONE, ONE, OTHER], False),
    "concat of plain ones": (Concat(axis=1), [None, None, None], True),
    "stack of others": (Stack(axis=0), [ONE, OTHER, ONE], False),
    "sum": (Reduce(function="sum", axes=(0,)), [ONE, ONE], False),
    "fill": (Fill(value=3, dtype=DType.INT8, shape=(2, 3)), [ONE], True),
    "slice": (StridedSlice(begin=(0, 1), end=(2, 3)), [ONE, ONE], True),
    "slice to others": (StridedSlice(begin=(0, 1), end=(2, 3)), [ONE, OTHER], False),
}


@pytest.mark.parametrize("name", QUANTIZED)
def test_integers_that_stand_for_real_numbers_are_not_folded_as_if_they_did_not(name):
    descriptor, (*operands, result), is_folded = QUANTIZED[name]
    net, random = Network(), np.random.default_rng(0)
    read = [net.constant(random.integers(-99, 99, (2, 3)).astype(np.int8), quantization=one) for one in operands]
    net.output(net.add(descriptor, *read, quantization=result).output, "y")
    assert InferAndFold().run(net) == is_folded


@pytest.mark.parametrize("late", [False, True])
def test_weights_that_are_only_written_otherwise_may_stay_in_their_file(late):
    read, held = [], np.arange(24, dtype=np.float16).reshape(2, 3, 4)

    def weights():
        read.append(1)
        return held

    net = Network()
    slot = net.constant(LateArray((2, 3, 4), DType.FLOAT16, weights), "w")
    slot = net.reshape(net.permute(net.cast(slot, DType.FLOAT32, name="real"), (2, 0, 1)), (4, 6))
    net.output(net.addition(net.input("x", (4, 6)), slot), "y")
    assert InferAndFold(late=late).run(net) == 3
    (constant,) = [layer.descriptor for layer in net if isinstance(layer.descriptor, Constant)]
    assert len(read) == (not late)
    assert (constant.elements, constant.dtype) == (24, None)
    wanted = held.astype(np.float32).transpose(2, 0, 1).reshape(4, 6)
    for _ in range(2):
        np.testing.assert_array_equal(constant.value, wanted)
    assert constant.value.dtype == np.float32
    assert len(read) == 1


@pytest.mark.parametrize(("dtype", "to", "folds"), [("float32", "int8", False), ("bfloat16", "float32", True)])
def test_weights_that_may_not_evaluate_are_read_to_find_out(dtype, to, folds):
    """Whether 1e30 becomes an integer that every machine agrees about, only the value tells."""
    read, dtype = [], DType[dtype.upper()]

    def weights():
        read.append(1)
        return np.full((8, 8), 1e30 if dtype is DType.FLOAT32 else 0x3F80, dtype.numpy)

    net = Network()
    net.output(net.cast(net.constant(LateArray((8, 8), dtype, weights), "w"), DType[to.upper()]), "y")
    assert InferAndFold(late=True).run(net) == folds
    assert ("dovetail.Cast" in [layer.kind for layer in net]) is not folds
    assert len(read) == 1
