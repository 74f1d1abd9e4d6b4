"""Views of the graph, backends' answers, and how they are carried out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from dovetail.contract.backend_id import BackendId
from dovetail.contract.interfaces import IBackend, Support
from dovetail.contract.subgraph import OptimizationViews, SubgraphView
from dovetail.graph.descriptor import Descriptor
from dovetail.graph.graph import Graph
from dovetail.graph.layer import Layer
from dovetail.graph.tensor import DType, OpaqueLayout, Quantization, TensorInfo
from dovetail.ground.errors import BackendError, ErrorCode, GraphError, PlacementError
from dovetail.layers.network import Network
from dovetail.optimizer import OptimizedNetwork, optimize

Optimize = Callable[[SubgraphView], Any]


@dataclass(frozen=True, kw_only=True)
class Blob(Descriptor, kind="acme.Blob"):
    """A private layer that stands for anything."""

    input_names: ClassVar[tuple[str, ...]] = ("inputs",)
    required_inputs: ClassVar[int] = 0
    variadic: ClassVar[bool] = True
    results: tuple[TensorInfo, ...] = ()

    @property
    def output_count(self) -> int:
        return len(self.results)

    def infer(self, inputs: Any) -> Sequence[TensorInfo]:
        return self.results


class Plain(IBackend):
    """Takes everything."""

    def __init__(self, id: str, kinds: Sequence[str] = ()) -> None:
        self._id = BackendId(id)
        self.kinds = kinds

    @property
    def id(self) -> BackendId:
        return self._id

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        if not self.kinds or layer.kind.rsplit(".", 1)[-1] in self.kinds:
            return Support.yes()
        return Support.no("kind", f"no {layer.kind}")

    def create_workload_factory(self, *arguments: Any) -> Any:
        raise NotImplementedError


class Rewriting(Plain):
    """Answers as it is told, and remembers what it was offered."""

    def __init__(self, id: str, answer: Optimize, kinds: Sequence[str] = ()) -> None:
        super().__init__(id, kinds)
        self.answer = answer
        self.offered: list[list[str]] = []

    def optimize_subgraph(self, view: SubgraphView, options: Any, device: Any) -> OptimizationViews:
        self.offered.append([layer.name for layer in view.layers])
        answer: OptimizationViews = self.answer(view)
        return answer


def blob(part: SubgraphView, name: str = "blob", **changes: Any) -> Network:
    """A replacement of one private layer that fits a part."""
    net = Network("replacement")
    ins = [net.input(f"in{i}", s.shape, s.dtype, s.known_info.quantization) for i, s in enumerate(part.inputs)]
    layer = net.add(Blob(results=tuple(slot.known_info for slot in part.outputs)), *ins, name=name, **changes)
    for i, slot in enumerate(layer.outputs):
        net.output(slot, f"out{i}")
    return net


def whole(view: SubgraphView) -> OptimizationViews:
    answer = OptimizationViews(view)
    answer.substitute(view, blob(view))
    return answer


def diamond() -> Network:
    """Two outputs: x -> a -> (b, c) -> d -> y, and c -> z."""
    net = Network("diamond")
    a = net.unary(net.input("x", (2, 3)), "exp", name="a")
    b, c = net.unary(a, "sin", name="b"), net.unary(a, "cos", name="c")
    net.output(net.multiplication(b, c, name="d"), "y")
    net.output(c, "z")
    return net


def layers(network: OptimizedNetwork) -> list[str]:
    return [layer.name for layer in network.graph.topological_order() if layer.name in network.assignment]


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
    network = optimize(diamond(), [first, Plain("Second")])
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

    network = optimize(diamond(), [Rewriting("First", answer), Rewriting("Second", answer), Plain("Third")])
    assert {str(a.backend.id) for a in network.assignment.values() if a} == {"First", "Third"}


def test_a_backend_that_raises_gives_everything_back() -> None:
    def answer(view: SubgraphView) -> OptimizationViews:
        raise RuntimeError("compiler crashed")

    network = optimize(diamond(), [Rewriting("First", answer), Plain("Second")])
    assert {str(a.backend.id) for a in network.assignment.values() if a} == {"Second"}
    assert "compiler crashed" in network.placement.explain()
    with pytest.raises(BackendError, match="compiler crashed") as caught:
        optimize(diamond(), [Rewriting("First", answer), Plain("Second")], fallback=False)
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_partitions_are_offered_one_by_one_and_only_to_their_backend() -> None:
    net = Network()
    y = net.unary(net.input("x", (2,)), "exp", name="a")
    y = net.softmax(y, name="s")
    net.output(net.unary(y, "sin", name="b"), "y")
    first, second = Rewriting("First", whole, ["ElementwiseUnary"]), Rewriting("Second", whole)
    network = optimize(net, [first, second])
    assert (first.offered, second.offered) == ([["a"], ["b"]], [["s"]])
    assert layers(network) == ["blob", "blob_3", "blob_2"]
    assert network.partition_of == {"blob": 0, "blob_3": 1, "blob_2": 2}


def test_without_passes_each_layer_is_offered_by_itself() -> None:
    backend = Rewriting("Acme", whole)
    optimize(diamond(), [backend], passes=False)
    assert backend.offered == [["a"], ["b"], ["c"], ["d"]]


# -- what is refused -------------------------------------------------------------------------------


def views(view: SubgraphView, *parts: tuple[str, Any, Any]) -> OptimizationViews:
    result = OptimizationViews(view)
    for verb, part, *extra in parts:
        getattr(result, verb)(part, *[one for one in extra if one is not None])
    return result


def named(view: SubgraphView, *names: str) -> SubgraphView:
    return view.part([layer for layer in view.graph if layer.name in names])


def altered(view: SubgraphView, change: Callable[[Network], None]) -> OptimizationViews:
    net = blob(view)
    change(net)
    return views(view, ("substitute", view, net))


def with_results(view: SubgraphView, **changes: Any) -> OptimizationViews:
    net = Network()
    x = net.input("x", (2, 3))
    infos = []
    for slot in view.outputs:
        info = slot.known_info
        infos.append(
            TensorInfo(
                changes.get("shape", info.shape),
                changes.get("dtype", info.dtype),
                changes.get("quantization", info.quantization),
                changes.get("opaque"),
            )
        )
    layer = net.add(Blob(results=tuple(infos)), x)
    for i, slot in enumerate(layer.outputs):
        net.output(slot, f"y{i}")
    return views(view, ("substitute", view, net))


def swapped_input(view: SubgraphView) -> OptimizationViews:
    net = Network()
    layer = net.add(Blob(results=tuple(s.known_info for s in view.outputs)), net.input("x", (3, 2)))
    for i, slot in enumerate(layer.outputs):
        net.output(slot, f"y{i}")
    return views(view, ("substitute", view, net))


def cyclic(net: Network) -> None:
    x = net.layer("in0").output
    loop = net.addition(x, x, name="loop").layer
    net.disconnect(loop.inputs[1])
    net.connect(loop.output, loop.inputs[1])


def unconnected(net: Network) -> None:
    net.disconnect(net.outputs[0].inputs[0])


def symbolic(net: Network) -> None:
    net.layer("blob").outputs[0].info = None


def read_by_hand(net: Network) -> None:
    extra = net.unary(net.layer("in0").output, "sin", name="extra")
    net.layer("blob").inputs[0].source = extra


def read_of_another(net: Network) -> None:
    net.layer("blob").inputs[0].source = diamond().layer("a").output


def consumer_twice(net: Network) -> None:
    net.layer("in0").output.consumers *= 2


def stolen_slot(net: Network) -> None:
    net.layer("blob").inputs[0].layer = net.layer("in0")


def mistyped_sources(net: Network) -> None:
    net.layer("blob").sources = 5  # type: ignore[assignment]


def no_slots(net: Network) -> None:
    net.layer("blob").inputs = None  # type: ignore[assignment]


def appended(view: SubgraphView, name: str, entry: Any) -> OptimizationViews:
    answer = views(view, ("untouched", view, None))
    getattr(answer, name).append(entry)
    return answer


class Unprintable:
    def __repr__(self) -> str:
        raise SystemExit(3)

    __str__ = __repr__


def after(change: Callable[[SubgraphView], object]) -> Optimize:
    def answer(view: SubgraphView) -> OptimizationViews:
        result = whole(view)
        change(view)
        return result

    return answer


def rewire(view: SubgraphView) -> None:
    view.layers[-1].inputs[0].source = view.layers[-1].inputs[1].source


def circle(view: SubgraphView) -> OptimizationViews:
    # {p, s} and {q, r} are convex each, but p -> q and r -> s make each wait for the other
    one, two = named(view, "p", "s"), named(view, "q", "r")
    return views(view, ("substitute", one, blob(one)), ("substitute", two, blob(two)))


INVALID: dict[str, tuple[Optimize, str]] = {
    "nothing": (lambda v: None, "returned None, not OptimizationViews"),
    "another view": (lambda v: whole(v.part(v.layers)), "another view"),
    "missing layers": (lambda v: views(v, ("untouched", named(v, "a", "b"), None)), r"left layers out.*\(layers c, d\)"),
    "layers twice": (
        lambda v: views(v, ("untouched", v, None), ("failed", named(v, "b"), "no")),
        r"more than one part \(layers b\)",
    ),
    "not convex": (
        lambda v: views(
            v,
            ("substitute", named(v, "a", "d"), blob(named(v, "a", "d"))),
            ("untouched", named(v, "b", "c"), None),
        ),
        "not convex: .* through '[bc]'",
    ),
    "no network": (lambda v: views(v, ("substitute", v, "blob")), "not a network"),
    "too many inputs": (
        lambda v: altered(v, lambda n: n.input("more", (1,)) and None),
        "2 inputs for a part with 1: a|2 inputs",
    ),
    "too many outputs": (
        lambda v: altered(v, lambda n: n.output(n.layer("in0").output, "more") and None),
        "3 outputs .* with 2: c, d",
    ),
    "other shape": (lambda v: with_results(v, shape=(6,)), r"output for 'c' has shape \[6\], expected \[2, 3\]"),
    "other dtype": (lambda v: with_results(v, dtype=DType.FLOAT16), "has dtype float16, expected float32"),
    "other quantization": (lambda v: with_results(v, quantization=Quantization.per_tensor(1.0)), "has quantization"),
    "opaque outside": (lambda v: with_results(v, opaque=OpaqueLayout("blocked", 64)), "opaque layout 'blocked'"),
    "other input": (swapped_input, r"input for 'x' has shape \[3, 2\], expected \[2, 3\]"),
    "cycle": (lambda v: altered(v, cyclic), "no valid network: .*cycle"),
    "dangling": (lambda v: altered(v, unconnected), "no valid network: .*lacks its input"),
    "unknown info": (lambda v: altered(v, symbolic), "info of 'blob:0' is not known"),
    "strange sources": (
        lambda v: views(v, ("substitute", v, blob(v, sources_of=["elsewhere"]))),
        "'blob' stands for elsewhere",
    ),
    "sources that are no names": (lambda v: altered(v, mistyped_sources), "'blob' stands for 5, not for names"),
    "read by hand": (lambda v: altered(v, read_by_hand), "slot 'in0' names a consumer that does not read it"),
    "read of another network": (lambda v: altered(v, read_of_another), "not joined soundly: slot 'in0' names a consumer"),
    "consumer twice": (lambda v: altered(v, consumer_twice), "names it twice"),
    "stolen slot": (lambda v: altered(v, stolen_slot), "layer 'blob' has a slot of another layer"),
    "no slots": (lambda v: altered(v, no_slots), "cannot be read: TypeError"),
    "its own view's network": (
        lambda v: views(v, ("substitute", v, v.graph)),
        "the network that it was shown as a replacement",
    ),
    "unprintable": (lambda v: Unprintable(), "returned .its text cannot be printed., not OptimizationViews"),
    "unprintable reason": (lambda v: views(v, ("failed", v, Unprintable())), "with the reason .its text cannot be printed."),
    "reason that is no text": (lambda v: views(v, ("failed", v, 5)), "with the reason 5, not a text"),
    "unprintable replacement": (lambda v: views(v, ("substitute", v, Unprintable())), "gave .its text cannot be printed. as"),
    "part that is none": (lambda v: appended(v, "substitutions", (1, 2)), r"put \(1, 2\) into substitutions, not a part and"),
    "failure that is none": (lambda v: appended(v, "failures", v), "into failures, not a part and a reason"),
    "kept that is none": (lambda v: appended(v, "kept", 5), "put 5 into kept, not a view"),
    "cleared view": (after(lambda v: v.layers[0].inputs.clear()), r"changed layers that it was shown \(layers a\)"),
    "rewired view": (after(rewire), r"changed layers that it was shown \(layers d\)"),
}


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_answer_is_refused_always(name: str) -> None:
    answer, message = INVALID[name]
    with pytest.raises(BackendError, match=message) as caught:
        optimize(diamond(), [Rewriting("Acme", answer), Plain("Second")], fallback=False)
    error = caught.value
    assert error.code is ErrorCode.SUBSTITUTION_INVALID
    assert error.details["backend"] == "Acme"
    assert error.details["layers"]
    assert "backend Acme" in error.message


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_answer_costs_the_backend_the_part(name: str) -> None:
    answer, message = INVALID[name]
    network = optimize(diamond(), [Rewriting("Acme", answer), Plain("Second")])
    assert {str(a.backend.id) for a in network.assignment.values() if a} == {"Second"}
    refusals = [refusal for row in network.placement.layers for refusal in row.refusals]
    assert refusals
    assert all(re.search(message, str(refusal)) for refusal in refusals), refusals
    assert re.search(message, network.placement.explain())


@pytest.mark.parametrize(
    "change",
    [
        lambda view: view.graph.remove(view.graph.outputs[0]),
        lambda view: view.graph.rename(view.layers[0], "mine"),
        lambda view: view.inputs[0].consumers.clear(),
        lambda view: view.graph.constant(1.0),
    ],
)
def test_a_network_that_was_changed_for_good_is_blamed_on_the_backend(change: Callable[[SubgraphView], object]) -> None:
    with pytest.raises(BackendError, match=r"backend Acme: .*changed the network that it was shown") as caught:
        optimize(diamond(), [Rewriting("Acme", after(change)), Plain("Second")])
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT


def test_an_invalid_answer_with_nobody_else_to_ask_names_it() -> None:
    answer, message = INVALID["other shape"]
    with pytest.raises(PlacementError, match=message):
        optimize(diamond(), [Rewriting("Acme", answer)])


def test_foreign_layers_are_refused() -> None:
    net = diamond()
    backend = Rewriting("Acme", lambda v: views(v, ("untouched", v.part([*v.layers, v.graph.layer("s")]), None)))
    y = net.softmax(net.layer("d").output, name="s")
    net.output(y, "w")
    network = optimize(net, [backend, Plain("Second")], forbid={"s": "Acme"})
    assert "not offered (layers s)" in network.placement.explain()


def test_parts_that_wait_for_each_other_are_refused() -> None:
    net = Network()
    x = net.input("x", (2,))
    p, r = net.unary(x, "exp", name="p"), net.unary(x, "sin", name="r")
    net.output(net.unary(p, "cos", name="q"), "y")
    net.output(net.unary(r, "abs", name="s"), "z")
    net.output(net.addition(net.layer("q").output, net.layer("s").output, name="t"), "w")

    def answer(view: SubgraphView) -> OptimizationViews:
        result = circle(view)
        result.untouched(named(view, "t"))
        return result

    with pytest.raises(BackendError, match="circle") as caught:
        optimize(net, [Rewriting("Acme", answer)], fallback=False)
    assert caught.value.code is ErrorCode.SUBSTITUTION_INVALID


@pytest.mark.parametrize("name", ["cast", "mul"])
def test_deleting_what_does_not_connect_is_refused(name: str) -> None:
    net = Network()
    x = net.unary(net.input("x", (2,)), "exp", name="a")
    z = net.input("z", (2,))
    y = net.cast(x, DType.INT32, name="it") if name == "cast" else net.multiplication(x, z, name="it")
    net.output(net.unary(y, "abs", name="b"), "y")

    def answer(view: SubgraphView) -> OptimizationViews:
        return views(view, ("delete", named(view, "it"), None), ("untouched", named(view, "a", "b"), None))

    with pytest.raises(BackendError, match="deleted a part") as caught:
        optimize(net, [Rewriting("Acme", answer)], fallback=False)
    assert caught.value.code is ErrorCode.SUBSTITUTION_INVALID


def test_an_invalid_answer_changes_nothing_before_it_is_refused() -> None:
    seen: list[Graph] = []

    def answer(view: SubgraphView) -> OptimizationViews:
        seen.append(view.graph)
        part = named(view, "a")
        return views(view, ("substitute", part, blob(part)), ("untouched", named(view, "b", "c"), None))

    with pytest.raises(BackendError):
        optimize(diamond(), [Rewriting("Acme", answer)], fallback=False)
    assert "a" in seen[0]
    assert "blob" not in seen[0]


@pytest.mark.parametrize("seed", range(40))
def test_parts_of_a_convex_view_breach_where_a_walk_of_the_graph_says(seed: int) -> None:
    luck = np.random.default_rng(seed)
    net = Network("random")
    made = [net.input("x", (1, 4))]
    for _ in range(30):
        a, b = (made[luck.integers(max(0, len(made) - 6), len(made))] for _ in range(2))
        made.append(net.addition(a, b) if luck.random() < 0.5 else net.relu(a))
    net.output(made[-1], "y")
    whole = SubgraphView(net, [slot.layer for slot in made[1:]], convex=True)
    for _ in range(30):
        members = [slot.layer for slot in luck.choice(np.array(made[1:], object), luck.integers(1, 6), replace=False)]
        inside, plain = whole.part(members), SubgraphView(net, members)
        assert inside.is_convex == plain.is_convex == walked_convex(set(members))
        assert inside.breach() is None or inside.breach() not in members


def walked_convex(members: set[Layer]) -> bool:
    """Say whether nothing that depends on a member from outside is read by a member."""
    for member in members:
        outside = [c.layer for slot in member.outputs for c in slot.consumers if c.layer not in members]
        while outside:
            layer = outside.pop()
            if layer in members:
                return False
            outside += [c.layer for slot in layer.outputs for c in slot.consumers]
    return True
