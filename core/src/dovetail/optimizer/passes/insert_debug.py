"""Show every tensor on its way."""

from __future__ import annotations

from typing import ClassVar

from ...graph.descriptor import Constant, Input, Output
from ...graph.graph import Graph
from ..core_kinds import Debug, MemoryCopy
from .base import Pass


class InsertDebug(Pass):
    """Insert a `Debug` layer behind every output that is read.

    Opaque layouts cannot be shown and are left out.
    """

    name: ClassVar[str] = "insert_debug"

    def run(self, graph: Graph) -> int:
        changes = 0
        for layer in graph:
            if isinstance(layer.descriptor, Input | Output | Constant | Debug | MemoryCopy):
                continue
            for slot in layer.outputs:
                consumers = list(slot.consumers)
                if not consumers or slot.known_info.opaque is not None:
                    continue
                descriptor = Debug(layer=layer.name, index=slot.index)
                debug = graph.add(descriptor, slot, name=f"{slot.name}.debug", sources_of=layer.sources)
                for consumer in consumers:
                    graph.disconnect(consumer)
                    graph.connect(debug.output, consumer)
                changes += 1
        return changes
