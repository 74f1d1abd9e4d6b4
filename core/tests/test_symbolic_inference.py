"""What is known of a network before its sizes are: inferred by the kinds, from symbols."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
import pytest

from dovetail.graph.descriptor import Array, Descriptor, Infos, Values, descriptor_class
from dovetail.graph.element_types import DType
from dovetail.graph.expressions import Expression
from dovetail.graph.graph import Graph
from dovetail.graph.layer import OutputSlot
from dovetail.graph.symbolic_inference import SymbolicInference
from dovetail.graph.tensor import TensorInfo
from dovetail.ground.errors import DovetailError, ErrorCode, GraphError
from dovetail.layers import Reshape
from dovetail.layers.network import Network
from dovetail.optimizer.passes import FixShapes, InferAndFold
from dovetail.optimizer.symbolic import symbolic_outputs


def shown(slot: OutputSlot) -> str:
    """Return dtype and shape; ? for what is not known."""
    inference = SymbolicInference()
    info = inference.info(slot)
    return f"{inference.dtype(slot) or '?'}{'...' if info is None else info.shape_text}"


def net() -> tuple[Network, OutputSlot]:
    network = Network()
    return network, network.input("x", ("batch", "length", 64))


CASES: dict[str, tuple[Callable[[Network, OutputSlot], OutputSlot], str]] = {
    "nothing changes": (lambda n, x: n.relu(x), "float32[batch, length, 64]"),
    "sum": (lambda n, x: n.concat([x, x], axis=1), "float32[batch, 2*length, 64]"),
    "padding": (lambda n, x: n.pad(x, (0, 1, 0), (0, 2, 0)), "float32[batch, length + 3, 64]"),
    "product": (lambda n, x: n.reshape(x, (-1,)), "float32[64*batch*length]"),
    "quotient": (lambda n, x: n.reshape(x, (-1, 128)), "float32[(batch*length)//2, 128]"),
    "copied": (lambda n, x: n.reshape(x, (0, 0, 8, -1), zero_copies=True), "float32[batch, length, 8, 8]"),
    "window": (
        lambda n, x: n.pooling2d(n.expand_dims(x, 1), "max", 3, stride=2, padding=1),
        "float32[batch, 1, (length + 1)//2, 32]",
    ),
    "rest of an axis": (
        lambda n, x: n.strided_slice(x, (1,), (2**63 - 1,), axes=(1,)),
        "float32[batch, max(length - 1, 0), 64]",
    ),
    "first of an axis": (lambda n, x: n.strided_slice(x, (0,), (9,), axes=(1,)), "float32[batch, min(length, 9), 64]"),
    "last of an axis": (lambda n, x: n.strided_slice(x, (-2,), (2**63 - 1,), axes=(1,)), "float32[batch, min(length, 2), 64]"),
    "backwards": (lambda n, x: n.strided_slice(x, (-1,), (-(2**63),), axes=(1,), stride=(-1,)), "float32[batch, length, 64]"),
    "halves": (lambda n, x: n.split(x, 2, 1)[0], "float32[batch, min((length + 1)//2, length), 64]"),
    "comparison": (lambda n, x: n.comparison(x, np.float32(0), "less"), "bool[batch, length, 64]"),
    "matrix product": (lambda n, x: n.matmul(x, n.permute(x, (0, 2, 1))), "float32[batch, length, length]"),
    "index of the maximum": (lambda n, x: n.arg_min_max(x, "max", 1), "int64[batch, 64]"),
    "its shape": (lambda n, x: n.shape_of(x), "int64[3]"),
    "scaled": (lambda n, x: n.resize(x, scales=(1.0, 1.5, 2.0)), "float32[batch, length + length//2, 128]"),
}


@pytest.mark.parametrize("name", CASES)
def test_sizes_follow_from_symbols(name: str) -> None:
    build, wanted = CASES[name]
    network, x = net()
    assert shown(build(network, x)) == wanted


def sizes(n: Network, x: OutputSlot) -> Callable[[int], OutputSlot]:
    """Take a size out of the shape, as exporters do: a vector of one element."""
    return lambda axis: n.gather(n.shape_of(x), np.array([axis], np.int64))


def flattened(n: Network, x: OutputSlot) -> OutputSlot:
    size = sizes(n, x)
    return n.reshape(x, n.concat([n.multiplication(size(0), size(1)), np.array([64], np.int64)]))


def twice_as_long(n: Network, x: OutputSlot) -> OutputSlot:
    size = sizes(n, x)
    longer = n.multiplication(size(1), np.array([2], np.int64))
    return n.fill(n.concat([size(0), longer]), 0.0)


def doubled_through_floats(n: Network, x: OutputSlot) -> OutputSlot:
    size = n.cast(sizes(n, x)(1), np.float32)
    return n.fill(n.cast(n.unary(n.multiplication(size, np.float32(2)), "floor"), np.int64), 0.0)


def halved(n: Network, x: OutputSlot) -> OutputSlot:
    half = n.division(sizes(n, x)(1), np.array([2], np.int64))
    return n.strided_slice(x, np.array([0]), half, axes=np.array([1]))


def positions(n: Network, x: OutputSlot) -> OutputSlot:
    length = n.squeeze(sizes(n, x)(1), 0)
    return n.range(np.int64(0), length, np.int64(1))


def unless_negative(n: Network, x: OutputSlot) -> OutputSlot:
    wanted = n.concat([sizes(n, x)(0), np.array([-1, 1], np.int64)])
    ones = n.constant(np.ones(3, np.int64))
    return n.broadcast_to(np.zeros((1, 1, 64), np.float32), n.where(n.comparison(wanted, np.int64(-1), "equal"), ones, wanted))


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (flattened, "float32[batch*length, 64]"),
        (twice_as_long, "float32[batch, 2*length]"),
        (doubled_through_floats, "float32[2*length]"),
        (halved, "float32[batch, min(length, length//2), 64]"),
        (positions, "int64[length]"),
        (unless_negative, "float32[batch, 1, 64]"),
    ],
)
def test_sizes_follow_from_values_that_follow_from_sizes(
    build: Callable[[Network, OutputSlot], OutputSlot], wanted: str
) -> None:
    network, x = net()
    assert shown(build(network, x)) == wanted


def test_a_number_among_symbols_is_a_value() -> None:
    network, x = net()
    inference = SymbolicInference()
    width = network.gather(network.shape_of(x), np.int64(2))
    value = inference.value(width)
    assert value is not None
    assert value.dtype == np.int64
    assert value == 64
    assert inference.value(network.gather(network.shape_of(x), np.int64(1))) is None
    assert inference.value(network.shape_of(x)) is None


def test_values_decide() -> None:
    network, x = net()
    target = network.input("target", (3,), np.int64)
    inference = SymbolicInference()
    reshaped = inference.info(network.reshape(x, target))
    assert reshaped is not None
    assert reshaped.rank == 3
    assert not any(size.is_known for size in reshaped.shape if isinstance(size, Expression))
    axes = network.input("axes", (2,), np.int64)
    assert inference.rank(network.reduce(x, "sum", axes)) == 1
    assert inference.rank(network.squeeze(x, axes)) == 1
    assert inference.rank(network.expand_dims(x, axes)) == 5
    assert inference.rank(network.cumulative_sum(x, network.input("axis", (), np.int64))) == 3
    k = network.input("k", (1,), np.int64)
    best, where = network.top_k(x, k)
    assert inference.info(best).shape[:2] == inference.info(x).shape[:2]  # type: ignore[union-attr]  # it has a rank
    assert inference.dtype(where) is DType.INT64
    # What is part of a shape may be known beside what is not.
    half = network.concat([network.shape_of(x, 0, 1), k])
    assert str(inference.info(network.fill(half, 0.0)).shape[0]) == "batch"  # type: ignore[union-attr]


def test_an_unknown_rank_leaves_what_does_not_depend_on_it() -> None:
    network, x = net()
    length = network.input("length", ("count",), np.int64)
    anything = network.reshape(x, length)
    assert shown(anything) == "float32..."
    assert shown(network.cast(anything, np.int32)) == "int32..."
    assert shown(network.comparison(anything, np.float32(0), "less")) == "bool..."
    assert shown(network.arg_min_max(anything, "max")) == "int64..."
    flat = SymbolicInference().info(network.flatten(anything))
    assert flat is not None
    assert flat.rank == 2
    assert shown(network.matmul(anything, anything)) == "float32..."
    inference = SymbolicInference()
    inference.declare_rank(anything, 2)
    assert inference.rank(anything) == 2
    assert inference.rank(network.expand_dims(anything, 0)) == 3


def test_branches_share_what_they_have_in_common() -> None:
    network, x = net()
    condition = network.input("condition", (), np.bool_)
    chosen = network.conditional(condition, x, network.concat([x, x], axis=1))
    info = SymbolicInference().info(chosen)
    assert info is not None
    assert str(info.shape[0]) == "batch"
    assert not info.shape[1].is_known  # type: ignore[union-attr]  # an expression
    assert info.shape[2] == 64
    assert shown(network.conditional(condition, x, network.flatten(x))) == "float32..."


def test_outputs_are_named_by_symbols() -> None:
    network, x = net()
    network.output(network.reshape(x, (-1, 2, 64)), "pairs")
    network.output(network.reshape(x, network.input("target", (2,), np.int64)), "any")
    network.output(network.concat([x, x], axis=1), "both")
    pairs, anything, both = symbolic_outputs(network) or ()
    assert pairs.shape == ("(batch*length)//2", 2, 64)
    assert anything.shape == ("any_dim0", "any_dim1")
    assert both.shape == ("batch", "2*length", 64)
    fixed = symbolic_outputs(network, {"target": np.array([-1, 64])})
    assert fixed is not None
    assert fixed[1].shape == ("batch*length", 64)
    network.output(network.reshape(x, network.input("length", ("count",), np.int64)), "unknown")
    assert symbolic_outputs(network) is None


def test_a_long_chain_needs_no_recursion() -> None:
    network, x = net()
    for _ in range(3000):
        x = network.relu(x)
    assert shown(x) == "float32[batch, length, 64]"


@descriptor_class
class Doubled(Descriptor, kind="acme.Doubled"):
    """A vendor's kind that knows nothing of symbols, and needs not to."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = inputs[0]
        assert x is not None
        return [x.with_shape((*x.sizes[:-1], x.sizes[-1] * 2))]


