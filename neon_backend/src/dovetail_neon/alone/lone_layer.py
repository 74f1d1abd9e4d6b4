"""A layer that is not rewritten together with others."""

from __future__ import annotations

from dovetail import Constant, Layer, SubgraphView
from dovetail.graph.layer import OutputSlot
from dovetail.layers import Convolution2d, DepthwiseConvolution2d, FullyConnected, MatMul, TransposeConvolution2d

_WEIGHTED = (Convolution2d, DepthwiseConvolution2d, FullyConnected, MatMul, TransposeConvolution2d)


class LoneLayer(SubgraphView):
    """One layer as a part of its own: all its outputs are read outside, and constants come in but for weights and biases."""

    __slots__ = ()

    def __init__(self, layer: Layer) -> None:
        self.layers = (layer,)
        self._members = frozenset(self.layers)
        weighted = isinstance(layer.descriptor, _WEIGHTED)
        sources = [slot.source for slot in layer.inputs[: 1 if weighted else None]]
        sources += [slot.source for slot in layer.inputs if not _is_constant(slot.source)]
        self.inputs = tuple(dict.fromkeys(slot for slot in sources if slot is not None))
        self.outputs = tuple(layer.outputs)


def _is_constant(slot: OutputSlot | None) -> bool:
    return slot is not None and isinstance(slot.layer.descriptor, Constant)
