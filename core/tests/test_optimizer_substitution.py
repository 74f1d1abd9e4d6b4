"""Views of the graph, backends' answers, and how they are carried out."""

from __future__ import annotations

import numpy as np
import pytest
from fakes.backends import Choosing
from fakes.replacements import Blob, Rewriting, blob, diamond, layers, whole

from dovetail.contract.subgraph import OptimizationViews, SubgraphView
from dovetail.graph.tensor import OpaqueLayout, TensorInfo
from dovetail.ground.errors import BackendError, ErrorCode, GraphError, PlacementError
from dovetail.layers.network import Network
from dovetail.optimizer import optimize

# -- views -----------------------------------------------------------------------------------------


def test_a_view_knows_its_edges() -> None:
    net = diamond()
    view = SubgraphView(net, [net.layer("d"), net.layer("b"), net.layer("c")])
    assert [layer.name for layer in view.layers] == ["b", "c", "d"]
    assert [slot.name for slot in view.inputs] == ["a"]
    assert [slot.name for slot in view.outputs] == ["c", "d"]
    assert view.sources == ("b", "c", "d")
    assert net.layer("b") in view
    assert net.layer("a") not in view
    assert view.is_convex


def test_constants_are_seen_through_their_readers() -> None:
    net = Network()
    y = net.addition(net.input("x", (2,)), np.ones(2, np.float32), name="add")
    net.output(y, "y")
    view = SubgraphView(net, [y.layer])
    assert [slot.name for slot in view.inputs] == ["x"]
    assert y.layer.constant(1) is not None
    for name in ("x", "y", "add.1"):
        with pytest.raises(GraphError, match="cannot be a member"):
            SubgraphView(net, [net.layer(name)])
    with pytest.raises(GraphError, match="is not a layer of"):
        SubgraphView(Network("other"), [y.layer])


def test_a_view_with_a_detour_is_not_convex() -> None:
    net = diamond()
    view = SubgraphView(net, [net.layer("a"), net.layer("d")])
    assert not view.is_convex
    assert view.breach() in (net.layer("b"), net.layer("c"))


# -- what is carried out ---------------------------------------------------------------------------


def test_a_whole_partition_becomes_one_private_layer() -> None:
    backend = Rewriting("Acme", whole)
    network = optimize(diamond(), [backend])
    assert backend.offered == [["a", "b", "c", "d"]]
    assert layers(network) == ["blob"]
    layer = network.graph.layer("blob")
    assert layer.sources == ("a", "b", "c", "d")
    assert [slot.consumers[0].layer.name for slot in layer.outputs] == ["z", "y"]
    row = network.placement.layer("b")
    assert (row.name, row.reason, row.partition) == ("blob", "private", 0)
    assert network.assignment["blob"].backend is backend  # type: ignore[union-attr]


def test_blocked_layouts_live_between_private_layers_alone() -> None:
    def answer(view: SubgraphView) -> OptimizationViews:
        result = OptimizationViews(view)
        slot = view.inputs[0]
        net = Network()
        x = net.input("x", slot.shape, slot.dtype)
        inner = TensorInfo(slot.shape, slot.dtype, None, OpaqueLayout("nchw8c", 256))
        first = net.add(Blob(results=(inner,)), x, name="pack", sources_of=["a"]).output
        second = net.add(Blob(results=tuple(s.known_info for s in view.outputs)), first, name="rest")
        for i, out in enumerate(second.outputs):
            net.output(out, f"y{i}")
        result.substitute(view, net)
        return result

    network = optimize(diamond(), [Rewriting("Acme", answer)])
    assert network.graph.layer("pack").sources == ("a",)
    assert network.graph.layer("rest").sources == ("a", "b", "c", "d")
    assert network.graph.layer("pack").output.known_info.nbytes == 256
    assert len(network.placement.partitions) == 1