@descriptor_class
class Halves(Descriptor, kind="acme.Halves"):
    """A vendor's kind that builds its info from the number of elements."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = inputs[0]
        assert x is not None
        return [TensorInfo.of((x.elements // 2, 2), DType.INT32)]

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        return [np.zeros(7, np.int32)]  # which is wrong, and so no value


@descriptor_class
class Stubborn(Descriptor, kind="acme.Stubborn"):
    """A vendor's kind that wants numbers: one of several ways to fail of symbols."""

    input_names: ClassVar[tuple[str, ...]] = ("input",)
    way: str

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = inputs[0]
        assert x is not None
        if self.way == "int":
            return [x.with_shape([int(size) for size in x.sizes])]
        if self.way == "if":
            return [x.with_shape([7 if size == 1 else size for size in x.sizes])]
        if self.way == "text":
            return [x.with_shape([f"{size}" for size in x.sizes])]
        if self.way == "numpy":
            return [TensorInfo.of_array(np.zeros(x.sizes, np.float32))]
        if self.way == "range":
            return [x.with_shape([len(range(size)) for size in x.sizes])]
        raise RuntimeError("no symbols, please")


def test_a_vendors_kind_takes_part() -> None:
    network, x = net()
    assert shown(network.add(Doubled(), x).output) == "float32[batch, length, 128]"
    assert shown(network.add(Doubled(), network.permute(x, (0, 2, 1))).output) == "float32[batch, 64, 2*length]"
    assert shown(network.add(Halves(), x).output) == "int32[32*batch*length, 2]"
    halves = network.add(Halves(), network.shape_of(x)).output
    assert shown(halves) == "int32[1, 2]"
    assert SymbolicInference().value(halves) is None


