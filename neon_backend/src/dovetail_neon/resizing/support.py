"""Which resizes CpuAcc takes, beyond what its manifest claims."""

from __future__ import annotations

import math

from dovetail import DataLayout, Layer, Support
from dovetail.layers import Resize

_MAX_TAPS = 1 << 24
"""More weights of an axis are not worked out beforehand."""
_MAX_TAPS_OF_RESULT = 1 << 20
"""Nor of one result: they are worked out between two looks at the time."""


def layouts(layer: Layer) -> tuple[DataLayout, ...]:
    """Return the orders of axes in which a `Resize` leaves images and channels as they are."""
    info, result, descriptor = layer.inputs[0].info, layer.output.known_info, layer.descriptor
    if info is None or info.rank != 4 or not isinstance(descriptor, Resize):
        return ()
    axes = zip(info.sizes, result.sizes, descriptor.axis_scales(info), strict=True)
    changed = {axis for axis, (size, wanted, scale) in enumerate(axes) if size != wanted or scale != 1.0}
    return tuple(layout for layout in (DataLayout.NCHW, DataLayout.NHWC) if changed <= set(layout.spatial_axes()))


def refusal(layer: Layer) -> Support | None:
    """Refuse what is not a resize of the rows and columns of images."""
    info, result, descriptor = layer.inputs[0].info, layer.output.known_info, layer.descriptor
    if info is None or not isinstance(descriptor, Resize) or (descriptor.sizes is None and descriptor.scales is None):
        return Support.no("attribute", "neither sizes nor scales are known", "sizes")
    scales = descriptor.axis_scales(info)
    if len(scales) != info.rank or not all(math.isfinite(scale) and scale > 0 for scale in scales):
        return Support.no("attribute", f"scales {scales} are not positive numbers, one per axis", "scales")
    if any(descriptor.reach(scale) > 4 * size + 4 for size, scale in zip(info.sizes, scales, strict=True)):
        return Support.no("attribute", f"scales {scales} do not fit {info.shape_text} and {result.shape_text}", "scales")
    for size, wanted, scale in zip(info.sizes, result.sizes, scales, strict=True):
        each = descriptor.most_taps(scale)
        if (size != wanted or scale != 1.0) and (each > _MAX_TAPS_OF_RESULT or each * wanted > _MAX_TAPS):
            return Support.no(
                "shape", f"{wanted} weighted sums of {each} elements each are worked out at load time", "antialias"
            )
    if not layouts(layer):
        return Support.no("shape", "only rows and columns of tensors of rank 4 are resized", "sizes")
    return None
