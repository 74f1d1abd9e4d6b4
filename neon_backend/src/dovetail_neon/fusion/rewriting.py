"""Walk a part of a graph in order and emit what stands in for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail import Layer, SubgraphView
from dovetail.graph.graph import Graph
from dovetail.ground.limits import budget

from ..families import found, rules_for
from .chains import Chain, find_chains
from .lowering import Lowering

if TYPE_CHECKING:
    from ..attention.matching import AttentionMatch
    from .patterns import Applied

STRIPS = frozenset({"CpuAcc.Convolve", "CpuAcc.ConvolveFloat16", "CpuAcc.Depthwise"})
"""Kinds of which chains by strips are made."""
MOVES = frozenset({"dovetail.Concat", "dovetail.Permute"})
"""Kinds with which copies end that may be joined to others."""
ENTRIES = frozenset({"dovetail.Quantize", "CpuAcc.ReorderQuantized"})
"""Kinds by which images come in that are computed in bytes."""


def lower(view: SubgraphView, lanes: int, precision: str = "float32") -> Graph:
    """Return what stands in for a part of a graph; `precision` is that of products."""
    lowering = Lowering(view, lanes, precision)
    attentions = _attentions(view)
    apart = frozenset(layer for match in attentions.values() for layer in match.layers)
    chains, functions = find_chains(view, apart)
    absorbed = apart | {layer for chain in chains.values() for layer in chain.layers}
    absorbed |= {layer for match in functions.values() for layer in match.layers}
    load = budget()
    for layer in view.layers:
        load.check_time()
        chain, match, attention = chains.get(layer), functions.get(layer), attentions.get(layer)
        if attention is not None:
            _lower_attention(lowering, attention)
        elif chain is not None:
            _lower_product(lowering, chain)
        elif match is not None:
            _lower_function(lowering, match)
        elif layer not in absorbed:
            rule = found(rules_for(layer), layer.kind)
            if rule is None or not rule(lowering, layer):
                _keep(lowering, layer)
    graph = lowering.finish()
    _refine(graph, precision)
    return graph


def _attentions(view: SubgraphView) -> dict[Layer, AttentionMatch]:
    """Return what is spelled out in several layers, by the last of them."""
    if not any(layer.kind == "dovetail.Softmax" for layer in view.layers):
        return {}
    from ..attention.matching import find_attention

    return {match.layers[-1]: match for match in find_attention(view)}


def _lower_attention(lowering: Lowering, match: AttentionMatch) -> None:
    from ..attention.matching import emit_attention

    q, k, v = (lowering.plain(slot) for slot in (match.q, match.k, match.v))
    mask = None if match.mask is None else lowering.plain(match.mask)
    lowering.define(match.output, emit_attention(lowering.graph, match, q, k, v, mask))


def _lower_product(lowering: Lowering, chain: Chain) -> None:
    rule = found("PRODUCTS", chain.root.kind)
    assert rule is not None  # chains grow from these kinds alone
    rule(lowering, chain)


def _lower_function(lowering: Lowering, match: Applied) -> None:
    from ..elementwise.lowering import lower_function

    lower_function(lowering, match)


def _refine(graph: Graph, precision: str) -> None:
    """Change what was made where several of the new layers go together."""
    if precision != "float32":
        from .precision import reduce_precision

        reduce_precision(graph, precision)
    kinds = {layer.kind for layer in graph}
    if not kinds.isdisjoint(STRIPS):
        from ..strips.joining import join_strips

        join_strips(graph)
    if not kinds.isdisjoint(MOVES):
        from ..movement.joining import join_moves

        join_moves(graph)
    if kinds >= ENTRIES:
        from ..quantized.entering import join_entries

        join_entries(graph)


def _keep(lowering: Lowering, layer: Layer) -> None:
    """Leave a layer as it is."""
    inputs = [None if slot.source is None else lowering.plain(slot.source) for slot in layer.inputs]
    kept = lowering.emit(layer.descriptor, inputs, [layer])
    for old, new in zip(layer.outputs, kept.outputs, strict=True):
        new.quantization, new.info = old.quantization, old.info
        lowering.define(old, new)
