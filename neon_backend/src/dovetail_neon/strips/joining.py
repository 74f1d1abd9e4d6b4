"""Choose the layers that run together by strips, so that what lies between stays in a cache."""

from __future__ import annotations

from dovetail import Layer
from dovetail.graph.descriptor import Input
from dovetail.graph.graph import Graph
from dovetail.graph.layer import OutputSlot

from ..convolution.kinds import Convolve
from ..windows.kinds import Depthwise
from .kinds import Strips

Stage = Convolve | Depthwise

MAX_STAGES = 8
"""As parameters.h has it."""
MIN_BYTES = 1 << 20
"""Of what lies between: less than half of the L2 cache would be found there anyway."""
MIN_WIDTH = 40
"""Least columns of a large image.

With shorter rows threads would compute too many of them twice, where their parts meet.
"""
SMALL_BYTES = 48 << 10
"""Of what lies between: it stays in the L1 cache, and threads meet once rather than twice."""
MAX_WEIGHTS = 1 << 20
"""Bytes: more are better read once, for all pixels."""


def join_strips(graph: Graph) -> None:
    """Join each layer to the one that it alone reads, where that pays, from the beginnings on."""
    for layer in graph.topological_order():
        producer = _producer(layer)
        if producer is not None and can_join(producer, layer) and _pays(producer, layer):
            _join(graph, producer, layer)


def can_join(producer: Layer, consumer: Layer) -> bool:
    """Tell whether two layers, of which the first may be a chain, can run together."""
    before, after = stages_of(producer), stages_of(consumer)
    if not before or len(after) != 1 or len(before) + 1 > MAX_STAGES:
        return False
    if _producer(consumer) is not producer or len(producer.output.consumers) != 1:
        return False
    adds = isinstance(before[-1], Convolve) and len(producer.inputs) > 1
    return not adds and before[-1].infos[0].opaque is not None and _is_stage(after[0])


def stages_of(layer: Layer) -> tuple[Stage, ...]:
    """Return what a layer would bring to a chain: its own stages, itself, or nothing."""
    descriptor = layer.descriptor
    if isinstance(descriptor, Strips):
        return descriptor.stages
    if isinstance(descriptor, Convolve):
        return (descriptor,) if descriptor.groups == 1 and descriptor.infos[0].opaque is not None else ()
    return (descriptor,) if isinstance(descriptor, Depthwise) else ()


def joined(producer: Layer, consumer: Layer) -> Graph:
    """Return what stands in for two layers that can run together."""
    graph, sources = _with_inputs(producer, consumer)
    stages = (*stages_of(producer), *stages_of(consumer))
    names = [producer.name, consumer.name]
    made = graph.add(Strips(infos=stages[-1].infos, stages=stages), *sources, name=consumer.name, sources_of=names)
    graph.output(made.output, "result")
    return graph


def apart(layer: Layer, chain: Strips) -> Graph:
    """Return what replaces a layer that runs strip by strip: its stages, in order."""
    graph, (slot, *adds) = _with_inputs(layer)
    for number, stage in enumerate(chain.stages, 1):
        last = number == len(chain.stages)
        name = layer.name if last else f"{layer.name}.stage {number}"
        slot = graph.add(stage, slot, *(adds if last else ()), name=name, sources_of=[layer.name]).output
    graph.output(slot, "result")
    return graph


def _producer(layer: Layer) -> Layer | None:
    source = layer.inputs[0].source if layer.inputs else None
    return source.layer if source is not None else None


def _is_stage(after: Stage) -> bool:
    """Tell whether a layer can read a strip: it is depthwise, or it reads every pixel by itself."""
    return isinstance(after, Depthwise) or (after.geometry[:2] == ((1, 1), (1, 1)) and after.geometry.padding == (0, 0))


def _pays(producer: Layer, consumer: Layer) -> bool:
    nbytes, (after,) = producer.output.known_info.nbytes, stages_of(consumer)
    if isinstance(after, Convolve):
        return nbytes >= MIN_BYTES and after.weights.nbytes <= MAX_WEIGHTS
    return nbytes <= SMALL_BYTES or (nbytes >= MIN_BYTES and after.source.width >= MIN_WIDTH)


def _sources(*layers: Layer) -> list[OutputSlot]:
    """Return what a chain of layers reads: the input of the first, then what each adds."""
    slots = [slot.source for layer in layers for slot in layer.inputs if slot.source is not None]
    within = {layer.output for layer in layers[:-1]}
    return [slot for slot in slots if slot not in within]


def _with_inputs(*layers: Layer) -> tuple[Graph, list[OutputSlot]]:
    """Return a graph with the inputs of a chain of layers, each once, and what it reads there."""
    graph = Graph("CpuAcc")
    inside: dict[OutputSlot, OutputSlot] = {}
    for slot in _sources(*layers):
        if slot not in inside:
            inside[slot] = graph.add(Input(info=slot.known_info), name=f"input {len(inside)}").output
    return graph, [inside[slot] for slot in _sources(*layers)]


def _join(graph: Graph, producer: Layer, consumer: Layer) -> None:
    stages = (*stages_of(producer), *stages_of(consumer))
    joined = graph.add(
        Strips(infos=stages[-1].infos, stages=stages),
        *_sources(producer, consumer),
        name=graph.unique_name(consumer.name),
        sources_of=[*producer.sources, *consumer.sources],
    )
    graph.redirect(consumer.output, joined.output)
    name = consumer.name
    graph.remove(consumer)
    graph.remove(producer)
    graph.rename(joined, name)
