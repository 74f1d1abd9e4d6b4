"""Keep equal constants once."""

from __future__ import annotations

from typing import ClassVar

from ...graph.descriptor import Array, Constant
from ...graph.graph import Graph
from ...graph.layer import OutputSlot
from .base import Pass

_SMALL = 4096


class MergeConstants(Pass):
    """Let constants that share an array, or are small and equal bit for bit, be one."""

    name: ClassVar[str] = "merge_constants"

    def run(self, graph: Graph) -> int:
        first: dict[int | bytes, OutputSlot] = {}
        kept: dict[tuple[object, ...], OutputSlot] = {}
        changes = 0
        for layer in graph:
            if isinstance(layer.descriptor, Constant):
                where = _where(layer.descriptor.value)
                alike = first.setdefault(where, layer.output)
                if alike is layer.output:  # as nearly all are: infos, of a thousand scales maybe, need not be hashed
                    continue
                kept.setdefault((alike.info, where), alike)
                slot = kept.setdefault((layer.output.info, where), layer.output)
                if slot is not layer.output:
                    graph.redirect(layer.output, slot)
                    graph.discard(layer)
                    changes += 1
        return changes


def _where(value: Array) -> int | bytes:
    """Return what equal or shared arrays have in common."""
    where: int | bytes = value.tobytes() if value.nbytes <= _SMALL else value.__array_interface__["data"][0]
    return where
