"""What is fused: attention, chains of elementwise layers, and those with the layer before them."""

from __future__ import annotations

from dovetail import DType, Layer, OptimizationViews, SubgraphView

from ..elementwise.chain_layer import operands_of
from ..families import family_name
from .attentions import fuse_attentions
from .fused import producer_of
from .images import Group, lower_images, replacement

MAX_OPERANDS = 8
_MIN_ROWS = 2
"""Of attention on GPUs: products of one row are shared out better among its groups."""
MAX_LAYERS = 32
"""Of one chain: its program is compiled when it is first met."""


def fuse(view: SubgraphView, views: OptimizationViews, vector: int) -> set[Layer]:
    """Replace what of a view can be fused; returns the layers that were replaced.

    Args:
        view: What is offered.
        views: The answer.
        vector: Floats of a vector of a CPU, on which images lie with channels last; else 0.
    """
    chains = _chains(view)
    replaced = fuse_attentions(view, views, chains, least_rows=1 if vector else _MIN_ROWS)
    groups = []
    for group in {id(group): group for group in chains.values()}.values():
        if not replaced.isdisjoint(group):
            continue
        producer = producer_of(group, operands_of(group), lambda layer: layer in view and layer not in replaced)
        groups.append(Group(producer, group[::-1]))
    if vector:
        left = view.part([layer for layer in view.layers if layer not in replaced]) if replaced else view
        replaced.update(lower_images(left, views, groups, vector))
    for found in groups:
        if len(found.members) > 1 and replaced.isdisjoint(found.members):
            part = view.part(found.members)
            views.substitute(part, replacement(part, found))
            replaced.update(found.members)
    return replaced


def _chains(view: SubgraphView) -> dict[Layer, list[Layer]]:
    """Return for each elementwise layer the chain that it is of, the last layer first."""
    group_of: dict[Layer, list[Layer]] = {}
    for layer in reversed(view.layers):
        if family_name(layer) != "elementwise":
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
    if layer.kind == "dovetail.Cast" and layer.output.known_info.dtype in (DType.FLOAT16, DType.BFLOAT16):
        return False  # within a chain nothing is rounded
    same = layer.output.known_info.sizes == group[0].output.known_info.sizes
    return same and len(group) < MAX_LAYERS and len(operands_of([*group, layer])) <= MAX_OPERANDS
