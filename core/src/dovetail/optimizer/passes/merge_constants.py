"""Keep equal constants once."""

from __future__ import annotations

from typing import ClassVar

from ...graph.descriptor import Array, Constant
from ...graph.graph import Graph
from ...graph.layer import Layer, OutputSlot
from .base import Pass

_SMALL = 4096


class MergeConstants(Pass):
    """Let constants that share an array, or are small and equal bit for bit, be one."""

    name: ClassVar[str] = "merge_constants"

    def run(self, graph: Graph) -> int:
        kept: dict[tuple[object, ...], OutputSlot] = {}
        changes = 0
        for layer in graph:
            if isinstance(layer.descriptor, Constant):
                slot = kept.setdefault(_key(layer, layer.descriptor.value), layer.output)
                if slot is not layer.output:
                    graph.redirect(layer.output, slot)
                    graph.discard(layer)
                    changes += 1
        return changes


def _key(layer: Layer, value: Array) -> tuple[object, ...]:
    where = value.tobytes() if value.nbytes <= _SMALL else value.__array_interface__["data"][0]
    return (layer.output.info, where)
