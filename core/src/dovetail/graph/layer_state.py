"""What a layer is and what it is joined to, noted before a backend sees it.

Backends read layers, they never change them.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from ..ground.host_exceptions import is_of_host
from .layer import Layer


class LayerState:
    """The fields of a layer and its links, as they are now.

    The descriptor is compared as a whole, and neighbours only by what this layer reads of them.
    """

    __slots__ = ("_facts", "_layer")

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self._facts = _facts(layer)

    def restore(self) -> bool:
        """Undo what was done to the layer since; returns whether anything was."""
        try:
            if _facts(self._layer) == self._facts:  # by identity first, so that nothing large is compared
                return False
        except Exception as error:  # what stands there now cannot be read or compared: it is not what stood there before
            if is_of_host(error):
                raise
        layer, facts = self._layer, iter(self._facts)
        layer.name, layer.descriptor, layer.sources, count = islice(facts, 4)
        layer.inputs, layer.outputs = [], []
        for slot, source, info in zip(*[islice(facts, 3 * count)] * 3, strict=True):
            layer.inputs.append(slot)
            slot.source = source
            if source is not None:
                source.info = info
        for slot, info, quantization, consumers in zip(*[facts] * 4, strict=True):
            layer.outputs.append(slot)
            slot.info, slot.quantization, slot.consumers = info, quantization, list(consumers)
        return True


def _facts(layer: Layer) -> list[Any]:
    """Return them in one list, which is made and compared several times for each layer of a load.

    Name, descriptor, sources and the number of inputs; slot, source and its info of each input;
    slot, info, quantization and readers of each output.
    """
    facts: list[Any] = [layer.name, layer.descriptor, layer.sources, len(layer.inputs)]
    for read in layer.inputs:
        source = read.source
        facts += (read, source, None if source is None else source.info)
    for slot in layer.outputs:
        facts += (slot, slot.info, slot.quantization, slot.consumers.copy())
    return facts
