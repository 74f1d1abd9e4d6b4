"""Compose permutes that follow each other."""

from __future__ import annotations

from typing import ClassVar

from ...graph.graph import Graph
from ...layers import Permute
from ..rewriting import Heirs, bypass, producer, prune, reconnect
from .base import Pass


class InversePermutes(Pass):
    """Replace a permute of a permute by one permute, and by nothing where they cancel."""

    name: ClassVar[str] = "inverse_permutes"

    def run(self, graph: Graph) -> int:
        changes = 0
        heirs = Heirs()
        for second in [layer for layer in graph if isinstance(layer.descriptor, Permute)]:
            first = producer(second)
            while first is not None and isinstance(first.descriptor, Permute) and isinstance(second.descriptor, Permute):
                source = first.inputs[0].source
                if source is None:
                    break
                rank = source.known_info.rank
                inner, outer = first.descriptor.order(rank), second.descriptor.order(rank)
                graph.replace_descriptor(second, Permute(permutation=tuple(inner[axis] for axis in outer)))
                reconnect(graph, second.inputs[0], source)
                if prune(graph, [first]):
                    heirs.inherit(second, first)
                changes += 1
                first = producer(second)
            source = second.inputs[0].source
            if source is not None and isinstance(second.descriptor, Permute):
                order = second.descriptor.order(source.known_info.rank)
                if order == tuple(range(len(order))) and second.output.info == source.info:
                    bypass(graph, second)
                    changes += 1
        heirs.settle()
        return changes
