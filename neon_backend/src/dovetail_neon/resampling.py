"""Where each result of a resized axis reads, and with which weights. Source: ONNX Resize-19 and its reference code."""

from __future__ import annotations

import math

from dovetail.interfaces import Support
from dovetail.layer import Layer
from dovetail.layers import CoordinateMode, NearestRounding, Resize, ResizeMethod
from dovetail.tensor import DataLayout

Tap = tuple[int, float]
"""Position inside the axis, and weight."""

_LONGEST_AXIS = 1 << 20
"""Positions of longer axes are not worked out beforehand."""


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
    if info.quantization != result.quantization:
        return Support.no("quantization", "input and output differ in quantization")
    if not result.elements or max(result.sizes, default=0) > _LONGEST_AXIS:
        return Support.no("shape", f"a result of {result.shape_text} is empty or too long", "sizes")
    scales = descriptor.axis_scales(info)
    if len(scales) != info.rank or not all(math.isfinite(scale) and scale > 0 for scale in scales):
        return Support.no("attribute", f"scales {scales} are not positive numbers, one per axis", "scales")
    if not layouts(layer):
        return Support.no("shape", "only rows and columns of tensors of rank 4 are resized", "sizes")
    return None


def taps(descriptor: Resize, size: int, wanted: int, scale: float) -> list[list[Tap]]:
    """Return, for every result along an axis, what it is the weighted sum of."""
    positions = [_coordinate(descriptor, i, size, wanted, scale) for i in range(wanted)]
    if size == wanted and scale == 1.0:
        return [[(i, 1.0)] for i in range(wanted)]
    if descriptor.method is ResizeMethod.NEAREST:
        return [[(_rounded(descriptor.rounding, x, size), 1.0)] for x in positions]
    return [_weighted(descriptor, x, size, scale) for x in positions]


def _coordinate(descriptor: Resize, i: int, size: int, wanted: int, scale: float) -> float:
    """Position of result i, not yet clamped.

    Where the scale is the ratio of the sizes it is worked out in integers and rounded once, so that positions which should be
    whole, or halves, are.
    """
    mode, exact = descriptor.coordinates, scale == wanted / size
    if mode is CoordinateMode.ALIGN_CORNERS:
        # Where only scales are given it stretches over the size before that is rounded down.
        last = (wanted if exact else scale * size) - 1
        return i * (size - 1) / last if wanted > 1 else 0.0
    if mode is CoordinateMode.PYTORCH_HALF_PIXEL and wanted == 1:
        return 0.0
    if mode is CoordinateMode.ASYMMETRIC:
        return i * size / wanted if exact else i / scale
    if exact:
        return ((2 * i + 1) * size - wanted) / (2 * wanted)
    position = (i + 0.5) / scale - 0.5
    if mode is CoordinateMode.HALF_PIXEL_SYMMETRIC:
        # Centred on the part of the input that a whole number of results covers.
        position += size / 2 * (1 - wanted / (scale * size))
    return position


def _rounded(rounding: NearestRounding, x: float, size: int) -> int:
    floor = math.floor(x)
    rest = x - floor
    up = {
        NearestRounding.ROUND_PREFER_FLOOR: rest > 0.5,
        NearestRounding.ROUND_PREFER_CEIL: rest >= 0.5,
        NearestRounding.FLOOR: False,
        NearestRounding.CEIL: rest > 0,
    }[rounding]
    return min(max(floor + up, 0), size - 1)


def _weighted(descriptor: Resize, x: float, size: int, scale: float) -> list[Tap]:
    # Shrinking with antialias stretches the kernel so that it covers all that a result stands for.
    stretch = min(scale, 1.0) if descriptor.antialias else 1.0
    reach = 1 if descriptor.method is ResizeMethod.LINEAR else 2
    weights: dict[int, float] = {}
    for position in range(math.floor(x - reach / stretch) + 1, math.ceil(x + reach / stretch)):
        if descriptor.exclude_outside and not 0 <= position < size:
            continue
        inside = min(max(position, 0), size - 1)
        weights[inside] = weights.get(inside, 0.0) + _kernel(descriptor, (position - x) * stretch)
    total = sum(weights.values()) if descriptor.antialias or descriptor.exclude_outside else 1.0
    if total == 0:  # every tap was excluded: the position lies far outside
        return [(min(max(math.floor(x), 0), size - 1), 1.0)]
    return [(position, weight / total) for position, weight in weights.items()]


def _kernel(descriptor: Resize, distance: float) -> float:
    """Weight at a distance: the triangle, or Keys' cubic convolution (1981)."""
    d, a = abs(distance), descriptor.cubic_coefficient
    if descriptor.method is ResizeMethod.LINEAR:
        return max(1.0 - d, 0.0)
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0
