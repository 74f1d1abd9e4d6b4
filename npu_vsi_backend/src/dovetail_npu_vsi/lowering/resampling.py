"""Images of another size, by the pixels that are nearest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dovetail import Layer
from dovetail.layers import Resize

from .. import program
from ..engines import nearest_positions
from .request import Request
from .storage import PLANAR, Order, Storage, natural, sizes, source

_WAYS = ((False, False), (False, True), (True, False))
"""(align_corners, half_pixel), that first which the convolution engine has most often."""


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
            mode="nearest",
            align_corners=align_corners,
            half_pixel=half_pixel,
        )
    )


def refusal(layer: Layer) -> str:
    """Say why the NPU may pick other pixels than a claimed `Resize`; empty if it does not."""
    if _ways(layer):
        return ""
    before, after, descriptor = sizes(source(layer, 0)), sizes(layer.output), _descriptor(layer)
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
    """Return (align_corners, half_pixel) of resamplings that surely pick the pixels of a layer.

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


def _scales(layer: Layer) -> tuple[float, ...]:
    return _descriptor(layer).axis_scales(source(layer, 0).known_info)


def _descriptor(layer: Layer) -> Resize:
    descriptor = layer.descriptor
    assert isinstance(descriptor, Resize)
    return descriptor
