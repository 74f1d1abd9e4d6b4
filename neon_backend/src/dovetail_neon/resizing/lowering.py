"""What a resize of images becomes."""

from __future__ import annotations

from dovetail import Layer
from dovetail.layers import Resize, ResizeMethod

from ..fusion.lowering import Lowering
from ..geometry.layouts import Image, blocked_info
from .kinds import Resample
from .support import layouts
from .taps import taps


def lower_resize(lowering: Lowering, layer: Layer) -> bool:
    """Rows and columns, in the layout that is there."""
    descriptor, source, possible = layer.descriptor, layer.inputs[0].source, layouts(layer)
    if not isinstance(descriptor, Resize) or source is None or not possible:
        return False
    there = lowering.data_layout(source)
    if there is not None and there not in possible:
        return False
    layout = there or possible[0]
    image, target = Image.of(source.known_info, layout), Image.of(layer.output.known_info, layout)
    sizes, wanted, scales = source.known_info.sizes, layer.output.known_info.sizes, descriptor.axis_scales(source.known_info)
    rows, columns = (taps(descriptor, sizes[axis], wanted[axis], scales[axis]) for axis in layout.spatial_axes())
    resample = Resample(
        infos=(blocked_info(target, lowering.lanes),),
        source=image,
        rows=rows,
        columns=columns,
        interpolates=descriptor.method is not ResizeMethod.NEAREST,
    )
    made = lowering.emit(resample, [lowering.blocked(source, layout)], [layer])
    lowering.define(layer.output, made.output, "blocked", layout)
    return True
