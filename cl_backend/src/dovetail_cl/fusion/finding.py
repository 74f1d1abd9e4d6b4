"""What is fused: attention, chains of elementwise layers, and those with the layer before them."""

from __future__ import annotations

from dovetail import DType, Layer, Network, OptimizationViews, SubgraphView

from ..families import family_name
from .attentions import fuse_attentions
from .chain import chain_of, joined, operands_of
from .fused import Fused, producer_of

MAX_OPERANDS = 8
MAX_LAYERS = 32
"""Of one chain: its program is compiled when it is first met."""


def fuse(view: SubgraphView, views: OptimizationViews) -> set[Layer]:
    """Replace what of a view can be fused; returns the layers that were replaced."""
    chains = _chains(view)
    replaced = fuse_attentions(view, views, chains)
    for group in {id(group): group for group in chains.values()}.values():
        if not replaced.isdisjoint(group):
            continue
        producer = producer_of(group, operands_of(group), lambda layer: layer in view and layer not in replaced)
        members = group if producer is None else [*group, producer]
        if len(members) > 1:
            _replace(view.part(members), views, view.part(group), producer)
            replaced.update(members)
    return replaced


def _chains(view: SubgraphView) -> dict[Layer, list[Layer]]:
    """Return for each elementwise layer the chain that it is of, the last layer first."""
    group_of: dict[Layer, list[Layer]] = {}
    for layer in reversed(view.layers):
        if family_name(layer.kind) != "elementwise":
            continue
        readers = {consumer.layer for consumer in layer.output.consumers}
        groups = [group_of.get(reader) for reader in readers]
        group = groups[0] if groups else None
        if group is not None and all(one is group for one in groups) and _fits(layer, group):
            group.append(layer)
        else:
            group = [layer]
        group_of[layer] = group
    return group_of


def _fits(layer: Layer, group: list[Layer]) -> bool:
    if layer.kind == "dovetail.Cast" and layer.output.known_info.dtype is DType.FLOAT16:
        return False  # within a chain nothing is rounded
    same = layer.output.known_info.sizes == group[0].output.known_info.sizes
    return same and len(group) < MAX_LAYERS and len(operands_of([*group, layer])) <= MAX_OPERANDS


def _replace(part: SubgraphView, views: OptimizationViews, chain: SubgraphView, producer: Layer | None) -> None:
    """Replace a part: a chain, and the layer whose result goes into it, if there is one."""
    operands = operands_of(chain.layers)
    if producer is not None:
        operands.remove(producer.output)
        operands.insert(0, producer.output)
    made = chain_of(chain.layers, operands)
    fused = Network("chain")
    given = [] if producer is None else [slot.source for slot in producer.inputs if slot.source is not None]
    sources = [*given, *operands[1:]] if producer is not None else operands
    found = joined(fused, part, sources)
    whole = made if producer is None else Fused(infos=made.infos, producer=producer.descriptor, inputs=len(given), chain=made)
    fused.output(fused.add(whole, *found, name=chain.layers[-1].name, sources_of=part.sources).output, "out")
    views.substitute(part, fused)
