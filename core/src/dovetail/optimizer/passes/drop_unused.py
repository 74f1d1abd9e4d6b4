"""Drop layers that no output needs."""

from __future__ import annotations

from typing import ClassVar

from ...graph.descriptor import Input, Output
from ...graph.graph import Graph
from ...graph.layer import Layer
from .base import Pass


class DropUnused(Pass):
    """Remove every layer that no output depends on.

    Inputs stay, being the caller's contract.
    """

    name: ClassVar[str] = "drop_unused"

    def run(self, graph: Graph) -> int:
        needed: set[Layer] = set()
        waiting = list(graph.outputs)
        while waiting:
            layer = waiting.pop()
            if layer not in needed:
                needed.add(layer)
                waiting.extend(slot.source.layer for slot in layer.inputs if slot.source is not None)
        if len(needed) == len(graph):
            return 0
        unused = [
            layer
            for layer in reversed(graph.topological_order())
            if layer not in needed and not isinstance(layer.descriptor, Input | Output)
        ]
        for layer in unused:
            graph.discard(layer)
        return len(unused)
