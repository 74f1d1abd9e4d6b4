"""Where each output position of a resized axis reads, and with which weights. Source: ONNX Resize-19 and its reference code."""

from __future__ import annotations

import math

from dovetail.layers import CoordinateMode, NearestRounding, Resize, ResizeMethod

Tap = tuple[int, float]
"""Input position, inside the axis, and weight."""


def coordinate(descriptor: Resize, i: int, size: int, wanted: int, scale: float) -> float:
    """Return the input position, not yet clamped, of output position i of an axis resized from `size` to `wanted`.

    Where the scale is the ratio of the sizes the position is worked out in integers and rounded once, so that positions which
    should be whole, or halves, are.
    """
    mode = descriptor.coordinates
    if mode is CoordinateMode.ALIGN_CORNERS:
        # ONNX's suite stretches over the size before it is rounded down where only scales are given.
        last = (wanted if scale == wanted / size else scale * size) - 1
        return i * (size - 1) / last if wanted > 1 else 0.0
    if mode is CoordinateMode.PYTORCH_HALF_PIXEL and wanted == 1:
        return 0.0
    exact = scale == wanted / size
    if mode is CoordinateMode.ASYMMETRIC:
        return i * size / wanted if exact else i / scale
    if exact:
        return ((2 * i + 1) * size - wanted) / (2 * wanted)
    position = (i + 0.5) / scale - 0.5
    if mode is CoordinateMode.HALF_PIXEL_SYMMETRIC:
        # Centre the part of the input that the whole number of output positions covers.
        position += size / 2 * (1 - wanted / (scale * size))
    return position


def nearest(descriptor: Resize, size: int, wanted: int, scale: float) -> list[int]:
    """Return the input position of every output position."""
    return [_rounded(descriptor, coordinate(descriptor, i, size, wanted, scale), size) for i in range(wanted)]


def _rounded(descriptor: Resize, x: float, size: int) -> int:
    floor = math.floor(x)
    rest = x - floor
    up = {
        NearestRounding.ROUND_PREFER_FLOOR: rest > 0.5,
        NearestRounding.ROUND_PREFER_CEIL: rest >= 0.5,
        NearestRounding.FLOOR: False,
        NearestRounding.CEIL: rest > 0,
    }[descriptor.rounding]
    return min(max(floor + up, 0), size - 1)


def taps(descriptor: Resize, size: int, wanted: int, scale: float) -> list[list[Tap]]:
    """Return, for every output position, what it is the weighted sum of; LINEAR and CUBIC."""
    return [_taps(descriptor, coordinate(descriptor, i, size, wanted, scale), size, scale) for i in range(wanted)]


def _taps(descriptor: Resize, x: float, size: int, scale: float) -> list[Tap]:
    # Shrinking with antialias stretches the kernel so that it covers all that an output position stands for.
    stretch = min(scale, 1.0) if descriptor.antialias else 1.0
    reach = 1 if descriptor.method is ResizeMethod.LINEAR else 2
    first, last = math.floor(x - reach / stretch) + 1, math.ceil(x + reach / stretch) - 1
    weighted: dict[int, float] = {}
    for position in range(first, last + 1):
        if descriptor.exclude_outside and not 0 <= position < size:
            continue
        inside = min(max(position, 0), size - 1)
        weighted[inside] = weighted.get(inside, 0.0) + kernel(descriptor, (position - x) * stretch)
    total = sum(weighted.values()) if descriptor.antialias or descriptor.exclude_outside else 1.0
    if total == 0:  # every tap was excluded: the position lies far outside
        return [(min(max(math.floor(x), 0), size - 1), 1.0)]
    return [(position, weight / total) for position, weight in weighted.items()]


def kernel(descriptor: Resize, distance: float) -> float:
    """Return the weight at a distance: the triangle, or Keys' cubic convolution (1981)."""
    d, a = abs(distance), descriptor.cubic_coefficient
    if descriptor.method is ResizeMethod.LINEAR:
        return max(1.0 - d, 0.0)
    if d <= 1:
        return ((a + 2) * d - (a + 3)) * d * d + 1
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a if d < 2 else 0.0
