"""Turn permutes that move no data into reshapes."""

from __future__ import annotations

from typing import ClassVar

from ...graph.graph import Graph
from ...graph.layer import OutputSlot
from ...layers import Permute, Reshape
from .base import Pass


class PermuteAsReshape(Pass):
    """Replace a permute that only moves axes of size one by a reshape, which needs no copy."""

    name: ClassVar[str] = "permute_as_reshape"

    def run(self, graph: Graph) -> int:
        changes = 0
        for layer in graph:
            source = layer.inputs[0].source if isinstance(layer.descriptor, Permute) else None
            if source is not None and isinstance(layer.descriptor, Permute) and _keeps_order(layer.descriptor, source):
                graph.replace_descriptor(layer, Reshape(shape=layer.output.known_info.sizes))
                changes += 1
        return changes


def _keeps_order(permute: Permute, source: OutputSlot) -> bool:
    info = source.known_info
    if info.quantization is not None and info.quantization.is_per_axis:
        return False
    moved = [axis for axis in permute.order(info.rank) if info.sizes[axis] != 1]
    return moved == sorted(moved)
