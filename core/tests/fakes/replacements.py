"""Parts of a network that a backend replaces by private layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dovetail.contract.subgraph import OptimizationViews, SubgraphView
from dovetail.graph.descriptor import Descriptor
from dovetail.graph.tensor import TensorInfo
from dovetail.layers.network import Network
from dovetail.optimizer import OptimizedNetwork
from fakes.backends import Choosing, only

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


class Rewriting(Choosing):
    """Answers as it is told, and remembers what it was offered."""

    def __init__(self, id: str, rewrite: Optimize, *kinds: str) -> None:
        super().__init__(id, *([only(*kinds)] if kinds else []))
        self.rewrite = rewrite
        self.offered: list[list[str]] = []

    def optimize_subgraph(self, view: SubgraphView, options: Any, device: Any) -> OptimizationViews:
        self.offered.append([layer.name for layer in view.layers])
        answer: OptimizationViews = self.rewrite(view)
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
