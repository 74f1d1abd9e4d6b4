"""Refuse a graph that cannot be optimized at all."""

from __future__ import annotations

from typing import ClassVar

from ...graph.graph import Graph
from ...ground.errors import ErrorCode, GraphError
from .base import Pass


class Validate(Pass):
    """Check the graph: acyclic, nothing dangling, at least one output, every slot of this graph.

    Raises:
        GraphError: `GRAPH_CYCLE`, `GRAPH_DANGLING` or `GRAPH_INVALID`.
    """

    name: ClassVar[str] = "validate"

    def run(self, graph: Graph) -> int:
        members = {layer.name: layer for layer in graph}
        for layer in members.values():
            if not layer.kind:
                raise GraphError(
                    f"layer {layer.name!r}: {type(layer.descriptor).__name__} has no kind",
                    hint="declare it: class MyKind(Descriptor, kind='vendor.MyKind')",
                )
            for slot in layer.inputs:
                owner = None if slot.source is None else slot.source.layer
                if owner is not None and members.get(owner.name) is not owner:
                    raise GraphError(
                        f"layer {layer.name!r} reads {owner.name!r}, which is no layer of network {graph.name!r}",
                        code=ErrorCode.GRAPH_DANGLING,
                        hint="it was removed, or belongs to another network",
                    )
        graph.validate()
        return 0
