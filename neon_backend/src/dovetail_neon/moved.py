"""Which layers that only move elements CpuAcc takes: of any element type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dovetail import DType, Layer, Support
from dovetail.layers import (
    BroadcastTo,
    Cast,
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

CAST_TYPES = (DType.BOOL, DType.INT8, DType.UINT8, DType.INT32, DType.INT64, DType.FLOAT32, DType.FLOAT64)
"""Types between which elements are converted, in the order of csrc/interface/cast.h."""

MAX_TENSORS = 64
_MOST_AXES = 8


def _same_meaning(layer: Layer) -> Support | None:
    """Refuse integers that would mean different numbers on the two sides, and what does not fit the kernels' tables."""
    infos = [info for info in layer.input_infos if info is not None]
    sources = infos[:1] if layer.kind == Gather.kind else infos
    meanings = {info.quantization for info in (*sources, *layer.output_infos)}
    if len(meanings) > 1:
        return Support.no("quantization", "inputs and outputs differ in quantization; elements are moved as they are", "inputs")
    if max(len(infos), len(layer.outputs)) > MAX_TENSORS:
        return Support.no("shape", f"more than {MAX_TENSORS} tensors", "inputs")
    if max(info.rank for info in (*infos, *layer.output_infos)) > _MOST_AXES:
        return Support.no("shape", f"a tensor has more than {_MOST_AXES} axes", "input")
    return None


def _padding(layer: Layer) -> Support | None:
    d: Any = layer.descriptor
    if d.mode is not PadMode.CONSTANT:
        return Support.no("attribute", f"mode {d.mode} is not implemented; constant is", "mode")
    return _same_meaning(layer)


def _cast(layer: Layer) -> Support | None:
    infos = [info for info in (*layer.input_infos, *layer.output_infos) if info is not None]
    if infos[0].dtype is not infos[1].dtype:
        for info, name in zip(infos, ("input", "output"), strict=True):
            if info.dtype not in CAST_TYPES:
                known = ", ".join(dtype.label for dtype in CAST_TYPES)
                return Support.no("dtype", f"{name} is {info.dtype}; {known} are converted", name)
    return None


MOVEMENT_RULES: dict[str, Callable[[Layer], Support | None]] = {
    BroadcastTo.kind: _same_meaning,
    Cast.kind: _cast,
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
