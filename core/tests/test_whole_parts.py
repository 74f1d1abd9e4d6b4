"""Test parts taken whole: nothing is written by hand, nothing is compiled early.

By hand would be a network, a descriptor class, an order of inputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail import (
    BackendError,
    BackendId,
    ErrorCode,
    IBackend,
    IWorkloadFactory,
    Network,
    OptimizationViews,
    PrivateLayer,
    SubgraphView,
    Support,
)
from dovetail.graph.descriptor import descriptor_class


class Program:
    """Evaluates additions and multiplications of a part, as it was when it was taken."""

    def __init__(self, part: SubgraphView) -> None:
        number = {slot: index for index, slot in enumerate(part.inputs)}
        self.steps = []
        for layer in part.layers:
            operation = np.add if layer.descriptor.operation == "add" else np.multiply  # type: ignore[attr-defined]
            self.steps.append((operation, [number[slot.source] for slot in layer.inputs if slot.source is not None]))
            number[layer.output] = len(number)
        self.results = [number[slot] for slot in part.outputs]

    def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
        values = list(inputs)
        for operation, operands in self.steps:
            values.append(operation(*(values[index] for index in operands)))
        for array, index in zip(outputs, self.results, strict=True):
            array[...] = values[index]


class Factory(IWorkloadFactory):
    def create_workload(self, layer: Any) -> Any:
        raise AssertionError("a whole part is made by what was given to compile it")


class Whole(IBackend):
    def __init__(self) -> None:
        self.compiled: list[Any] = []

    @property
    def id(self) -> BackendId:
        return BackendId("Whole")

    def supports(self, layer: Any, options: Any, device: Any) -> Support:
        is_known = layer.kind == "dovetail.ElementwiseBinary" and layer.descriptor.operation in ("add", "mul")
        return Support.yes() if is_known else Support.no("kind", "only sums and products")

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        return Factory()

    def optimize_subgraph(self, view: SubgraphView, options: Any, device: Any) -> OptimizationViews:
        views = OptimizationViews(view)
        for part in view.convex_parts():
            program = Program(part)

            def compile(factory: Any, program: Program = program) -> Program:
                self.compiled.append(factory)
                return program

            views.compile_whole(part, compile)
        return views


@pytest.mark.parametrize("compile", [5, None])
def test_what_compiles_a_part_must_be_callable(compile: Any) -> None:
    class Wrong(Whole):
        def optimize_subgraph(self, view: SubgraphView, options: Any, device: Any) -> OptimizationViews:
            views = OptimizationViews(view)
            views.compile_whole(view, compile)
            return views

    with pytest.raises(BackendError, match=f"compile_whole\\(\\) was given {compile} to compile the part") as caught:
        dovetail.optimize(crossed(), backends=[Wrong()], fallback=False)
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT


def crossed() -> Network:
    network = Network("crossed")
    a, b = network.input("a", (3,)), network.input("b", (3,))
    product = network.multiplication(b, a, name="product")
    network.output(network.addition(product, a, name="sum"), name="y")
    network.output(product, name="z")
    return network


FEEDS = {"a": np.float32([1, 2, 3]), "b": np.float32([4, 5, 6])}


def test_a_part_is_one_layer_with_the_inputs_and_outputs_of_the_part() -> None:
    backend = Whole()
    with dovetail.load(crossed(), [backend]) as net:
        results = net.run(FEEDS)
        (row,) = net.placement.layers
    assert row.kind == "dovetail.WholePart"
    assert set(row.sources) == {"product", "sum"}
    np.testing.assert_array_equal(results["y"], [5, 12, 21])
    np.testing.assert_array_equal(results["z"], [4, 10, 18])


def test_placing_compiles_nothing() -> None:
    backend = Whole()
    optimized = dovetail.optimize(crossed(), backends=[backend])
    assert [row.kind for row in optimized.placement.layers] == ["dovetail.WholePart"]
    assert backend.compiled == []
    with dovetail.Runtime() as runtime, runtime.load(optimized) as net:
        net.run(FEEDS)
    assert [type(one) for one in backend.compiled] == [Factory]


class Telling(Whole):
    """Says of each step what it is."""

    steps: Any = (("product", "on the fast engine, 12 cycles"), ("sum", "on the slow engine"))

    def optimize_subgraph(self, view: SubgraphView, options: Any, device: Any) -> OptimizationViews:
        views = OptimizationViews(view)
        views.compile_whole(view, lambda factory: Program(view), "2 steps", self.steps)
        return views


def test_the_report_tells_what_the_steps_of_a_part_are() -> None:
    placement = dovetail.optimize(crossed(), backends=[Telling()]).placement
    (row,) = placement.layers
    assert row.steps == Telling.steps
    lines = placement.explain().splitlines()
    position = next(number for number, line in enumerate(lines) if "2 steps" in line)
    assert lines[position + 1 : position + 3] == [
        "    product  on the fast engine, 12 cycles",
        "    sum      on the slow engine",
    ]
    assert placement.to_dict()["layers"][0]["steps"] == Telling.steps


def test_long_names_are_shortened_in_the_report() -> None:
    network = Network("long")
    x = network.input("x", (3,))
    long, fused = "model/" * 20 + "first", "block/relu;block/convolution;" + "block/bias" * 10
    network.output(network.multiplication(network.addition(x, x, name=long), x, name=fused), "y")
    report = dovetail.optimize(network, backends=[Telling()]).placement.explain()
    assert max(map(len, report.splitlines())) < 260
    assert "...del/model/model/model/model/model/model/first ... block/relu;..." in report


@pytest.mark.parametrize("steps", ["one", [("a", 1)], [3]])
def test_steps_that_are_not_names_and_words_are_refused(steps: Any) -> None:
    backend = Telling()
    backend.steps = steps
    with pytest.raises(BackendError, match=r"steps_in_words\(\) returned") as caught:
        dovetail.optimize(crossed(), backends=[backend], fallback=False)
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT


def test_a_part_that_the_backend_leaves_and_comes_back_to_is_split() -> None:
    network = Network("around")
    a, b = network.input("a", (3,)), network.input("b", (3,))
    around = network.relu(network.addition(a, b, name="first"), name="elsewhere")
    network.output(network.multiplication(around, a, name="last"), name="y")
    view = SubgraphView(network, [network.layer("first"), network.layer("last")])
    assert [[layer.name for layer in part.layers] for part in view.convex_parts()] == [["first"], ["last"]]


@descriptor_class
class Weighted(PrivateLayer, kind="test.Weighted"):
    weights: Any
    inner: tuple[Any, ...] = ()


def test_a_private_layer_infers_what_it_was_given_and_releases_its_arrays() -> None:
    network = crossed()
    infos = (network.layer("sum").output.known_info,)
    inner = Weighted(weights=np.ones(2), infos=infos)
    layer = Weighted(weights=np.ones(3), inner=(inner,), infos=infos)
    assert (layer.output_count, layer.infer([])) == (1, infos)
    assert layer != Weighted(weights=layer.weights, inner=layer.inner, infos=infos)
    layer.release()
    assert layer.weights is None
    assert inner.weights is None


def test_an_unknown_attribute_of_a_private_layer_is_named() -> None:
    network = crossed()
    view = SubgraphView(network, [network.layer("sum")])
    with pytest.raises(TypeError, match="has no attribute 'wights'"):
        OptimizationViews(view).private_layer(view, Weighted, weights=None, wights=1)
