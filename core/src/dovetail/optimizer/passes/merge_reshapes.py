"""Merge layers that only change the shape."""

from __future__ import annotations

from typing import ClassVar

from ...graph.graph import Graph
from ...graph.layer import Layer
from ...layers import ExpandDims, Flatten, Reshape, Squeeze
from ..rewriting import Heirs, producer, prune, reconnect
from .base import Pass

RESHAPING = (Reshape, ExpandDims, Squeeze, Flatten)


class MergeReshapes(Pass):
    """Replace a chain of reshape, expand dims, squeeze and flatten by one reshape.

    It stands for those that nobody else reads. Per-axis quantization stops a chain: its axis has no
    meaning under another shape.
    """

    name: ClassVar[str] = "merge_reshapes"

    def run(self, graph: Graph) -> int:
        changes = 0
        heirs = Heirs()
        for layer in [layer for layer in graph if isinstance(layer.descriptor, RESHAPING)]:
            first = producer(layer)
            while first is not None and isinstance(first.descriptor, RESHAPING) and _is_plain(layer) and _is_plain(first):
                source = first.inputs[0].source
                if source is None:
                    break
                graph.replace_descriptor(layer, Reshape(shape=layer.output.known_info.sizes))
                reconnect(graph, layer.inputs[0], source)
                if prune(graph, [first]):
                    heirs.inherit(layer, first)
                changes += 1
                first = producer(layer)
        heirs.settle()
        return changes


def _is_plain(layer: Layer) -> bool:
    quantization = layer.output.known_info.quantization
    return len(layer.inputs) == 1 and (quantization is None or not quantization.is_per_axis)
