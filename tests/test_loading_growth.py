"""Loading grows with the layers, not with their square: counted in lines of Python that run, so that no clock decides.

A loop over all layers for each layer would add a line for each pair, which here takes the growth beyond the bound even
where it is one line. What runs in C (copying a long list, say) is not seen here; `benchmarks/loading.py` measures it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import dovetail

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


def test_a_loop_over_all_pairs_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line for each pair, as in a name that is looked for among all names."""
    from dovetail.graph import Graph

    unique_name = Graph.unique_name

    def slower(self: Graph, wish: str) -> str:
        sum([1 for _ in self])
        return unique_name(self, wish)

    monkeypatch.setattr(Graph, "unique_name", slower)
    load("chain", 40, tmp_path)
    few, many = load("chain", LAYERS, tmp_path), load("chain", 4 * LAYERS, tmp_path)
    assert many > BOUND * few
