"""Backends' answers that are refused, and what a refusal leaves."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fakes.backends import Choosing
from fakes.replacements import Blob, Optimize, Rewriting, blob, diamond, whole

from dovetail.contract.subgraph import OptimizationViews, SubgraphView
from dovetail.graph.element_types import DType
from dovetail.graph.graph import Graph
from dovetail.graph.layer import Layer
from dovetail.graph.tensor import OpaqueLayout, Quantization, TensorInfo
from dovetail.ground.errors import BackendError, ErrorCode, PlacementError
from dovetail.layers.network import Network
from dovetail.optimizer import optimize


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
        optimize(diamond(), [Rewriting("Acme", answer), Choosing("Second")], fallback=False)
    error = caught.value
    assert error.code is ErrorCode.SUBSTITUTION_INVALID
    assert error.details["backend"] == "Acme"
    assert error.details["layers"]
    assert "backend Acme" in error.message


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_answer_costs_the_backend_the_part(name: str) -> None:
    answer, message = INVALID[name]
    network = optimize(diamond(), [Rewriting("Acme", answer), Choosing("Second")])
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
        optimize(diamond(), [Rewriting("Acme", after(change)), Choosing("Second")])
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
    network = optimize(net, [backend, Choosing("Second")], forbid={"s": "Acme"})
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
