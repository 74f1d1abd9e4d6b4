"""Which private layers run together, strip by strip, so that what lies between them stays in a cache."""

from __future__ import annotations

from dovetail.graph import Graph, Layer

from ..kinds import Convolve, ConvolveDepthwise, Depthwise

LEAST_BYTES = 1 << 20
"""Of what lies between: less than half of a second cache would be found there anyway."""
LEAST_WIDTH = 40
"""Columns: results at the borders of a row cost more than others, and smaller images are framed instead."""


def join_strips(graph: Graph) -> None:
    """Join each depthwise convolution to the convolution that it alone reads, where the image between them is large."""
    for layer in graph.topological_order():
        producer = layer.inputs[0].source.layer if layer.inputs and layer.inputs[0].source else None
        if producer is not None and _pays(producer, layer):
            _join(graph, producer, layer)


def _pays(producer: Layer, consumer: Layer) -> bool:
    first, second = producer.descriptor, consumer.descriptor
    if not isinstance(first, Convolve) or not isinstance(second, Depthwise) or len(producer.output.consumers) != 1:
        return False
    info = first.infos[0]
    return first.groups == 1 and info.opaque is not None and info.nbytes >= LEAST_BYTES and second.source.width >= LEAST_WIDTH


def _join(graph: Graph, producer: Layer, consumer: Layer) -> None:
    first, second = producer.descriptor, consumer.descriptor
    if not isinstance(first, Convolve) or not isinstance(second, Depthwise):
        raise TypeError(f"{producer.kind} and {consumer.kind} do not run together")
    joined = graph.add(
        ConvolveDepthwise(infos=second.infos, convolve=first, depthwise=second),
        *(slot.source for slot in producer.inputs),
        name=graph.unique_name(consumer.name),
        sources_of=[*producer.sources, *consumer.sources],
    )
    graph.redirect(consumer.output, joined.output)
    name = consumer.name
    graph.remove(consumer)
    graph.remove(producer)
    graph.rename(joined, name)
