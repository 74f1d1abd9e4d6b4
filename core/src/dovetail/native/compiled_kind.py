"""The private layer that stands for a compiled part of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from ..contract.subgraph import SubgraphView
from ..graph.descriptor import Descriptor, Infos, descriptor_class
from ..graph.graph import Graph
from ..graph.layer import Layer, OutputSlot
from ..graph.tensor import TensorInfo


@descriptor_class
class CompiledPart(Descriptor):
    """What a table made of several layers; each backend has a subclass with a kind of its own.

    Attributes:
        compiled: The handle; dropped with the last plan that uses it.
        infos: Infos of the outputs.
    """

    input_names: ClassVar[tuple[str, ...]] = ("input",)
    required_inputs: ClassVar[int] = 0
    variadic: ClassVar[bool] = True
    compiled: Any
    infos: tuple[TensorInfo, ...]

    # A handle equals itself alone.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def output_count(self) -> int:
        return len(self.infos)

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        return self.infos


class LonePart(NamedTuple):
    """A layer as a part of its own, as it stands in the plan: every input slot is one of the part, constants too."""

    layers: tuple[Layer, ...]
    inputs: tuple[OutputSlot | None, ...]
    outputs: tuple[OutputSlot, ...]

    @classmethod
    def of(cls, layer: Layer) -> LonePart:
        """Take one layer."""
        return cls((layer,), tuple(slot.source for slot in layer.inputs), tuple(layer.outputs))


def compiled_kind(id: str) -> type[CompiledPart]:
    """Return the class of the private layers of one backend."""
    return descriptor_class(type("Compiled", (CompiledPart,), {"__annotations__": {}}, kind=f"{id}.Compiled"))


def replacement(part: SubgraphView, kind: type[CompiledPart], compiled: Any) -> Graph:
    """Return the network of one private layer that stands in for a part."""
    graph = Graph("compiled")
    sources = []
    for number, slot in enumerate(part.inputs):
        info = slot.known_info
        sources.append(graph.input(f"input_{number}", info.shape, info.dtype, info.quantization))
    infos = tuple(slot.known_info for slot in part.outputs)
    name = part.layers[0].name if len(part) == 1 else f"{part.layers[0].name} ... {part.layers[-1].name}"
    layer = graph.add(kind(compiled=compiled, infos=infos), *sources, name=name)
    for number, slot in enumerate(layer.outputs):
        graph.output(slot, f"output_{number}")
    return graph


def convex_parts(view: SubgraphView) -> list[SubgraphView]:
    """Split a view into parts that each could run as one step, in an order in which they can run.

    A layer's level is the largest number of times that a path to it has left the view and come back; a level is convex.
    """
    if view.is_convex:
        return [view]
    level: dict[Any, int] = {}
    for layer in view.graph.topological_order():
        levels = [
            level[slot.source.layer] + (slot.source.layer in view and layer not in view)
            for slot in layer.inputs
            if slot.source is not None
        ]
        level[layer] = max(levels, default=0)
    numbers = sorted({level[layer] for layer in view.layers})
    return [view.part([layer for layer in view.layers if level[layer] == number]) for number in numbers]