@pytest.mark.parametrize("way", ["int", "if", "text", "numpy", "range", "raise"])
def test_a_vendors_kind_that_wants_numbers_has_an_unknown_shape(way: str) -> None:
    network, x = net()
    slot = network.add(Stubborn(way=way), x).output
    assert shown(slot) == "float32..."
    assert shown(network.cast(slot, np.int8)) == "int8..."


def test_nothing_is_written_to_the_graph() -> None:
    network, x = net()
    y = network.reshape(network.relu(x), network.shape_of(x, 0, 2))
    shown(y)
    assert y.info is None
    assert isinstance(y.layer.descriptor, Reshape)
    assert y.layer.descriptor.shape is None
    assert x.shape == ("batch", "length", 64)


class Drawn:
    """A random network over symbols."""

    def __init__(self, seed: int) -> None:
        self.luck = random.Random(seed)
        self.network = Network(f"random{seed}")
        self.slots = [
            self.network.input("x", ("n", "m", 8)),
            self.network.input("y", ("n", 1, "k")),
            self.network.input("z", ("n", "m", "k", 2)),
        ]
        for _ in range(self.luck.randint(3, 12)):
            try:
                self.slots.append(self.grown())
            except DovetailError:
                continue
        for index, slot in enumerate(self.slots[3:]):
            self.network.output(slot, f"out{index}")

    def grown(self) -> OutputSlot:
        n, x = self.network, self.luck.choice(self.slots)
        rank = SymbolicInference().rank(x) or 0
        axis = self.luck.randrange(rank) if rank else 0
        other = self.luck.choice(self.slots)
        step = self.luck.choice([1, 2, 3])
        ways: list[Callable[[], OutputSlot]] = [
            lambda: n.concat([x, x], axis=axis),
            lambda: n.addition(x, other),
            lambda: n.matmul(x, n.permute(x, (*range(rank - 2), rank - 1, rank - 2))),
            lambda: n.strided_slice(
                x, (self.luck.randint(-3, 3),), (self.luck.choice([2, 5, -1, 2**40]),), axes=(axis,), stride=(step,)
            ),
            lambda: n.pad(x, [self.luck.randint(0, 2) for _ in range(rank)], [self.luck.randint(0, 2) for _ in range(rank)]),
            lambda: n.flatten(x, axis),
            lambda: n.reduce(x, "sum", (axis,), keep_dims=self.luck.random() < 0.5),
            lambda: n.split(x, 2, axis)[self.luck.randrange(2)],
            lambda: n.reshape(x, n.concat([n.shape_of(x, 0, axis), np.array([-1], np.int64)])),
            lambda: n.tile(x, [self.luck.randint(1, 3) for _ in range(rank)]),
            lambda: n.pooling2d(x, "max", 2, stride=step, padding=1, layout="NHWC"),
            lambda: n.expand_dims(x, axis),
            lambda: n.fill(n.shape_of(x), 1.0),
            lambda: n.resize(x, scales=[self.luck.choice([1.0, 0.5, 2.0]) for _ in range(rank)]),
            lambda: n.gather(x, np.array([0, 0]), axis),
            lambda: n.broadcast_to(x, n.shape_of(other)),
            lambda: n.depth_to_space(x, 2, layout="NHWC"),
        ]
        return self.luck.choice(ways)()


