"""Kinds that keep, repeat or reorder the elements."""

from __future__ import annotations

from dovetail import layers
from dovetail.graph.element_types import DType

from ..rules import Saying, says


@says(layers.Reshape, layers.Flatten, layers.Squeeze, layers.ExpandDims)
def reshape(say: Saying) -> str:
    """Say the same elements under the shape that is known of the result."""
    return say.op("Reshape", say.input(), say.integers(say.result.sizes), allowzero=1 if 0 in say.result.sizes else None)


@says(layers.Permute)
def permute(say: Saying) -> str:
    """Say a permutation of axes."""
    return say.permuted(say.input(), say.descriptor.order(say.info().rank))


@says(layers.BroadcastTo)
def broadcast_to(say: Saying) -> str:
    """Say a broadcast."""
    return say.op("Expand", say.input(), say.integers(say.result.sizes))


@says(layers.Tile)
def tile(say: Saying) -> str:
    """Say repetition."""
    return say.op("Tile", say.input(), say.integers(say.descriptor.repeats))


@says(layers.Shape)
def shape(say: Saying) -> str:
    """Say the sizes of a tensor."""
    return say.op("Shape", say.input(), dtype=DType.INT64, start=say.descriptor.start, end=say.descriptor.end)


@says(layers.SpaceToDepth)
def space_to_depth(say: Saying) -> str:
    """Say blocks of pixels as channels."""
    x = say.channels_first(4)
    return say.channels_back(say.op("SpaceToDepth", x, blocksize=say.descriptor.block), 4)


@says(layers.DepthToSpace)
def depth_to_space(say: Saying) -> str:
    """Say channels as blocks of pixels."""
    x, mode = say.channels_first(4), "CRD" if say.descriptor.column_first else "DCR"
    return say.channels_back(say.op("DepthToSpace", x, blocksize=say.descriptor.block, mode=mode), 4)
