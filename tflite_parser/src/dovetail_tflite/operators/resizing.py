"""Resampling of images [N, H, W, C]."""

from __future__ import annotations

from dovetail import DType
from dovetail.graph.layer import OutputSlot
from dovetail.layers import CoordinateMode, NearestRounding, Resize, ResizeMethod, ResizePrecision

from ..call import Call
from ..registry import operator


@operator("RESIZE_BILINEAR", newest=4)
def resize_bilinear(call: Call) -> OutputSlot:
    """Translate bilinear interpolation."""
    return _resize(call, ResizeMethod.LINEAR)


@operator("RESIZE_NEAREST_NEIGHBOR", newest=4)
def resize_nearest(call: Call) -> OutputSlot:
    """Translate the choice of the nearest pixel."""
    return _resize(call, ResizeMethod.NEAREST)


def _resize(call: Call, method: ResizeMethod) -> OutputSlot:
    coordinates = _coordinates(call)
    # Halves go up; without an option a pixel covers what lies behind its corner.
    corner = coordinates is CoordinateMode.ASYMMETRIC
    rounding = NearestRounding.FLOOR if corner else NearestRounding.ROUND_PREFER_CEIL
    x, sizes = call.input(0), call.input(1)
    is_kept = call.share_quantization(x)
    is_fixed = is_kept and method is ResizeMethod.LINEAR and call.dtype_of(x) in (DType.INT8, DType.INT16)
    precision = ResizePrecision.FIXED_POINT if is_fixed else ResizePrecision.FLOAT32
    descriptor = Resize(method=method, coordinates=coordinates, rounding=rounding, axes=(1, 2), precision=precision)
    return (call.add if is_kept else call.add_real)(descriptor, x, None, sizes)


def _coordinates(call: Call) -> CoordinateMode:
    align_corners, half_pixels = call.option("align_corners"), call.option("half_pixel_centers")
    if align_corners and half_pixels:
        raise call.malformed("aligns both the corners and the centers of pixels")
    if align_corners:
        return CoordinateMode.ALIGN_CORNERS
    return CoordinateMode.HALF_PIXEL if half_pixels else CoordinateMode.ASYMMETRIC
