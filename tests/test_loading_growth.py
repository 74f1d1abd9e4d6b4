"""Check that loading grows linearly with the layers: lines of Python are counted, no clock decides.

A loop over all layers for each layer would add a line for each pair, which here takes the growth
beyond the bound even where it is one line. What runs in C (copying a long list, say) is not seen
here; `benchmarks/loading.py` measures it.
"""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail import Layer, Network
from dovetail.graph.layer import InputSlot

LAYERS = 300
BOUND = 4 * 1.2  # for four times the layers; from 3 to 4.4 was counted where nothing is superlinear


def _benchmark() -> Any:
    spec = importlib.util.spec_from_file_location("loading_benchmark", Path(__file__).parents[1] / "benchmarks" / "loading.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


loading = _benchmark()


def lines_run(work: Callable[[], object]) -> int:
    """Count the lines that a call runs in this thread; of a loop on one line, each turn counts."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def load(name: str, layers: int, folder: Path) -> int:
    network, _ = loading.made(name, layers, folder)
    return lines_run(lambda: dovetail.load(network, **loading.ARGUMENTS.get(name, {})).unload())


@pytest.mark.parametrize("name", [name for name in loading.NETWORKS if name not in ("onnx_chain", "onnx_branches")])
def test_lines_grow_with_the_layers(name: str, tmp_path: Path) -> None:
    load(name, 40, tmp_path)  # what is imported and kept when first used
    few, many = load(name, LAYERS, tmp_path), load(name, 4 * LAYERS, tmp_path)
    assert many <= BOUND * few, f"{few / LAYERS:.0f} lines a layer, then {many / LAYERS / 4:.0f}"


def batch_normalizations(count: int) -> Network:
    """Normalizations one after the other behind one convolution, which takes all of them in."""
    network, x = loading.started("batch_normalizations", 1, 4, 2, 2)
    x = network.convolution2d(x, np.ones((4, 4, 1, 1), np.float32))
    one = network.constant(np.ones(4, np.float32))
    for _ in range(count):
        x = network.batch_normalization(x, one, one, one, one)
    network.output(x, "y")
    return network


def shared(count: int) -> Network:
    """One tensor and one constant that all layers read, which go to two backends alternating."""
    network, x = loading.started("shared")
    tensor, constant = network.tanh(x), network.constant(np.ones((1, loading.WIDTH), np.float32))
    for number in range(count):
        name = f"{'odd' if number % 2 else 'even'}_{number}"
        x = network.addition(x, constant if number % 3 else tensor, name=name)
    network.output(x, "y")
    return network


def many_outputs(count: int) -> Network:
    """Every layer an output, and another from one tensor for each."""
    network, x = loading.started("many_outputs")
    tensor = network.tanh(x)
    for number in range(count // 2):
        x = loading.step(network, x, number)
        network.output(x, f"chain_{number}")
        network.output(tensor, f"same_{number}")
    return network


@pytest.mark.parametrize("make", [batch_normalizations, shared, many_outputs])
def test_lines_grow_with_the_layers_of_other_networks(make: Callable[[int], Network]) -> None:
    arguments = loading.ARGUMENTS["alternating"] if make is shared else {}

    def load_and_tell(layers: int) -> int:
        network = make(layers)

        def work() -> None:
            with dovetail.load(network, **arguments) as loaded:
                loaded.placement.explain()

        return lines_run(work)

    load_and_tell(40)
    few, many = load_and_tell(LAYERS), load_and_tell(4 * LAYERS)
    assert many <= BOUND * few, f"{few / LAYERS:.0f} lines a layer, then {many / LAYERS / 4:.0f}"


def test_names_do_not_grow_with_what_is_folded() -> None:
    optimized = dovetail.optimize(batch_normalizations(100), ["CpuRef"])
    assert len(optimized.graph) == 5
    assert max(len(layer.name) for layer in optimized.graph) < 40  # 200 where each name came from the one before


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Note each slot and layer that is compared with another, as a search along a list does."""
    seen: list[object] = []

    def same(self: object, other: object) -> bool:
        seen.append(self)
        return self is other

    for kind in (InputSlot, Layer):
        monkeypatch.setattr(kind, "__eq__", same)
        monkeypatch.setattr(kind, "__hash__", object.__hash__)
    return seen


def test_readers_leave_a_slot_without_a_look_at_the_others(comparisons: list[object]) -> None:
    network, x = loading.started("readers")
    readers = [network.tanh(x).layer.inputs[0] for _ in range(1000)]
    random.Random(1).shuffle(readers)
    for number, reader in enumerate(readers):
        network.disconnect(reader)
        assert reader.source is None
        assert len(x.consumers) == len(readers) - 1 - number
    assert len(comparisons) < 100  # 250,000 by searches
    for reader in readers:
        network.connect(x, reader)
    assert x.consumers == readers


def test_a_long_cycle_is_told_of(comparisons: list[object]) -> None:
    network, x = loading.started("cycle")
    first = network.addition(x, x).layer
    last = first.output
    for _ in range(1000):
        last = network.relu(last)
    network.disconnect(first.inputs[1])
    network.connect(last, first.inputs[1])
    with pytest.raises(dovetail.GraphError, match="has a cycle") as caught:
        network.topological_order()
    assert len(caught.value.details["cycle"]) == 1002
    assert len(comparisons) < 2000  # 500,000 by searches


def test_a_loop_over_all_pairs_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line for each pair, as in a name that is looked for among all names."""
    from dovetail.graph.graph import Graph

    unique_name = Graph.unique_name

    def slower(self: Graph, wish: str) -> str:
        sum([1 for _ in self])
        return unique_name(self, wish)

    monkeypatch.setattr(Graph, "unique_name", slower)
    load("chain", 40, tmp_path)
    few, many = load("chain", LAYERS, tmp_path), load("chain", 4 * LAYERS, tmp_path)
    assert many > BOUND * few
