"""Move elements of every dtype without computing: reshapes, permutations and repetitions.

The kinds are Reshape, ExpandDims, Squeeze, Flatten, Permute, BroadcastTo, Tile, SpaceToDepth,
DepthToSpace and Shape. Each is one strided copy; where no element moves, the output is a view of
the input and the step disappears.
"""

from __future__ import annotations

import array
from collections.abc import Sequence
from typing import Any

from dovetail import DataLayout, Descriptor, DType, Layer
from dovetail.layers import BroadcastTo, DepthToSpace, Permute, Shape, SpaceToDepth, Tile

from .movement import Copy, Relation, fill_workload, movement_workload
from .strides import broadcast, coalesce, contiguous

_View = tuple[tuple[int, ...], tuple[int, ...]]


def create(layer: Layer, dtype: DType) -> Any:
    """Make the workload capsule."""
    info = layer.input_infos[0]
    assert info is not None, "the graph checks that the input is there"
    if isinstance(layer.descriptor, Shape):
        return fill_workload(array.array("q", info.sizes[layer.descriptor.start : layer.descriptor.end]).tobytes())
    itemsize = info.dtype.itemsize
    shape, source = _view(layer.descriptor, info.sizes, layer.output.known_info.sizes, itemsize)
    target = contiguous(shape, itemsize)
    _, (read, written) = coalesce(shape, (source, target))
    relation = Relation.VIEW if read == written else Relation.NONE
    return movement_workload([Copy(shape=shape, source_strides=source, target_strides=target, relation=relation)], itemsize)


def _view(descriptor: Descriptor, sizes: tuple[int, ...], result: tuple[int, ...], itemsize: int) -> _View:
    """Return (shape, source strides) such that walking them in row-major order gives the output."""
    own = contiguous(sizes, itemsize)
    if isinstance(descriptor, Permute):
        return result, tuple(own[axis] for axis in descriptor.order(len(sizes)))
    if isinstance(descriptor, BroadcastTo):
        return result, broadcast(sizes, result, itemsize)
    if isinstance(descriptor, Tile):
        repeats = descriptor.repeats or ()
        shape = tuple(n for pair in zip(repeats, sizes, strict=True) for n in pair)
        return shape, tuple(n for stride in own for n in (0, stride))
    if isinstance(descriptor, SpaceToDepth):
        return _space_to_depth(descriptor, sizes, own)
    if isinstance(descriptor, DepthToSpace):
        return _depth_to_space(descriptor, sizes, own)
    return sizes, own


def _space_to_depth(descriptor: SpaceToDepth, sizes: Sequence[int], strides: Sequence[int]) -> _View:
    block = descriptor.block
    if descriptor.layout is DataLayout.NCHW:
        (n, c, h, w), (sn, sc, sh, sw) = sizes, strides
        return (n, block, block, c, h // block, w // block), (sn, sh, sw, sc, sh * block, sw * block)
    (n, h, w, c), (sn, sh, sw, sc) = sizes, strides
    return (n, h // block, w // block, block, block, c), (sn, sh * block, sw * block, sh, sw, sc)


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
        return (n, c, h, block, w, block), (sn, sc, sh, sy, sw, sx)
    return (n, h, block, w, block, c), (sn, sh, sy, sw, sx, sc)