def concrete(network: Graph, sizes: dict[str, int]) -> dict[str, TensorInfo] | None:
    """Return the infos of the outputs for some sizes; None if these do not fit."""
    graph = network.copy()
    try:
        FixShapes(sizes).run(graph)
        InferAndFold().run(graph)
    except DovetailError:
        return None
    return {layer.name: layer.inputs[0].source.known_info for layer in graph.outputs if layer.inputs[0].source is not None}


def test_random_networks_have_the_sizes_that_their_symbols_give() -> None:
    compared = unknown = 0
    for seed in range(120):
        drawn = Drawn(seed)
        if not drawn.network.outputs:
            continue
        inference = SymbolicInference()
        sizes = {name: drawn.luck.choice([1, 2, 3, 4, 8, 9]) for name in "nmk"}
        found = concrete(drawn.network, sizes)
        if found is None:
            continue
        for layer in drawn.network.outputs:
            assert layer.inputs[0].source is not None
            info = inference.info(layer.inputs[0].source)
            wanted = found[layer.name]
            assert info is not None
            assert (info.rank, info.dtype) == (wanted.rank, wanted.dtype)
            for size, number in zip(info.shape, wanted.sizes, strict=True):
                if isinstance(size, Expression) and not size.is_known:
                    unknown += 1
                    continue
                compared += 1
                assert (size.evaluate(sizes) if isinstance(size, Expression) else size) == number, (
                    f"{seed}: {layer}: {info}, {wanted}"
                )
    assert compared > 500
    assert unknown < compared / 10


def looped(length: int, *, by_value: bool, behind: int = 0) -> OutputSlot:
    """A ring of so many layers that feed each other, or shape each other, and what reads it."""
    network, x = net()
    first = network.reshape(x, network.shape_of(x)) if by_value else network.addition(x, x)
    ring = [first]
    while len(ring) < length:
        ring.append(network.shape_of(ring[-1]) if by_value else network.addition(x, ring[-1]))
    network.disconnect(first.layer.inputs[1])
    network.connect(ring[-1], first.layer.inputs[1])
    for index, slot in enumerate(ring):
        network.rename(slot.layer, f"r{index}")
    read = ring[0]
    for _ in range(behind):
        read = network.relu(read)
    return read


@pytest.mark.timeout(60)
@pytest.mark.parametrize("ask", ["info", "dtype", "rank", "value"])
@pytest.mark.parametrize("behind", [0, 3])
@pytest.mark.parametrize(("length", "by_value"), [(1, False), (2, False), (7, False), (3000, False), (2, True), (1, True)])
def test_a_cycle_is_an_error_that_spells_it_out(length: int, by_value: bool, behind: int, ask: str) -> None:
    slot = looped(length, by_value=by_value, behind=behind)
    inference = SymbolicInference()
    for _ in range(2):
        with pytest.raises(GraphError, match="network 'network' has a cycle: ") as caught:
            getattr(inference, ask)(slot)
        assert caught.value.code is ErrorCode.GRAPH_CYCLE
        cycle = caught.value.details["cycle"]
        assert len(cycle) == length + 1
        start = int(cycle[0][1:])
        assert cycle == [f"r{(start + step) % length}" for step in range(length + 1)]


def test_what_does_not_need_the_cycle_is_known() -> None:
    network, x = net()
    a = network.addition(x, x)
    network.disconnect(a.layer.inputs[1])
    network.connect(network.relu(a), a.layer.inputs[1])
    inference = SymbolicInference()
    assert shown(network.relu(x)) == "float32[batch, length, 64]"
    with pytest.raises(GraphError):
        inference.info(a)
    assert str(inference.info(x)) == "float32[batch, length, 64]"
