"""Walk a part of a graph in order and emit what stands in for it."""

from __future__ import annotations

from dovetail import Layer, SubgraphView
from dovetail.graph.graph import Graph
from dovetail.ground.limits import budget

from ..kinds import Apply
from ..quantized import is_quantized
from .attention import emit_attention, find_attention
from .chains import find_chains
from .images import IMAGE_RULES, lower_convolution
from .lowering import Lowering, Rule
from .matrices import lower_product
from .patterns import Applied
from .quantized import QUANTIZED_RULES
from .transposed import lower_transposed


def lower(view: SubgraphView, lanes: int, precision: str = "float32") -> Graph:
    """Return what stands in for a part of a graph; `precision` is that of products."""
    lowering = Lowering(view, lanes, precision)
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
            _lower_function(lowering, match)
        elif layer not in absorbed:
            rules = QUANTIZED_RULES if is_quantized(layer) else IMAGE_RULES
            rule: Rule | None = rules.get(layer.kind)
            if rule is None or not rule(lowering, layer):
                _keep(lowering, layer)
    return lowering.finish()


def _keep(lowering: Lowering, layer: Layer) -> None:
    """Leave a layer as it is."""
    inputs = [None if slot.source is None else lowering.plain(slot.source) for slot in layer.inputs]
    kept = lowering.emit(layer.descriptor, inputs, [layer])
    for old, new in zip(layer.outputs, kept.outputs, strict=True):
        new.quantization, new.info = old.quantization, old.info
        lowering.define(old, new)


def _lower_function(lowering: Lowering, match: Applied) -> None:
    """A function that no kernel could take along, in whatever layout its argument has."""
    layout = lowering.data_layout(match.input)
    source = lowering.plain(match.input) if layout is None else lowering.blocked(match.input, layout)
    made = lowering.emit(Apply(infos=(source.known_info,), function=match.function), [source], match.layers).output
    if layout is None:
        lowering.define(match.output, made)
    else:
        lowering.define(match.output, made, "blocked", layout)
