"""What a layer is and what it is joined to, noted before a backend sees it: backends read layers, they never change them."""

from __future__ import annotations

from typing import Any

from .host_exceptions import is_of_host
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
        layer = self._layer
        (layer.name, layer.descriptor, layer.sources), reads, writes = self._facts
        layer.inputs = [slot for slot, _, _ in reads]
        layer.outputs = [slot for slot, _, _, _ in writes]
        for slot, source, info in reads:
            slot.source = source
            if source is not None:
                source.info = info
        for slot, info, quantization, consumers in writes:
            slot.info, slot.quantization, slot.consumers = info, quantization, list(consumers)
        return True


def _facts(layer: Layer) -> tuple[Any, ...]:
    return (
        (layer.name, layer.descriptor, layer.sources),
        [(slot, source := slot.source, None if source is None else source.info) for slot in layer.inputs],
        [(slot, slot.info, slot.quantization, slot.consumers.copy()) for slot in layer.outputs],
    )
