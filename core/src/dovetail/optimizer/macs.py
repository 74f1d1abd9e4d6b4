"""Multiply-accumulates of layers, which outlive what a backend puts in their place."""

from __future__ import annotations

from collections.abc import Iterable

from ..graph.descriptor import Descriptor
from ..graph.graph import Graph
from ..graph.layer import Layer


class Macs:
    """Multiply-accumulates of one run, by the original layers that they are done for.

    A backend may compute several layers by one of its own, or one by several. The layer that has
    the name of an original one, else the last of those that stand for it, does its work.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, ...], int] = {}

    def count(self, graph: Graph) -> None:
        """Count those of a graph whose sizes are known."""
        for layer in graph:
            descriptor = layer.descriptor
            if type(descriptor).macs is Descriptor.macs:
                continue
            try:
                macs = int(descriptor.macs(layer.input_infos, [slot.known_info for slot in layer.outputs]))
            except Exception:  # a report is no reason to refuse a network
                continue
            self._counts[layer.sources] = self._counts.get(layer.sources, 0) + macs

    def by_layer(self, order: Iterable[Layer]) -> dict[Layer, int]:
        """Give each count to one of the layers that run, which are in order."""
        if not self._counts:
            return {}
        candidates: dict[str, list[Layer]] = {}
        for layer in order:
            for name in layer.sources:
                candidates.setdefault(name, []).append(layer)
        found: dict[Layer, int] = {}
        for sources, macs in self._counts.items():
            several = candidates.get(sources[0] if sources else "", ())
            if several:
                one = next((layer for layer in several if layer.name in sources), several[-1])
                found[one] = found.get(one, 0) + macs
        return found
