"""What concatenations of images become."""

from __future__ import annotations

from dovetail import Layer
from dovetail.layers import (
    Concat,
)

from ..fusion.lowering import Lowering
from ..geometry.layouts import Image, blocked_info
from .kinds import Join


def lower_concat(lowering: Lowering, layer: Layer) -> bool:
    """Lay images side by side along their channels."""
    slots = [slot.source for slot in layer.inputs]
    layouts = {lowering.data_layout(slot) for slot in slots if slot is not None}
    descriptor = layer.descriptor
    if not isinstance(descriptor, Concat) or len(layouts) != 1 or None in slots or len(slots) > 32:
        return False
    layout = layouts.pop()
    if layout is None or descriptor.axis % 4 != layout.channel_axis % 4:
        return False
    image = Image.of(layer.output.known_info, layout)
    channels = tuple(Image.of(slot.known_info, layout).channels for slot in slots if slot is not None)
    join = Join(infos=(blocked_info(image, lowering.lanes),), image=image, channels=channels)
    made = lowering.emit(join, [lowering.blocked(slot, layout) for slot in slots if slot is not None], [layer])
    lowering.define(layer.output, made.output, "blocked", layout)
    return True
