"""Byte strides of tensors and of views of them."""

from __future__ import annotations

import math
from collections.abc import Sequence


def contiguous(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the strides, in bytes, of a C-contiguous tensor."""
    return tuple(math.prod(shape[i + 1 :]) * itemsize for i in range(len(shape)))


def broadcast(shape: Sequence[int], target: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return strides that make a C-contiguous `shape` look like `target`: 0 along repeated axes."""
    own = contiguous(shape, itemsize)
    missing = len(target) - len(shape)
    repeated = (size == 1 and wanted != 1 for size, wanted in zip(shape, target[missing:], strict=True))
    return (0,) * missing + tuple(0 if r else s for r, s in zip(repeated, own, strict=True))


def without(sizes: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Return the sizes, or strides, of all axes but one."""
    return sizes[:axis] + sizes[axis + 1 :]


def coalesce(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Drop axes of size one and merge neighbours that every operand walks in one stride.

    Args:
        shape: Sizes.
        strides: For each operand, one stride per axis.

    Returns:
        Sizes and strides of fewer axes that visit the same addresses in the same order; at least
        one axis.
    """
    sizes: list[int] = []
    merged: list[list[int]] = [[] for _ in strides]
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        if sizes and all(kept[-1] == size * given[axis] for kept, given in zip(merged, strides, strict=True)):
            sizes[-1] *= size
            for kept, given in zip(merged, strides, strict=True):
                kept[-1] = given[axis]
        else:
            sizes.append(size)
            for kept, given in zip(merged, strides, strict=True):
                kept.append(given[axis])
    if not sizes:
        return [1], [[0] for _ in strides]
    return sizes, merged
