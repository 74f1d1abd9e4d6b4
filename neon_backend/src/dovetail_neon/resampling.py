"""Where each result of a resized axis reads, and with which weights. Source: ONNX Resize-19 and its reference code."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dovetail import DataLayout, Layer, Support
from dovetail.ground.limits import budget
from dovetail.layers import CoordinateMode, NearestRounding, Resize, ResizeMethod

Reals = npt.NDArray[np.float64]


class Taps(NamedTuple):
    """What each result along an axis is the weighted sum of, all results one behind the other.

    Attributes:
        first: Where the taps of each result begin, and where those of the last one end.
        position: Inside the axis.
        weight: Of each.
    """

    first: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]
    weight: Reals

    @property
    def most(self) -> int:
        """The most taps that a result has."""
        return int(np.diff(self.first).max(initial=0))


_LONGEST_AXIS = 1 << 20
"""Positions of longer axes are not worked out beforehand."""
_MAX_TAPS = 1 << 24
"""Nor are more weights of an axis."""
_MAX_TAPS_OF_RESULT = 1 << 20
"""Nor of one result: they are worked out between two looks at the time."""
_TAPS_AT_ONCE = 1 << 18
"""Weights that are worked out between two looks at the time, if one result does not have more."""


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
    if any(_reach(descriptor, scale) > 4 * size + 4 for size, scale in zip(info.sizes, scales, strict=True)):
        return Support.no("attribute", f"scales {scales} do not fit {info.shape_text} and {result.shape_text}", "scales")
    for size, wanted, scale in zip(info.sizes, result.sizes, scales, strict=True):
        each = _most_taps(descriptor, scale)
        if (size != wanted or scale != 1.0) and (each > _MAX_TAPS_OF_RESULT or each * wanted > _MAX_TAPS):
            return Support.no(
                "shape", f"{wanted} weighted sums of {each} elements each are worked out at load time", "antialias"
            )
    if not layouts(layer):
        return Support.no("shape", "only rows and columns of tensors of rank 4 are resized", "sizes")
    return None


def taps(descriptor: Resize, size: int, wanted: int, scale: float) -> Taps:
    """Return, for every result along an axis, what it is the weighted sum of."""
    every = np.arange(wanted + 1)
    if size == wanted and scale == 1.0:
        return Taps(every, every[:-1], np.ones(wanted))
    step, parts = max(1, _TAPS_AT_ONCE // _most_taps(descriptor, scale)), []
    for begin in range(0, wanted, step):
        budget().check_time()
        x = _coordinates(descriptor, size, wanted, scale, range(begin, min(begin + step, wanted)))
        if descriptor.method is ResizeMethod.NEAREST:
            parts.append(Taps(every[: len(x) + 1], _rounded(descriptor.rounding, x, size), np.ones(len(x))))
        else:
            parts.append(_weighted(descriptor, x, size, scale))
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0] + [len(part.position) for part in parts])
    first = [part.first[:-1] + start for part, start in zip(parts, before, strict=False)]
    return Taps(
        np.concatenate([*first, before[-1:]]),
        np.concatenate([part.position for part in parts]),
        np.concatenate([part.weight for part in parts]),
    )


def _coordinates(descriptor: Resize, size: int, wanted: int, scale: float, results: range) -> Reals:
    """Positions of some results; those far outside are brought nearer.

    Where the scale is the ratio of the sizes they are worked out in integers and rounded once, so that positions which should
    be whole, or halves, are.
    """
    mode, exact, i = descriptor.coordinates, scale == wanted / size, np.arange(results.start, results.stop)
    with np.errstate(all="ignore"):
        if mode is CoordinateMode.ALIGN_CORNERS:
            # Where only scales are given it stretches over the size before that is rounded down.
            last = (wanted if exact else scale * size) - 1
            x = i * (size - 1) / np.float64(last) if wanted > 1 else np.zeros(len(i))
        elif mode is CoordinateMode.PYTORCH_HALF_PIXEL and wanted == 1:
            x = np.zeros(1)
        elif mode is CoordinateMode.ASYMMETRIC:
            x = i * size / wanted if exact else i / np.float64(scale)
        elif exact:
            x = ((2 * i + 1) * size - wanted) / (2 * wanted)
        else:
            x = (i + 0.5) / np.float64(scale) - 0.5
            if mode is CoordinateMode.HALF_PIXEL_SYMMETRIC:
                # Centred on the part of the input that a whole number of results covers.
                x = x + size / 2 * (1 - wanted / (scale * size))
    far = 16.0 * size + 64.0
    return np.clip(np.nan_to_num(x, nan=0.0), -far, far)


def _rounded(rounding: NearestRounding, x: Reals, size: int) -> npt.NDArray[np.int64]:
    floor = np.floor(x)
    rest = x - floor
    up = {
        NearestRounding.ROUND_PREFER_FLOOR: rest > 0.5,
        NearestRounding.ROUND_PREFER_CEIL: rest >= 0.5,
        NearestRounding.FLOOR: np.False_,
        NearestRounding.CEIL: rest > 0,
    }[rounding]
    positions: npt.NDArray[np.int64] = np.clip(floor + up, 0, size - 1).astype(np.int64)
    return positions


def _reach(descriptor: Resize, scale: float) -> float:
    """How far from a position taps lie."""
    reach = 0 if descriptor.method is ResizeMethod.NEAREST else 1 if descriptor.method is ResizeMethod.LINEAR else 2
    # Shrinking with antialias stretches the kernel so that it covers all that a result stands for.
    return reach / min(scale, 1.0) if descriptor.antialias else reach


def _most_taps(descriptor: Resize, scale: float) -> int:
    """How many elements a result may be the sum of, at most."""
    return 2 * math.ceil(_reach(descriptor, scale)) + 2


def _weighted(descriptor: Resize, x: Reals, size: int, scale: float) -> Taps:
    reach, stretch = _reach(descriptor, scale), min(scale, 1.0) if descriptor.antialias else 1.0
    begin, end = np.floor(x - reach).astype(np.int64) + 1, np.ceil(x + reach).astype(np.int64)
    if descriptor.exclude_outside:
        begin, end = np.maximum(begin, 0), np.minimum(end, size)
    counts = np.maximum(end - begin, 0)
    row = np.repeat(np.arange(len(x)), counts)
    position = np.arange(len(row)) + np.repeat(begin - (np.cumsum(counts) - counts), counts)
    weight = _kernel(descriptor, (position - x[row]) * stretch)
    # What lies outside is the pixel at the border.
    position = np.clip(position, 0, size - 1)
    starts = np.flatnonzero(np.diff(position, prepend=-1) | np.diff(row, prepend=-1))
    row, position, weight = row[starts], position[starts], np.add.reduceat(weight, starts) if len(starts) else weight
    if descriptor.antialias or descriptor.exclude_outside:
        totals = np.bincount(row, weight, len(x))
        lost = np.flatnonzero(totals == 0)  # every tap was excluded: the position lies far outside
        kept = totals[row] != 0
        weight = np.concatenate([weight[kept] / totals[row[kept]], np.ones(len(lost))])
        position = np.concatenate([position[kept], np.clip(np.floor(x[lost]), 0, size - 1).astype(np.int64)])
        row = np.concatenate([row[kept], lost])
        order = np.argsort(row, kind="stable")
        row, position, weight = row[order], position[order], weight[order]
    return Taps(np.searchsorted(row, np.arange(len(x) + 1)), position, weight)


def _kernel(descriptor: Resize, distance: Reals) -> Reals:
    """The triangle, or Keys' cubic convolution (1981)."""
    d, a = np.abs(distance), descriptor.cubic_coefficient
    if descriptor.method is ResizeMethod.LINEAR:
        return np.maximum(1.0 - d, 0.0)
    near, beyond = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, beyond, 0.0))
