"""Concat, Stack, Split and Pad, for every element type.

Concat, Stack and Split are one strided copy a part; along the outermost axis the parts lie in one
piece, so that the core may let them share memory. Quantized parts whose scale differs from the
output's are requantized as TFLite's ConcatenationWithScaling does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dovetail import DType, Layer, Quantization, TensorInfo
from dovetail.layers import Pad, Split, Stack

from .blocks import element_bytes
from .movement import Copy, Relation, movement_workload
from .padding import pad_workload
from .strides import contiguous
from .tables import requantization_table


def create(layer: Layer, dtype: DType) -> Any:
    """Make the workload capsule."""
    descriptor = layer.descriptor
    infos, results = _inputs(layer), layer.output_infos
    itemsize = infos[0].dtype.itemsize
    if isinstance(descriptor, Pad):
        sizes, wanted, fill = infos[0].sizes, results[0].sizes, element_bytes(infos[0].dtype, descriptor.value)
        return pad_workload(descriptor.mode, descriptor.before, sizes, wanted, contiguous(sizes, itemsize), itemsize, fill)
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
    """List the copies between a tensor `whole` and parts of `counts` positions along an axis."""
    strides = contiguous(whole, itemsize)
    outermost = math.prod(whole[:axis]) == 1
    copies, start = [], 0
    for index, count in enumerate(counts):
        shape = (*whole[:axis], count, *whole[axis + 1 :])
        offset = start * strides[axis]
        table = tables[index] if tables else None
        shared = Relation.NONE if table is not None or not outermost else Relation.VIEW if split else Relation.PART
        own = contiguous(shape, itemsize)
        if split:
            part = Copy(output=index, shape=shape, source_offset=offset, source_strides=strides, target_strides=own)
        else:
            part = Copy(input=index, shape=shape, target_offset=offset, source_strides=own, target_strides=strides)
        copies.append(replace(part, relation=shared, table=table))
        start += count
    return copies


def _table(info: TensorInfo, result: TensorInfo) -> bytes | None:
    mine, theirs = info.quantization, result.quantization
    if mine == theirs or not isinstance(mine, Quantization) or not isinstance(theirs, Quantization):
        return None
    return requantization_table(mine, theirs, is_signed=info.dtype is DType.INT8)


def _inputs(layer: Layer) -> list[TensorInfo]:
    return [info for info in layer.input_infos if info is not None]
