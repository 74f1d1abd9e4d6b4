"""Walk a part of a graph in order and emit what stands in for it."""

from __future__ import annotations

from dovetail import Layer, SubgraphView
from dovetail.graph.graph import Graph
from dovetail.ground.limits import budget

from ..attention.matching import emit_attention, find_attention
from ..convolution.lowering import lower_convolution
from ..convolution.transposed import lower_transposed
from ..elementwise import lowering as elementwise
from ..matrices.lowering import lower_product
from ..movement import lowering as movement
from ..movement.joining import join_moves
from ..quantized import lowering as quantized
from ..quantized.support import is_quantized
from ..resizing import lowering as resizing
from ..strips.joining import join_strips
from ..windows import lowering as windows
from .chains import find_chains
from .lowering import Lowering, Rule
from .precision import reduce_precision

RULES: dict[str, Rule] = elementwise.RULES | movement.RULES | resizing.RULES | windows.RULES
"""What single layers of float32 become; those of quantized tensors have rules of their own."""


def lower(view: SubgraphView, lanes: int, precision: str = "float32") -> Graph:
    """Return what stands in for a part of a graph; `precision` is that of products."""
    lowering = Lowering(view, lanes)
    attentions = {match.layers[-1]: match for match in find_attention(view)}
    apart = frozenset(layer for match in attentions.values() for layer in match.layers)
    chains, functions = find_chains(view, apart)
    absorbed = apart | {layer for chain in chains.values() for layer in chain.layers}
    absorbed |= {layer for match in functions.values() for layer in match.layers}
    load = budget()
    for layer in view.layers:
        load.check_time()
        chain, match, attention = chains.get(layer), functions.get(layer), attentions.get(layer)
        if attention is not None:
            q, k, v = (lowering.plain(slot) for slot in (attention.q, attention.k, attention.v))
            mask = None if attention.mask is None else lowering.plain(attention.mask)
            lowering.define(attention.output, emit_attention(lowering.graph, attention, q, k, v, mask))
        elif chain is not None:
            if not lower_convolution(lowering, chain) and not lower_transposed(lowering, chain):
                lower_product(lowering, chain)
        elif match is not None:
            elementwise.lower_function(lowering, match)
        elif layer not in absorbed:
            rules = quantized.RULES if is_quantized(layer) else RULES
            rule: Rule | None = rules.get(layer.kind)
            if rule is None or not rule(lowering, layer):
                _keep(lowering, layer)
    graph = lowering.finish()
    reduce_precision(graph, precision)
    join_strips(graph)
    join_moves(graph)
    return graph


def _keep(lowering: Lowering, layer: Layer) -> None:
    """Leave a layer as it is."""
    inputs = [None if slot.source is None else lowering.plain(slot.source) for slot in layer.inputs]
    kept = lowering.emit(layer.descriptor, inputs, [layer])
    for old, new in zip(layer.outputs, kept.outputs, strict=True):
        new.quantization, new.info = old.quantization, old.info
        lowering.define(old, new)
