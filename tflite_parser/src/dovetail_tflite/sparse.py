"""Fill in the zeros of a sparse tensor.

Source: `SparsityParameters` of TensorFlow Lite's schema, after "Format Abstraction for Sparse
Tensor Algebra Compilers" (Chou et al. 2018): levels of a tree, dense or compressed (CSR), in an
order of traversal, the last of which may be those of blocks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail.ground.limits import budget

from .flatbuffer import BrokenFile, Table

_VECTORS = {1: "Int32Vector", 2: "Uint16Vector", 3: "Uint8Vector"}
_DENSE, _COMPRESSED = 0, 1


def filled_in(stored: npt.NDArray[Any], sparsity: Table, shape: tuple[int, ...], what: str) -> npt.NDArray[Any]:
    """Return the whole tensor.

    Args:
        stored: The elements that are there.
        sparsity: Where they go.
        shape: Of the tensor.
        what: What to call it.

    Raises:
        BrokenFile: The levels do not fit the shape or one another.
        LimitError: The load may not take so much memory.
    """
    order = sparsity.vector("traversal_order").tolist()
    blocked = sparsity.vector("block_map").tolist()
    levels = sparsity.tables("dim_metadata")
    rank = len(shape)
    if sorted(order) != list(range(len(order))) or len(order) != rank + len(blocked) or len(levels) != len(order):
        raise BrokenFile(f"{what} is sparse in {len(levels)} levels of order {order}, its shape is {list(shape)}")
    if any(not 0 <= axis < rank for axis in blocked) or len(set(blocked)) != len(blocked):
        raise BrokenFile(f"{what} has blocks along {blocked}, its shape is {list(shape)}")
    sizes = [0] * len(order)
    for place, axis in enumerate(order):
        sizes[axis] = levels[place].number("dense_size") if levels[place].number("format") == _DENSE else -1
    for number, axis in enumerate(blocked):
        block = sizes[rank + number]
        if block < 1 or shape[axis] % block:
            raise BrokenFile(f"{what} has blocks of {block} along an axis of {shape[axis]}")
    outer = list(shape)
    for number, axis in enumerate(blocked):
        outer[axis] //= sizes[rank + number]
    budget().take_memory(math.prod(shape) * stored.itemsize * 2, what)
    positions = _positions(levels, order, [*outer, *sizes[rank:]], len(stored), what)
    whole = np.zeros([*outer, *sizes[rank:]], stored.dtype)
    whole[tuple(positions)] = stored[: len(positions[0])]
    beside = [[axis, *(rank + number for number, of in enumerate(blocked) if of == axis)] for axis in range(rank)]
    whole = whole.transpose([one for pair in beside for one in pair])
    return np.ascontiguousarray(whole).reshape(shape)


def _positions(levels: Any, order: list[int], sizes: list[int], count: int, what: str) -> list[npt.NDArray[np.int64]]:
    """Return the index of each stored element along each axis."""
    found: list[npt.NDArray[np.int64]] = [np.zeros(1, np.int64) for _ in order]
    rows = 1
    for place, axis in enumerate(order):
        level = levels[place]
        if level.number("format") == _DENSE:
            if level.number("dense_size") != sizes[axis]:
                raise BrokenFile(f"{what} has a level of {level.number('dense_size')} elements along an axis of {sizes[axis]}")
            per_row = np.full(rows, sizes[axis])
            along = np.tile(np.arange(sizes[axis]), rows) if rows * sizes[axis] <= count else None
            if along is None:
                raise BrokenFile(f"{what} stores {count} elements, its levels ask for more")
        elif level.number("format") == _COMPRESSED:
            bounds, along = _integers(level, "array_segments", what), _integers(level, "array_indices", what)
            if len(bounds) != rows + 1 or bounds[0] != 0 or (np.diff(bounds) < 0).any() or bounds[-1] != len(along):
                raise BrokenFile(f"{what} has segments that do not fit {rows} rows")
            if len(along) > count or (len(along) and not (along.min() >= 0 and along.max() < sizes[axis])):
                raise BrokenFile(f"{what} has indices that do not fit an axis of {sizes[axis]}")
            per_row = np.diff(bounds)
        else:
            raise BrokenFile(f"{what} has a level of format {level.number('format')}")
        found = [np.repeat(one, per_row) for one in found]
        found[axis] = along
        rows = len(along)
    if rows > count:
        raise BrokenFile(f"{what} stores {count} elements, its levels ask for {rows}")
    return found


def _integers(level: Table, name: str, what: str) -> npt.NDArray[np.int64]:
    kind = level.number(f"{name}_type")
    held = level.table(name, _VECTORS[kind]) if kind in _VECTORS else None
    if held is None:
        raise BrokenFile(f"{what} has a compressed level without {name}")
    return held.vector("values").astype(np.int64)
