"""Which private layers run together, strip by strip, so that what lies between them stays in a cache."""

from __future__ import annotations

from dovetail.descriptor import Input
from dovetail.graph import Graph, Layer, OutputSlot

from ..kinds import Convolve, ConvolveDepthwise, Depthwise

LEAST_BYTES = 1 << 20
"""Of what lies between: less than half of a second cache would be found there anyway."""
LEAST_WIDTH = 40
"""Columns of a large image: with shorter rows threads would compute too many of them twice, where their parts meet."""
SMALL_BYTES = 48 << 10
"""Of what lies between: it stays in the first cache, and threads meet once rather than twice."""


def join_strips(graph: Graph) -> None:
    """Join each depthwise convolution to the convolution that it alone reads, where the image between them is large."""
    for layer in graph.topological_order():
        producer = layer.inputs[0].source.layer if layer.inputs and layer.inputs[0].source else None
        if producer is not None and _pays(producer, layer):
            _join(graph, producer, layer)


def can_join(producer: Layer, consumer: Layer) -> bool:
    """Tell whether two layers can run together."""
    first, second = producer.descriptor, consumer.descriptor
    if not isinstance(first, Convolve) or not isinstance(second, Depthwise) or len(producer.output.consumers) != 1:
        return False
    return first.groups == 1 and first.infos[0].opaque is not None


def joined(producer: Layer, consumer: Layer) -> Graph:
    """Return what stands in for two layers that can run together."""
    first, second = producer.descriptor, consumer.descriptor
    if not isinstance(first, Convolve) or not isinstance(second, Depthwise):
        raise TypeError(f"{producer.kind} and {consumer.kind} do not run together")
    graph, sources = _with_inputs(producer)
    both = ConvolveDepthwise(infos=second.infos, convolve=first, depthwise=second)
    made = graph.add(both, *sources, name=consumer.name, sources_of=[producer.name, consumer.name])
    graph.output(made.output, "result")
    return graph


def apart(layer: Layer, both: ConvolveDepthwise) -> Graph:
    """Return what stands in for a layer that runs strip by strip: its two parts, one after the other."""
    graph, sources = _with_inputs(layer)
    first = graph.add(both.convolve, *sources, name=f"{layer.name}.before", sources_of=[layer.name])
    graph.output(graph.add(both.depthwise, first.output, name=layer.name, sources_of=[layer.name]).output, "result")
    return graph


def _with_inputs(layer: Layer) -> tuple[Graph, list[OutputSlot]]:
    """Return a graph that has the inputs of a layer, each once, and what the layer reads there."""
    graph = Graph("CpuAcc")
    inside: dict[OutputSlot, OutputSlot] = {}
    for slot in layer.inputs:
        if slot.source is not None and slot.source not in inside:
            inside[slot.source] = graph.add(Input(info=slot.source.known_info), name=f"input {len(inside)}").output
    return graph, [inside[slot.source] for slot in layer.inputs if slot.source is not None]


def _pays(producer: Layer, consumer: Layer) -> bool:
    second = consumer.descriptor
    if not can_join(producer, consumer) or not isinstance(second, Depthwise):
        return False
    nbytes = producer.output.known_info.nbytes
    return nbytes <= SMALL_BYTES or (nbytes >= LEAST_BYTES and second.source.width >= LEAST_WIDTH)


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
