"""Images of another size, by the pixels that are nearest or mixed from neighbours."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dovetail import Layer
from dovetail.layers import Resize, ResizeMethod

from .. import program
from ..engines import blends, blends_exactly, nearest_positions
from .request import Request
from .storage import PLANAR, Order, Storage, natural, sizes, source

_WAYS = ((False, False), (False, True), (True, False))
"""(align_corners, half_pixel), that first which the convolution engine has most often."""
_NEAR = 2.0**-14
"""How far positions may be off: no result differs by the factors of `blends_exactly`."""


def resize(storage: Storage, layer: Layer, request: Request) -> None:
    """Add a `Resize` that `refusal` has nothing against."""
    order = _order(layer, storage)
    read, written = storage.stored(source(layer, 0), order), storage.new_tensor(layer.output, order)
    if not _changed(layer):
        storage.add(program.Reshape(name=layer.name, inputs=(read,), output=written, sources=layer.sources))
        return
    align_corners, half_pixel = _ways(layer)[0]
    storage.add(
        program.Resize(
            name=layer.name,
            inputs=(read,),
            output=written,
            sources=layer.sources,
            mode="bilinear" if _is_linear(layer) else "nearest",
            align_corners=align_corners,
            half_pixel=half_pixel,
        )
    )


def refusal(layer: Layer) -> str:
    """Say why the NPU may have other pixels than a claimed `Resize`; empty if it does not."""
    if _ways(layer):
        return ""
    before, after, descriptor = sizes(source(layer, 0)), sizes(layer.output), _descriptor(layer)
    if _is_linear(layer):
        return (
            f"where {before} becomes {after}, linear, {descriptor.coordinates} in {descriptor.precision} numbers, has "
            "other results than the NPU, which mixes pixels where both axes have the same whole factor"
        )
    return (
        f"where {before} becomes {after}, {descriptor.coordinates} with {descriptor.rounding} in {descriptor.precision} "
        "numbers has other pixels than those that the NPU picks: it multiplies by the ratio of sizes in float32, or "
        "copies by whole factors"
    )


def _order(layer: Layer, storage: Storage) -> Order:
    """Return the order with rows and columns last; where both do, the one that is there."""
    before, after = sizes(source(layer, 0)), sizes(layer.output)
    in_order = natural(source(layer, 0))
    if before[1] != after[1]:
        return PLANAR
    if before[3] != after[3]:
        return in_order
    known = storage.orders(source(layer, 0))
    return known[0] if known and known[0] in (PLANAR, in_order) else in_order


def _ways(layer: Layer) -> list[tuple[bool, bool]]:
    """Return (align_corners, half_pixel) of resamplings that surely have the pixels of a layer."""
    return _mixing_ways(layer) if _is_linear(layer) else _picking_ways(layer)


def _mixing_ways(layer: Layer) -> list[tuple[bool, bool]]:
    """Return those that mix the neighbours that a layer does, by its weights."""
    axes = _changed(layer)
    before, after = (tuple(all_of[axis] for axis in axes) for all_of in (sizes(source(layer, 0)), sizes(layer.output)))
    found = [] if axes else [_WAYS[0]]
    for align_corners, half_pixel in _WAYS if len(axes) == 2 else ():
        resized = program.Resize(
            name=layer.name, inputs=(), output=0, mode="bilinear", align_corners=align_corners, half_pixel=half_pixel
        )
        if blends_exactly(resized, before, after):
            mixed = [blends(resized, size, wanted) for size, wanted in zip(before, after, strict=True)]
            places = [axis.first + axis.part / axis.whole for axis in mixed]
            if all(np.abs(made - _places(layer, axis)).max() < _NEAR for made, axis in zip(places, axes, strict=True)):
                found.append((align_corners, half_pixel))
    return found


def _picking_ways(layer: Layer) -> list[tuple[bool, bool]]:
    """Return those that pick the pixels of a layer.

    By whole factors the convolution engine may copy, which rounds nothing, and ovxlib drops
    `half_pixel`: there all that could happen has to be the same.
    """
    before, after = sizes(source(layer, 0)), sizes(layer.output)
    changed = _changed(layer)
    wanted = [_positions(layer, axis) for axis in changed]
    found = []
    for align_corners, half_pixel in _WAYS:
        resized = program.Resize(
            name=layer.name, inputs=(), output=0, mode="nearest", align_corners=align_corners, half_pixel=half_pixel
        )
        axes = [(before[axis], after[axis]) for axis in changed]
        picked = [nearest_positions(resized, size, result) for size, result in axes]
        if _has_whole_factors(axes, int(align_corners)):
            picked = [] if half_pixel else picked
            exact = [_whole_positions(size, result, align_corners) for size, result in axes]
            if not _are_equal(picked, exact):
                continue
        if _are_equal(picked, wanted):
            found.append((align_corners, half_pixel))
    return found


def _changed(layer: Layer) -> list[int]:
    """Return the axes that are resampled: one may be that keeps its size."""
    return [
        axis
        for axis, (size, wanted) in enumerate(zip(sizes(source(layer, 0)), sizes(layer.output), strict=True))
        if size != wanted or _scales(layer)[axis] != 1
    ]


def _has_whole_factors(axes: list[tuple[int, int]], corners: int) -> bool:
    return all((result - corners) % max(size - corners, 1) == 0 for size, result in axes)


def _whole_positions(size: int, wanted: int, align_corners: bool) -> npt.NDArray[np.int64]:
    """Return the positions by integers: rounded down, or of corners to the nearest, ties up."""
    at = np.arange(wanted, dtype=np.int64)
    if align_corners and wanted > 1:
        return (2 * at * (size - 1) + wanted - 1) // (2 * (wanted - 1))
    return at * size // wanted


def _are_equal(some: list[npt.NDArray[np.int64]], others: list[npt.NDArray[np.int64]]) -> bool:
    return len(some) == len(others) and all(map(np.array_equal, some, others))


def _positions(layer: Layer, axis: int) -> npt.NDArray[np.int64]:
    """Return from which elements of an axis the results of a layer come."""
    before, after = sizes(source(layer, 0))[axis], sizes(layer.output)[axis]
    taps = _descriptor(layer).taps(before, after, _scales(layer)[axis])
    return np.concatenate([some.position for some in taps])


def _places(layer: Layer, axis: int) -> npt.NDArray[np.float64]:
    """Return between which elements of an axis the results of a layer lie."""
    before, after = sizes(source(layer, 0))[axis], sizes(layer.output)[axis]
    found = _descriptor(layer).positions(before, after, _scales(layer)[axis], range(after))
    return np.clip(found, 0, before - 1)


def _is_linear(layer: Layer) -> bool:
    return _descriptor(layer).method is ResizeMethod.LINEAR


def _scales(layer: Layer) -> tuple[float, ...]:
    return _descriptor(layer).axis_scales(source(layer, 0).known_info)


def _descriptor(layer: Layer) -> Resize:
    descriptor = layer.descriptor
    assert isinstance(descriptor, Resize)
    return descriptor
