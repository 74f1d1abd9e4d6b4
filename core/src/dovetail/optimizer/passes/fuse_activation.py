"""Fold activations into the layer before them, once backends are known."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from ...graph.graph import Graph
from ...graph.layer import Layer, OutputSlot
from ...layers import FUSABLE, Activation, ActivationFunction, FusedActivation
from ..assignment import Assigner
from ..rewriting import merged_sources, only_consumer
from .base import Pass

_EXACT_ON_INTEGERS = (ActivationFunction.RELU, ActivationFunction.BOUNDED_RELU)


class FuseActivation(Pass):
    """Fold a fusable activation into the layer that it alone reads, if that layer's backend agrees.

    On quantized tensors only the clamps are folded: rounding and clamping commute, so that the
    result is the same.

    Args:
        assigner: Knows the backend of each layer, and asks it.
    """

    name: ClassVar[str] = "fuse_activation"

    def __init__(self, assigner: Assigner) -> None:
        self.assigner = assigner

    def run(self, graph: Graph) -> int:
        return sum(
            self._fuse(graph, layer, layer.descriptor, layer.inputs[0].source)
            for layer in graph
            if isinstance(layer.descriptor, Activation) and layer.descriptor.function in FUSABLE
        )

    def _fuse(self, graph: Graph, layer: Layer, activation: Activation, source: OutputSlot | None) -> bool:
        if source is None or only_consumer(source) is None or not _is_legal(layer, activation, source):
            return False
        target, plain = source.layer, source.layer.descriptor
        home = self.assigner.assigned.get(target)
        if home is None or not isinstance(plain, FusedActivation) or not self.assigner.allows(layer, home):
            return False
        graph.replace_descriptor(
            target,
            replace(
                plain,
                activation=activation.function,
                activation_alpha=activation.alpha,
                activation_beta=activation.beta,
            ),
        )
        if self.assigner.refusal(target, home) is not None:
            graph.replace_descriptor(target, plain)
            return False
        target.sources = merged_sources(target, layer)
        graph.redirect(layer.output, source)
        graph.remove(layer)
        self.assigner.forget(layer)
        return True


def _is_legal(layer: Layer, activation: Activation, source: OutputSlot) -> bool:
    descriptor, info = source.layer.descriptor, source.known_info
    if not isinstance(descriptor, FusedActivation) or descriptor.activation is not None or info != layer.output.info:
        return False
    if info.dtype.is_float:
        return True
    return info.quantization is not None and activation.function in _EXACT_ON_INTEGERS
