"""A layer that is not rewritten together with others."""

from __future__ import annotations

from dovetail.descriptor import Constant
from dovetail.layer import Layer
from dovetail.subgraph import SubgraphView


class LoneLayer(SubgraphView):
    """One layer as a part of its own: all its outputs are read outside."""

    __slots__ = ()

    def __init__(self, layer: Layer) -> None:
        self.layers = (layer,)
        self._members = frozenset(self.layers)
        sources = [slot.source for slot in layer.inputs if slot.source is not None]
        self.inputs = tuple(dict.fromkeys(slot for slot in sources if not isinstance(slot.layer.descriptor, Constant)))
        self.outputs = tuple(layer.outputs)
