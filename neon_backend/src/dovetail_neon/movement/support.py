"""Which layers that only move elements CpuAcc takes: of any element type."""

from __future__ import annotations

from typing import Any

from dovetail import Layer, Support
from dovetail.layers import (
    BroadcastTo,
    Concat,
    DepthToSpace,
    ExpandDims,
    Flatten,
    Gather,
    Pad,
    PadMode,
    Permute,
    Reshape,
    SpaceToDepth,
    Split,
    Squeeze,
    Stack,
    StridedSlice,
    Tile,
)

MAX_TENSORS = 64
_MAX_AXES = 8


def _same_meaning(layer: Layer) -> Support | None:
    """Refuse integers that would mean different numbers on the two sides, and what does not fit the kernels' tables."""
    infos = [info for info in layer.input_infos if info is not None]
    sources = infos[:1] if layer.kind == Gather.kind else infos
    meanings = {info.quantization for info in (*sources, *layer.output_infos)}
    if len(meanings) > 1:
        return Support.no("quantization", "inputs and outputs differ in quantization; elements are moved as they are", "inputs")
    if max(len(infos), len(layer.outputs)) > MAX_TENSORS:
        return Support.no("shape", f"more than {MAX_TENSORS} tensors", "inputs")
    if max(info.rank for info in (*infos, *layer.output_infos)) > _MAX_AXES:
        return Support.no("shape", f"a tensor has more than {_MAX_AXES} axes", "input")
    return None


def _padding(layer: Layer) -> Support | None:
    d: Any = layer.descriptor
    if d.mode is not PadMode.CONSTANT:
        return Support.no("attribute", f"mode {d.mode} is not implemented; constant is", "mode")
    return _same_meaning(layer)


SUPPORT = {
    BroadcastTo.kind: _same_meaning,
    Concat.kind: _same_meaning,
    DepthToSpace.kind: _same_meaning,
    ExpandDims.kind: _same_meaning,
    Flatten.kind: _same_meaning,
    Gather.kind: _same_meaning,
    Pad.kind: _padding,
    Permute.kind: _same_meaning,
    Reshape.kind: _same_meaning,
    SpaceToDepth.kind: _same_meaning,
    Split.kind: _same_meaning,
    Squeeze.kind: _same_meaning,
    Stack.kind: _same_meaning,
    StridedSlice.kind: _same_meaning,
    Tile.kind: _same_meaning,
}
