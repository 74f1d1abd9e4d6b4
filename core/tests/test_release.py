"""Backends release weights while a network is loaded, where nobody else can see it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from dovetail.contract.backend_id import BackendId
from dovetail.contract.interfaces import IBackend, IWorkloadFactory, Support
from dovetail.contract.subgraph import OptimizationViews, SubgraphView
from dovetail.graph.descriptor import Array, Descriptor, descriptor_class
from dovetail.graph.graph import Graph
from dovetail.graph.layer import Layer
from dovetail.graph.tensor import TensorInfo
from dovetail.ground.errors import ModelError
from dovetail.layers.network import Network
from dovetail.loading import parsing
from dovetail.optimizer import NetworkSource, optimize
from dovetail.runtime import Runtime

WEIGHTS = np.arange(4, dtype=np.float32)


@descriptor_class
class Scaled(Descriptor, kind="acme.Scaled"):
    input_names: ClassVar[tuple[str, ...]] = ("x",)
    weights: Array | None
    info: TensorInfo

    def infer(self, inputs: Any) -> Sequence[TensorInfo]:
        return (self.info,)


class Packed:
    """Keeps a copy, as a backend does that packs its weights."""

    def __init__(self, weights: Array) -> None:
        self.weights = weights.copy()

    def execute(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        np.multiply(inputs[0], self.weights, out=outputs[0])


class Factory(IWorkloadFactory):
    def __init__(self, backend: Acme) -> None:
        self.backend = backend

    def create_workload(self, layer: Layer) -> Any:
        descriptor = layer.descriptor
        assert isinstance(descriptor, Scaled)
        assert descriptor.weights is not None, "it was released before its workload was made"
        self.backend.alive.append(sum(ref() is not None for ref in self.backend.seen))
        return Packed(descriptor.weights)


class LettingGo(Factory):
    def release(self, layer: Layer) -> None:
        object.__setattr__(layer.descriptor, "weights", None)


class Acme(IBackend):
    """Replaces each multiplication by a constant with a private layer with weights of its own."""

    def __init__(self, factory: type[Factory]) -> None:
        self.factory = factory
        self.seen: list[weakref.ref[Array]] = []
        self.alive: list[int] = []
        """How many of the arrays were there, whenever a workload was made."""

    id = BackendId("Acme")

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        return Support.yes()

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        return self.factory(self)

    def optimize_subgraph(self, view: SubgraphView, options: Any, device: Any) -> OptimizationViews:
        graph = Graph("acme")
        slot = graph.input("in", view.inputs[0].shape, view.inputs[0].dtype)
        for layer in view.layers:
            weights = np.array(layer.constant(1))
            self.seen.append(weakref.ref(weights))
            slot = graph.add(Scaled(weights=weights, info=layer.output.known_info), slot, name=layer.name).output
        graph.output(slot, "out")
        views = OptimizationViews(view)
        views.substitute(view, graph)
        return views


def network() -> Network:
    net = Network("three products")
    slot = net.input("x", ("N", 4))
    for i in range(3):
        slot = net.multiplication(slot, net.constant(WEIGHTS + i))
    net.output(slot, "y")
    return net


EXPECTED = WEIGHTS * (WEIGHTS + 1) * (WEIGHTS + 2)


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    """A runtime; the collector is off, so that what goes, goes at once."""
    gc.collect()
    gc.disable()
    try:
        with Runtime(threads=1) as made:
            yield made
    finally:
        gc.enable()


def run(net: Any, rows: int = 1) -> Array:
    result: Array = net.run({"x": np.ones((rows, 4), np.float32)})["y"]
    return result


def test_weights_go_one_by_one(runtime: Runtime) -> None:
    acme = Acme(LettingGo)
    net = runtime.load(network(), optimize={"backends": [acme], "shapes": {"N": 1}})
    assert acme.alive == [3, 2, 1]
    assert not any(ref() is not None for ref in acme.seen)
    np.testing.assert_array_equal(run(net)[0], EXPECTED)


def test_they_stay_with_a_factory_that_says_nothing(runtime: Runtime) -> None:
    acme = Acme(Factory)
    net = runtime.load(network(), optimize={"backends": [acme], "shapes": {"N": 1}})
    assert acme.alive == [3, 3, 3]
    assert net.optimized is net.optimized
    assert len(acme.seen) == 3  # nothing was optimized again


def test_a_network_that_somebody_else_optimized_keeps_them(runtime: Runtime) -> None:
    acme = Acme(LettingGo)
    optimized = optimize(network(), [acme], shapes={"N": 1})
    for _ in range(2):
        np.testing.assert_array_equal(run(runtime.load(optimized))[0], EXPECTED)
    assert acme.alive == [3] * 6


def test_what_was_optimized_is_made_anew_when_asked_for(runtime: Runtime) -> None:
    acme = Acme(LettingGo)
    net = runtime.load(network(), optimize={"backends": [acme], "shapes": {"N": 1}})
    assert [row.backend for row in net.placement.layers] == ["Acme"] * 3
    assert net.outputs[0].shape == ("N", 4)  # another N is planned for when it comes
    assert len(acme.seen) == 3  # neither needs the weights
    optimized = net.optimized
    assert net.optimized is optimized
    assert [layer.descriptor.weights is not None for layer in optimized.graph if layer.kind == "acme.Scaled"] == [True] * 3  # type: ignore[attr-defined]
    np.testing.assert_array_equal(run(runtime.load(optimized))[0], EXPECTED)
    np.testing.assert_array_equal(run(net)[0], EXPECTED)


def test_the_users_network_is_loaded_again_and_planned_for_each_size(runtime: Runtime) -> None:
    acme, mine = Acme(LettingGo), network()
    for _ in range(2):
        net = runtime.load(mine, optimize={"backends": [acme]})
        for rows in (1, 3, 1):
            np.testing.assert_array_equal(run(net, rows), np.broadcast_to(EXPECTED, (rows, 4)))
        assert net.optimized.graph.inputs[0].output.known_info.sizes == (1, 4)
    assert acme.alive[:6] == [3, 2, 1] * 2


def read_from_a_file(read: list[weakref.ref[Array]], sizes: Sequence[int | str] = (1, 4)) -> Network:
    """Return a network whose weights nobody else has, and note them."""
    net = Network("read from a file")
    weights = WEIGHTS + 1
    weights.flags.writeable = False
    held = net.constant(weights)
    read.append(weakref.ref(weights))
    net.output(net.multiplication(net.input("x", sizes), held), "y")
    return net


@pytest.mark.parametrize("factory", [Factory, LettingGo])
def test_weights_that_can_be_read_again_are_not_kept(runtime: Runtime, factory: type[Factory]) -> None:
    read: list[weakref.ref[Array]] = []
    net = runtime.load(
        NetworkSource(read_from_a_file(read), lambda: read_from_a_file(read)), optimize={"backends": [Acme(factory)]}
    )
    assert [ref() for ref in read] == [None]
    for _ in range(2):
        np.testing.assert_array_equal(run(net)[0], WEIGHTS + 1)
    assert len(read) == 1
    optimized = net.optimized
    assert net.optimized is optimized
    assert len(read) == (2 if factory is LettingGo else 1)  # else nothing of what was optimized is gone
    assert [layer.name for layer in optimized.source.network] == [layer.name for layer in read_from_a_file([])]
    np.testing.assert_array_equal(run(runtime.load(optimized.replan()))[0], WEIGHTS + 1)


def test_a_network_that_is_used_up_is_planned_as_one_that_is_kept(runtime: Runtime) -> None:
    def branching() -> Network:
        net = Network("branching")
        x = net.input("x", (2, 4))
        slots = [net.multiplication(x, net.constant(WEIGHTS + i)) for i in range(3)]
        slots += [net.relu(slots[1]), net.relu(slots[0]), net.addition(slots[0], slots[2])]
        for number in (5, 3, 4, 1, 0):
            net.output(slots[number], f"y{number}")
        return net

    placements = [
        runtime.load(NetworkSource(branching(), again), optimize={"backends": ["CpuRef"], "passes": passes}).placement
        for passes in (True, False)
        for again in (None, branching)
    ]
    assert placements[0] == placements[1]
    assert placements[2] == placements[3]


def test_weights_are_kept_where_each_run_may_want_another_plan(runtime: Runtime) -> None:
    read: list[weakref.ref[Array]] = []
    net = runtime.load(
        NetworkSource(read_from_a_file(read, ("N", 4)), lambda: read_from_a_file(read)),
        optimize={"backends": [Acme(LettingGo)]},
    )
    for rows in (1, 3, 1):
        np.testing.assert_array_equal(run(net, rows), np.broadcast_to(WEIGHTS + 1, (rows, 4)))
    assert [ref() is None for ref in read] == [False]


def test_weights_are_read_again_where_values_of_inputs_shape_the_result(runtime: Runtime) -> None:
    def read() -> Network:
        net = Network("shaped by a value")
        shape = net.input("shape", (2,), "int64")
        net.output(net.addition(net.reshape(net.input("x", (6,)), shape), net.constant(np.float32([2.5]))), "y")
        return net

    net = runtime.load(NetworkSource(read(), read), optimize={"backends": ["CpuRef"]})
    for shape in ((2, 3), (3, 2), (6, 1)):
        out = net.run({"x": np.arange(6, dtype=np.float32), "shape": np.array(shape)})["y"]
        np.testing.assert_array_equal(out, np.arange(6, dtype=np.float32).reshape(shape) + 2.5)


def test_a_file_that_was_changed_or_removed_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(path: str) -> Network:
        net = Network(Path(path).read_text())
        net.files = (path, str(Path(path).with_suffix(".weights")))
        return net

    monkeypatch.setattr(parsing, "parse", parse)
    monkeypatch.chdir(tmp_path)
    file, weights = tmp_path / "model.acme", tmp_path / "model.weights"
    file.write_text("first")
    weights.write_text("of the first")
    source = parsing.ModelSource("model.acme")
    assert source.parse().name == "first"
    monkeypatch.chdir("/")
    assert source.parse_again().name == "first"
    weights.write_text("of the second")
    with pytest.raises(ModelError, match=r"model\.weights' was removed or changed after model 'model\.acme' was loaded"):
        source.parse_again()
    source = parsing.ModelSource(file)
    assert source.parse().name == "first"
    file.write_text("the second")
    with pytest.raises(ModelError, match=r"model\.acme' was removed or changed after"):
        source.parse_again()
    file.unlink()
    with pytest.raises(ModelError, match="removed or changed"):
        source.parse_again()


def test_a_failing_release_is_the_backends_fault(runtime: Runtime) -> None:
    class Failing(Factory):
        def release(self, layer: Layer) -> None:
            raise RuntimeError("no")

    with pytest.raises(Exception, match=r"'Acme'.*release\(\) raised RuntimeError: no"):
        runtime.load(network(), optimize={"backends": [Acme(Failing)], "shapes": {"N": 1}})


def test_folded_constants_go_with_the_part_that_read_them(runtime: Runtime) -> None:
    """They hang on removed layers, which are parts of cycles; the collector is off."""
    folded: list[weakref.ref[Array]] = []

    class Watching(Acme):
        def optimize_subgraph(self, view: SubgraphView, options: Any, device: Any) -> OptimizationViews:
            folded.extend(weakref.ref(value) for layer in view.layers if (value := layer.constant(1)) is not None)
            return super().optimize_subgraph(view, options, device)

    net = Network("a product with a sum of constants")
    both = net.addition(net.constant(WEIGHTS), net.constant(WEIGHTS + 1))
    net.output(net.multiplication(net.input("x", (1, 4)), both), "y")
    loaded = runtime.load(net, optimize={"backends": [Watching(LettingGo)]})
    assert [ref() for ref in folded] == [None]
    np.testing.assert_array_equal(run(loaded)[0], WEIGHTS * 2 + 1)
