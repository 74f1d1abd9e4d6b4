"""How a tensor is walked over so that its elements come in the order of a result."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail import DataLayout, Descriptor
from dovetail.layers import BroadcastTo, DepthToSpace, Permute, SpaceToDepth, StridedSlice, Tile

from ..walking import broadcast, contiguous

_View = tuple[tuple[int, ...], tuple[int, ...], int]


def view(descriptor: Descriptor, sizes: tuple[int, ...], result: tuple[int, ...]) -> _View:
    """Return sizes, strides and start, in elements, by which a walk in row-major order gives it."""
    own = contiguous(sizes)
    match descriptor:
        case Permute():
            return result, tuple(own[axis] for axis in descriptor.order(len(sizes))), 0
        case BroadcastTo():
            return result, broadcast(sizes, result), 0
        case Tile():
            repeats = descriptor.repeats or ()
            shape = tuple(n for pair in zip(repeats, sizes, strict=True) for n in pair)
            return shape, tuple(n for stride in own for n in (0, stride)), 0
        case StridedSlice():
            ranges = descriptor.ranges(sizes)
            strides = tuple(stride * step for stride, (_, step, _) in zip(own, ranges, strict=True))
            return result, strides, sum(stride * first for stride, (first, _, _) in zip(own, ranges, strict=True))
        case SpaceToDepth():
            return _space_to_depth(descriptor, sizes, own)
        case DepthToSpace():
            return _depth_to_space(descriptor, sizes, own)
    return sizes, own, 0


def _space_to_depth(descriptor: SpaceToDepth, sizes: Sequence[int], strides: Sequence[int]) -> _View:
    block = descriptor.block
    if descriptor.layout is DataLayout.NCHW:
        (n, c, h, w), (sn, sc, sh, sw) = sizes, strides
        return (n, block, block, c, h // block, w // block), (sn, sh, sw, sc, sh * block, sw * block), 0
    (n, h, w, c), (sn, sh, sw, sc) = sizes, strides
    return (n, h // block, w // block, block, block, c), (sn, sh * block, sw * block, sh, sw, sc), 0


def _depth_to_space(descriptor: DepthToSpace, sizes: Sequence[int], strides: Sequence[int]) -> _View:
    block = descriptor.block
    if descriptor.layout is DataLayout.NCHW:
        (n, depth, h, w), (sn, sd, sh, sw) = sizes, strides
    else:
        (n, h, w, depth), (sn, sh, sw, sd) = sizes, strides
    c = depth // block**2
    # Strides of c, dy and dx within the input's channels.
    sc, sy, sx = (sd * block**2, sd * block, sd) if descriptor.column_first else (sd, sd * block * c, sd * c)
    if descriptor.layout is DataLayout.NCHW:
        return (n, c, h, block, w, block), (sn, sc, sh, sy, sw, sx), 0
    return (n, h, block, w, block, c), (sn, sh, sy, sw, sx, sc), 0
