"""The private layer that stands for a part that a table compiled."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..contract.private_layer import PrivateLayer
from ..graph.descriptor import descriptor_class
from ..graph.layer import Layer, OutputSlot


@descriptor_class
class CompiledPart(PrivateLayer):
    """What a table made of several layers; each backend has a subclass with a kind of its own.

    Attributes:
        compiled: The handle; dropped with the last plan that uses it.
    """

    compiled: Any


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
