"""Say what integers stand for, on all slots that they pass through, or on none."""

from __future__ import annotations

from collections.abc import Callable

from ..graph.descriptor import Constant, Input, Output
from ..graph.layer import Layer, OutputSlot
from ..graph.tensor import Quantization, TensorInfo
from ..layers import Dequantize, Quantize
from .assignment import is_workload

Home = Callable[[Layer], int | None]
"""Place of the backend that would run a layer in the order of preference; None: nobody would."""


class Annotation:
    """One transaction: slots that are given a quantization together, each with all it is joined to.

    A quantization on a slot changes what some layers compute: a relu clamps at the zero point, no
    longer at zero. So it may be put on plain integers only where all that make them and all that
    read them are indifferent to it: `Quantize` and `Dequantize` of that very quantization, inputs,
    outputs and constants of the network, and layers that only select
    (`Descriptor.selects_elements`), whose other slots of the type then belong to the group, too.

    Args:
        home: Where a layer would run.
        refused: Slots that were found to belong to no group, shared by the transactions of one
            pass: none is walked twice.
    """

    def __init__(self, home: Home, refused: set[tuple[OutputSlot, Quantization]]) -> None:
        self._home = home
        self._refused = refused
        self._slots: dict[OutputSlot, Quantization] = {}
        self._joined: dict[Layer, None] = {}
        self._before: list[tuple[OutputSlot, Quantization | None, TensorInfo | None]] = []

    def require(self, slot: OutputSlot, quantization: Quantization) -> bool:
        """Add a slot and all that it is joined to; False if one of them must stay as it is."""
        group: dict[OutputSlot, None] = {}
        joined: dict[Layer, None] = {}
        waiting, fits = [slot], True
        while waiting and fits:
            member = waiting.pop()
            found = self._slots.get(member, member.known_info.quantization)
            if member in group or found == quantization:
                continue
            group[member] = None
            fits = found is None and (member, quantization) not in self._refused
            for layer in (member.layer, *(reader.layer for reader in member.consumers)):
                if is_workload(layer):
                    joined[layer] = None
                if layer.descriptor.selects_elements():
                    sources = [target.source for target in layer.inputs if target.source is not None]
                    dtype = member.known_info.dtype
                    waiting += [one for one in (*sources, *layer.outputs) if one.known_info.dtype is dtype]
                elif not _is_indifferent(layer, quantization):
                    fits = False
        if fits:
            self._slots.update(dict.fromkeys(group, quantization))
            self._joined |= joined
        else:
            self._refused.update((member, quantization) for member in group)
        return fits

    def apply(self) -> bool:
        """Write the quantizations; return False if they cost a layer its backend.

        False says that a layer that runs without them would run nowhere, or later in the
        preference.
        """
        before = [self._home(layer) for layer in self._joined]
        for slot, quantization in self._slots.items():
            self._before.append((slot, slot.quantization, slot.info))
            slot.quantization, slot.info = quantization, slot.known_info.with_quantization(quantization)
        for layer, old in zip(self._joined, before, strict=True):
            new = self._home(layer)
            if new is None or (old is not None and new > old):
                self._refused.update(self._slots.items())
                return False
        return True

    def undo(self) -> None:
        """Take back what was written."""
        for slot, quantization, info in self._before:
            slot.quantization, slot.info = quantization, info
        self._before.clear()


def _is_indifferent(layer: Layer, quantization: Quantization) -> bool:
    descriptor = layer.descriptor
    if isinstance(descriptor, Quantize | Dequantize):
        return descriptor.quantization == quantization
    return isinstance(descriptor, Input | Output | Constant)
