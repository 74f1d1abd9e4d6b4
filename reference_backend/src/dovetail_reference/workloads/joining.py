"""Concat, Stack, Split and Pad, for every element type.

Concat, Stack and Split are one strided copy a part; along the outermost axis the parts lie in one piece, so that the core may
let them share memory. Quantized parts whose scale differs from the output's are requantized as TFLite's
ConcatenationWithScaling does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail.interfaces import Support
from dovetail.layer import Layer
from dovetail.layers import Concat, Pad, PadMode, Split, Stack
from dovetail.tensor import DType, Quantization, TensorInfo

from .blocks import element_bytes
from .movement import Copy, Relation, movement_workload, selection_workload
from .strides import contiguous
from .tables import requantization_table

Positions = npt.NDArray[np.int64]

_LONGEST_PADDED = 1 << 28
"""Most positions of a padded axis: each takes eight bytes of a table."""


def supports(layer: Layer) -> Support:
    """Refuse parts that cannot be brought to one quantization, and the longest padded axes."""
    descriptor = layer.descriptor
    infos, result = _inputs(layer), layer.outputs[0].known_info
    if isinstance(descriptor, Concat | Stack):
        for index, info in enumerate(infos):
            refusal = _requantizable(info, result, index)
            if refusal is not None:
                return refusal
    if isinstance(descriptor, Pad) and max(result.sizes, default=0) > _LONGEST_PADDED:
        return Support.no("shape", f"an axis of {result.shape_text} has more than {_LONGEST_PADDED} elements", "before")
    return Support.yes()


def _requantizable(info: TensorInfo, result: TensorInfo, index: int) -> Support | None:
    mine, theirs = info.quantization, result.quantization
    if mine == theirs:
        return None
    if mine is None or theirs is None or mine.is_per_axis or theirs.is_per_axis:
        reason = f"input {index} and the output differ in quantization, and not both have one scale: {mine} and {theirs}"
        return Support.no("quantization", reason, "inputs")
    if info.dtype not in (DType.INT8, DType.UINT8):
        reason = f"input {index} would have to be requantized, which is done for int8 and uint8 alone"
        return Support.no("dtype", reason, "inputs")
    return None


def create(layer: Layer, dtype: DType) -> Any:
    """Make the workload capsule."""
    descriptor = layer.descriptor
    infos, results = _inputs(layer), layer.output_infos
    itemsize = infos[0].dtype.itemsize
    if isinstance(descriptor, Pad):
        axes = zip(descriptor.before, infos[0].sizes, results[0].sizes, strict=True)
        tables = [
            # A tensor without elements may have long axes.
            pad_positions(-before, wanted if results[0].elements else 0, size, descriptor.mode)
            for before, size, wanted in axes
        ]
        fill = element_bytes(infos[0].dtype, descriptor.value)
        return selection_workload(tables, contiguous(infos[0].sizes, itemsize), itemsize, fill)
    if isinstance(descriptor, Split):
        axis = descriptor.axis % infos[0].rank
        return movement_workload(_parts(infos[0].sizes, axis, [r.sizes[axis] for r in results], itemsize, split=True), itemsize)
    axis = descriptor.axis % results[0].rank  # type: ignore[attr-defined]  # Concat and Stack both have one
    counts = [1] * len(infos) if isinstance(descriptor, Stack) else [info.sizes[axis] for info in infos]
    copies = _parts(results[0].sizes, axis, counts, itemsize, split=False, tables=[_table(i, results[0]) for i in infos])
    return movement_workload(copies, itemsize)


def _parts(
    whole: Sequence[int], axis: int, counts: Sequence[int], itemsize: int, *, split: bool, tables: Sequence[bytes | None] = ()
) -> list[Copy]:
    """List the copies between a tensor of shape `whole` and its parts of `counts` positions along an axis."""
    strides = contiguous(whole, itemsize)
    outermost = math.prod(whole[:axis]) == 1
    copies, start = [], 0
    for index, count in enumerate(counts):
        shape = (*whole[:axis], count, *whole[axis + 1 :])
        offset = start * strides[axis]
        table = tables[index] if tables else None
        shared = Relation.NONE if table is not None or not outermost else Relation.VIEW if split else Relation.PART
        part = contiguous(shape, itemsize)
        if split:
            copies.append(
                Copy(
                    output=index,
                    shape=shape,
                    source_offset=offset,
                    source_strides=strides,
                    target_strides=part,
                    relation=shared,
                )
            )
        else:
            copies.append(
                Copy(
                    input=index,
                    shape=shape,
                    target_offset=offset,
                    source_strides=part,
                    target_strides=strides,
                    relation=shared,
                    table=table,
                )
            )
        start += count
    return copies


def _table(info: TensorInfo, result: TensorInfo) -> bytes | None:
    mine, theirs = info.quantization, result.quantization
    if mine == theirs or not isinstance(mine, Quantization) or not isinstance(theirs, Quantization):
        return None
    return requantization_table(mine, theirs, is_signed=info.dtype is DType.INT8)


def pad_positions(first: int, count: int, size: int, mode: PadMode) -> Positions:
    """Return the input position that stands at each of `count` positions from `first` on, -1 for the constant.

    Positions may lie outside [0, size).
    """
    positions = np.arange(first, first + count)
    if mode is PadMode.CONSTANT or size == 0:
        return np.where((positions >= 0) & (positions < size), positions, -1)
    if mode is PadMode.EDGE:
        return np.clip(positions, 0, size - 1)
    if mode is PadMode.WRAP:
        return positions % size
    if mode is PadMode.SYMMETRIC:
        turn = positions % (2 * size)
        return np.minimum(turn, 2 * size - 1 - turn)
    turn = positions % max(2 * size - 2, 1)
    return np.minimum(turn, 2 * size - 2 - turn)


def _inputs(layer: Layer) -> list[TensorInfo]:
    return [info for info in layer.input_infos if info is not None]
