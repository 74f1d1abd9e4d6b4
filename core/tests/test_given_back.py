"""Test that parts that a Python backend claimed and cannot make go to the next backend at load."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fakes.backends import Willing

from dovetail import (
    BackendError,
    ErrorCode,
    IWorkloadFactory,
    Network,
    OptimizationViews,
    PlacementError,
    Runtime,
    SubgraphView,
    TensorInfo,
    optimize,
)
from dovetail.discovery.reasons import Refused
from dovetail.graph.descriptor import Descriptor, Infos, descriptor_class
from dovetail.graph.graph import Graph
from dovetail.ground import progress
from dovetail.loading.known_answers import self_test


@descriptor_class
class Whole(Descriptor, kind="given.Whole"):
    """A part as one session of some runtime."""

    input_names = ("input",)
    required_inputs = 0
    variadic = True
    infos: tuple[TensorInfo, ...]

    def infer(self, inputs: Infos) -> tuple[TensorInfo, ...]:
        return self.infos

    def in_words(self) -> str:
        return "a session"


class Sessions(IWorkloadFactory):
    """Its driver makes none."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def create_workload(self, layer: Any) -> Any:
        progress.report("Claiming", 0.5, "making a session")
        raise self.error


class Claiming(Willing):
    """Claims everything, one layer or more."""

    def __init__(self, error: BaseException | None = None, name: str | None = None) -> None:
        super().__init__("Claiming")
        self.named = name
        self.error = error or RuntimeError("the driver makes no session")

    def create_workload_factory(self, *arguments: Any) -> IWorkloadFactory:
        return Sessions(self.error)

    def optimize_subgraph(self, view: SubgraphView, options: Any, device: Any) -> OptimizationViews:
        graph, views = Graph("session"), OptimizationViews(view)
        fed = [graph.input(f"in{n}", slot.known_info.shape) for n, slot in enumerate(view.inputs)]
        layer = graph.add(Whole(infos=tuple(slot.known_info for slot in view.outputs)), *fed, name=self.named)
        for number, slot in enumerate(layer.outputs):
            graph.output(slot, f"out{number}")
        views.substitute(view, graph)
        return views


def network(size: int | str = 3) -> Network:
    net = Network("given back")
    x = net.input("x", (size,))
    net.output(net.relu(net.addition(x, x, name="double"), name="relu"), "y")
    return net


@pytest.mark.parametrize("passes", [True, False])
def test_a_part_goes_back_visibly(caplog: pytest.LogCaptureFixture, passes: bool) -> None:
    backends = [Claiming(), "CpuRef"]
    placed = optimize(network(), backends, passes=passes).placement
    assert {(row.backend, row.words) for row in placed.layers} == {("Claiming", "a session")}
    with Runtime(threads=1) as runtime:
        loaded = runtime.load(network("N"), optimize={"backends": backends, "passes": passes})
        for size in (2, 5):
            np.testing.assert_array_equal(
                loaded.run({"x": np.arange(size, dtype=np.float32) - 1})["y"],
                np.maximum(2 * (np.arange(size, dtype=np.float32) - 1), 0),
            )
        assert {row.backend for row in loaded.placement.layers} == {"CpuRef"}
        assert "the driver makes no session" in loaded.placement.explain()
    assert "backend Claiming could not compile" in caplog.text


def test_a_part_whose_layer_bears_the_name_of_one_goes_back_as_a_whole() -> None:
    net = Network("named")
    net.output(net.unary(net.unary(net.input("x", (3,)), "exp", name="inner"), "sin", name="outer"), "y")
    with Runtime(threads=1) as runtime:
        loaded = runtime.load(net, optimize={"backends": [Claiming(name="outer"), "CpuRef"]})
        rows = [(row.name, row.backend, row.reason) for row in loaded.placement.layers]
    assert rows == [("inner", "CpuRef", "fallback"), ("outer", "CpuRef", "fallback")]


def test_without_another_backend_it_is_an_error_that_says_what_failed() -> None:
    with Runtime(threads=1) as runtime:
        with pytest.raises(BackendError, match="the driver makes no session") as alone:
            runtime.load(network(), optimize={"backends": [Claiming()]})
        assert alone.value.code is ErrorCode.COMPILE_FAILED
        with pytest.raises(PlacementError, match="the driver makes no session") as caught:
            runtime.load(network(), optimize={"backends": [Claiming(), "CpuRef"], "forbid": {"relu": "CpuRef"}})
        assert isinstance(caught.value.__cause__, BackendError)
        with pytest.raises(BackendError, match="the driver makes no session") as failed:
            runtime.load(network(), optimize={"backends": [Claiming(), "CpuRef"], "fallback": False})
        assert failed.value.code is ErrorCode.COMPILE_FAILED


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError("none left")])
def test_what_is_no_fault_of_the_part_ends_the_load(error: BaseException) -> None:
    expected = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else BackendError
    with Runtime(threads=1) as runtime, pytest.raises(expected):
        runtime.load(network(), optimize={"backends": [Claiming(error), "CpuRef"]})


def test_the_listener_hears_of_it_and_may_end_the_load() -> None:
    told = []

    def hear(backend: str, fraction: float, what: str) -> None:
        told.append((backend, what))
        raise LookupError("enough")

    with Runtime(threads=1) as runtime, pytest.raises(LookupError):
        runtime.load(network(), optimize={"backends": [Claiming(), "CpuRef"], "progress": hear})
    assert told == [("Claiming", "making a session")]


def test_a_backend_speaks_for_its_kinds_and_the_core_of_what_it_folded() -> None:
    class Speaking(Claiming):
        def in_words(self, layer: Any) -> str:
            return f"{len(layer.inputs)} in"

    net = Network("folded")
    y = net.convolution2d(net.input("x", (1, 1, 2, 2)), np.ones((1, 1, 1, 1), np.float32), name="conv")
    net.output(net.batch_normalization(y, *(np.ones(1, np.float32) for _ in range(4)), name="norm"), "y")
    report = optimize(net, [Speaking()]).placement
    assert [row.words for row in report.layers] == ["1 in, batch norm folded in"]
    assert "1 in, batch norm folded in" in report.explain()


def test_the_self_test_goes_through_the_door_that_production_uses() -> None:
    with pytest.raises(Refused, match=r"self-test 'add, float32'.*the driver makes no session"):
        self_test(Claiming())