def test_a_layer_that_bears_the_name_of_one_it_replaces_stands_for_the_others_too() -> None:
    def answer(view: SubgraphView) -> OptimizationViews:
        result = OptimizationViews(view)
        result.substitute(view, blob(view, "d"))
        return result

    network = optimize(diamond(), [Rewriting("Acme", answer)])
    assert network.graph.layer("d").sources == ("a", "b", "c", "d")
    assert {network.placement.layer(name).name for name in "abcd"} == {"d"}
    assert "a, b, c, d" in network.placement.explain()


def test_layers_that_keep_their_names_stand_for_themselves() -> None:
    def answer(view: SubgraphView) -> OptimizationViews:
        result = OptimizationViews(view)
        net = Network("replacement")
        slot = net.input("in", view.inputs[0].shape)
        for name in ("a", "d"):
            slot = net.unary(slot, "exp", name=name)
        net.output(slot, "out")
        result.substitute(view.part([layer for layer in view.layers if layer.name in "abd"]), net)
        result.untouched(view.part([layer for layer in view.layers if layer.name == "c"]))
        return result

    net = Network()
    slot = net.input("x", (2, 3))
    for name in "abdc":
        slot = net.unary(slot, "exp", name=name)
    net.output(slot, "y")
    graph = optimize(net, [Rewriting("Acme", answer)]).graph
    assert (graph.layer("a").sources, graph.layer("d").sources) == (("a", "b"), ("b", "d"))
    assert graph.layer("c").sources == ("c",)


def test_sources_may_be_given_by_names_of_layers_in_the_view() -> None:
    def answer(view: SubgraphView) -> OptimizationViews:
        result = OptimizationViews(view)
        for layer in view.layers:
            part = view.part([layer])
            result.substitute(part, blob(part, f"my_{layer.name}", sources_of=[layer.name]))
        return result

    net = Network()
    w = np.ones((1, 1, 1, 1), np.float32)
    y = net.relu(net.convolution2d(net.input("x", (1, 1, 2, 2)), w, name="conv"), name="act")
    net.output(net.unary(y, "exp", name="last"), "y")
    network = optimize(net, [Rewriting("Acme", answer)])
    assert [(name, network.graph.layer(name).sources) for name in layers(network)] == [
        ("my_conv", ("conv", "act")),
        ("my_last", ("last",)),
    ]
    assert not [layer for layer in network.graph if layer.kind == "dovetail.Constant"], "weights that nobody reads are gone"


def test_parts_that_feed_each_other_are_replaced_together() -> None:
    def answer(view: SubgraphView) -> OptimizationViews:
        result = OptimizationViews(view)
        for names in (["c", "d"], ["a"]):  # deliberately against the flow
            part = view.part([layer for layer in view.layers if layer.name in names])
            result.substitute(part, blob(part, "_".join(names)))
        result.untouched(next(layer for layer in view.layers if layer.name == "b"))
        return result

    network = optimize(diamond(), [Rewriting("Acme", answer)])
    assert layers(network) == ["a", "b", "c_d"]
    assert [slot.source.name for slot in network.graph.layer("c_d").inputs if slot.source] == ["a", "b"]


def test_a_replacement_may_bring_constants_and_share_arrays() -> None:
    net = Network()
    weights = np.ones((2,), np.float32)
    weights.flags.writeable = False  # so that it is shared
    net.output(net.addition(net.input("x", (2,)), weights, name="add"), "y")

    def answer(view: SubgraphView) -> OptimizationViews:
        result = OptimizationViews(view)
        held = view.layers[0].constant(1)
        assert held is not None
        inner = Network()
        x = inner.input("x", (2,))
        inner.output(inner.add(Blob(results=(view.outputs[0].known_info,)), x, held, name="packed").output, "y")
        result.substitute(view, inner)
        return result

    network = optimize(net, [Rewriting("Acme", answer)])
    held = network.graph.layer("packed").constant(1)
    assert held is not None
    assert np.shares_memory(held, weights)
    assert net.layer("add").inputs[0].source is net.layer("x").output, "the original network is not touched"


