"""Lower resizes of quantized images: rows and columns are picked, or real numbers interpolated."""

from __future__ import annotations

import numpy as np

from dovetail import DataLayout, Layer, Quantization
from dovetail.graph.layer import OutputSlot
from dovetail.layers import Dequantize, Gather, Quantize, Resize, ResizeMethod, ResizePrecision, TieRounding

from ..fusion.lowering import Lowering
from ..geometry.layouts import Image, blocked_info, plain_info
from ..movement.kinds import Reorder
from ..resizing.kinds import Resample
from ..resizing.support import layouts
from ..resizing.taps import taps


def lower_resize(lowering: Lowering, layer: Layer) -> bool:
    """Pick the nearest elements, or interpolate in float32."""
    source, possible = layer.inputs[0].source, layouts(layer)
    if not isinstance(layer.descriptor, Resize) or source is None or not possible:
        return False
    if layer.descriptor.method is ResizeMethod.NEAREST:
        made = _picked(lowering, layer, layer.descriptor, source, possible[0])
    else:
        made = _interpolated(lowering, layer, layer.descriptor, source, possible[0])
    made.quantization, made.info = layer.output.quantization, layer.output.info
    lowering.define(layer.output, made)
    return True


def _picked(lowering: Lowering, layer: Layer, descriptor: Resize, source: OutputSlot, layout: DataLayout) -> OutputSlot:
    info, wanted = source.known_info, layer.output.known_info.sizes
    made, scales = lowering.plain(source), descriptor.axis_scales(info)
    for axis in layout.spatial_axes():
        positions = taps(descriptor, info.sizes[axis], wanted[axis], scales[axis]).position
        name = f"{layer.name}.picked {axis}"
        indices = lowering.graph.constant(np.asarray(positions, np.int64), f"{name}.positions")
        made = lowering.emit(Gather(axis=axis), [made, indices], [layer], name).output
    return made


def _interpolated(lowering: Lowering, layer: Layer, descriptor: Resize, source: OutputSlot, layout: DataLayout) -> OutputSlot:
    info, wanted, lanes = source.known_info, layer.output.known_info, lowering.lanes
    as_stored = Quantization.per_tensor(1.0)
    image, target = Image.of(info, layout), Image.of(wanted, layout)
    last, scales = layout is DataLayout.NHWC, descriptor.axis_scales(info)
    rows, columns = (taps(descriptor, info.sizes[axis], wanted.sizes[axis], scales[axis]) for axis in layout.spatial_axes())
    into = Reorder(infos=(blocked_info(image, lanes),), image=image, channels_last=last)
    resample = Resample(infos=(blocked_info(target, lanes),), source=image, rows=rows, columns=columns, interpolates=True)
    back = Reorder(infos=(plain_info(wanted.sizes),), image=target, channels_last=last)
    exact = descriptor.precision is ResizePrecision.EXACT
    ties = TieRounding.TO_EVEN if exact else TieRounding.AWAY_FROM_ZERO
    made = lowering.plain(source)
    for step, what in (
        (Dequantize(quantization=as_stored), "reals"),
        (into, "blocks"),
        (resample, "resampled"),
        (back, "plain"),
        (Quantize(dtype=wanted.dtype, quantization=as_stored, rounding=ties), "integers"),
    ):
        made = lowering.emit(step, [made], [layer], f"{layer.name}.{what}").output
    return made