def test_a_deleted_part_connects_its_neighbours() -> None:
    net = Network()
    x = net.unary(net.input("x", (2,)), "exp", name="a")
    net.output(net.unary(net.unary(x, "round", name="noop"), "sin", name="b"), "y")

    def answer(view: SubgraphView) -> OptimizationViews:
        result = OptimizationViews(view)
        result.delete(view.layers[1])
        result.untouched([view.layers[0], view.layers[2]])
        return result

    network = optimize(net, [Rewriting("Acme", answer)])
    assert layers(network) == ["a", "b"]
    assert network.placement.folded == ("noop",)
    assert network.placement.deleted == (("noop", "Acme"),)
    assert "folded away: noop (deleted by Acme)" in network.placement.explain()


def test_only_the_part_given_back_moves_on() -> None:
    def answer(view: SubgraphView) -> OptimizationViews:
        result = OptimizationViews(view)
        result.failed(view.layers[-1], "out of on-chip memory")
        result.untouched(view.layers[:-1])
        return result

    second = Rewriting("Second", whole)
    network = optimize(diamond(), [Rewriting("First", answer), second])
    assert {n: str(a.backend.id) for n, a in network.assignment.items() if a} == {
        "a": "First",
        "b": "First",
        "c": "First",
        "blob": "Second",
    }
    assert second.offered == [["d"]], "the next backend is offered what it was given"
    row = network.placement.layer("d")
    assert (row.name, row.reason) == ("blob", "fallback")
    assert [(r.backend, r.code, r.reason) for r in row.refusals] == [("First", "failed", "out of on-chip memory")]


def test_the_reason_of_a_failure_is_reported() -> None:
    def answer(view: SubgraphView) -> OptimizationViews:
        result = OptimizationViews(view)
        result.failed(view, "out of on-chip memory")
        return result

    first = Rewriting("First", answer)
    network = optimize(diamond(), [first, Choosing("Second")])
    row = network.placement.layer("a")
    assert (row.backend, row.reason) == ("Second", "fallback")
    assert [(r.backend, r.code, r.reason) for r in row.refusals] == [("First", "failed", "out of on-chip memory")]
    assert first.offered == [["a", "b", "c", "d"]], "once"
    with pytest.raises(PlacementError, match="out of on-chip memory"):
        optimize(diamond(), [first])


def test_a_backend_that_always_gives_back_ends() -> None:
    def answer(view: SubgraphView) -> OptimizationViews:
        result = OptimizationViews(view)
        result.failed(view.layers[0], "never")
        if len(view) > 1:
            result.untouched(view.layers[1:])
        return result

    network = optimize(diamond(), [Rewriting("First", answer), Rewriting("Second", answer), Choosing("Third")])
    assert {str(a.backend.id) for a in network.assignment.values() if a} == {"First", "Third"}


def test_a_backend_that_raises_gives_everything_back() -> None:
    def answer(view: SubgraphView) -> OptimizationViews:
        raise RuntimeError("compiler crashed")

    network = optimize(diamond(), [Rewriting("First", answer), Choosing("Second")])
    assert {str(a.backend.id) for a in network.assignment.values() if a} == {"Second"}
    assert "compiler crashed" in network.placement.explain()
    with pytest.raises(BackendError, match="compiler crashed") as caught:
        optimize(diamond(), [Rewriting("First", answer), Choosing("Second")], fallback=False)
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_partitions_are_offered_one_by_one_and_only_to_their_backend() -> None:
    net = Network()
    y = net.unary(net.input("x", (2,)), "exp", name="a")
    y = net.softmax(y, name="s")
    net.output(net.unary(y, "sin", name="b"), "y")
    first, second = Rewriting("First", whole, "ElementwiseUnary"), Rewriting("Second", whole)
    network = optimize(net, [first, second])
    assert (first.offered, second.offered) == ([["a"], ["b"]], [["s"]])
    assert layers(network) == ["blob", "blob_3", "blob_2"]
    assert network.partition_of == {"blob": 0, "blob_3": 1, "blob_2": 2}


def test_without_passes_each_layer_is_offered_by_itself() -> None:
    backend = Rewriting("Acme", whole)
    optimize(diamond(), [backend], passes=False)
    assert backend.offered == [["a"], ["b"], ["c"], ["d"]]
