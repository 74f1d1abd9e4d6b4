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
from dovetail.ground.making import Making
from dovetail.ground.records import NamedTuple

from .flatbuffer import BrokenFile, Table
from .unsupported import Unsupported

_VECTORS = {1: "Int32Vector", 2: "Uint16Vector", 3: "Uint8Vector"}
_DENSE, _COMPRESSED = 0, 1
_NONE = np.zeros(0, np.int64)
_MAX_LEVELS = 32
"""As many as NumPy may have axes."""


def filled_in(stored: npt.NDArray[Any], sparsity: Table, shape: tuple[int, ...], making: Making, what: str) -> npt.NDArray[Any]:
    """Return the whole tensor.

    Args:
        stored: The elements that are there.
        sparsity: Where they go.
        shape: Of the tensor.
        making: Counts what is made up.
        what: What to call it.

    Raises:
        Unsupported: It is too large for what is stored of it.
        BrokenFile: The levels do not fit the shape or one another.
        LimitError: The load may not take so much memory.
    """
    order, blocked, levels = _levels(sparsity, shape, what)
    sizes = _sizes(order, blocked, levels, shape, what)
    if not making.allows(math.prod(shape), what, itemsize=2 * stored.itemsize):
        raise Unsupported(f"{what} is sparse and has the shape {list(shape)}")
    positions = _positions(order, levels, sizes, len(stored), what)
    whole = np.zeros(sizes, stored.dtype)
    whole[tuple(positions)] = stored[: len(positions[0])]
    rank = len(shape)
    beside = [[axis, *(rank + number for number, of in enumerate(blocked) if of == axis)] for axis in range(rank)]
    whole = np.ascontiguousarray(whole.transpose([one for pair in beside for one in pair])).reshape(shape)
    whole.flags.writeable = False  # so that the network shares it
    return whole


class _Level(NamedTuple):
    """A level of the tree.

    Attributes:
        size: Of a dense one; None if it is compressed.
        segments: Where the elements of each row of a compressed one begin, and where the last end.
        indices: Of the elements, along the level's axis.
    """

    size: int | None
    segments: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int64]


def _levels(sparsity: Table, shape: tuple[int, ...], what: str) -> tuple[list[int], list[int], list[_Level]]:
    """Return the axis of each level, the axis of each block, and the levels."""
    levels = sparsity.tables("dim_metadata")
    if len(levels) > _MAX_LEVELS:
        raise Unsupported(f"{what} is sparse in {len(levels)} levels")
    order: list[int] = list(sparsity.numbers("traversal_order"))
    blocked: list[int] = list(sparsity.numbers("block_map"))
    if not order or sorted(order) != list(range(len(levels))) or len(order) != len(shape) + len(blocked):
        raise BrokenFile(f"{what} is sparse in {len(levels)} levels that do not fit the shape {list(shape)}")
    if any(not 0 <= axis < len(shape) for axis in blocked) or len(set(blocked)) != len(blocked):
        raise BrokenFile(f"{what} has blocks along {blocked}, its shape is {list(shape)}")
    return order, blocked, [_level(levels[place], what) for place in range(len(levels))]


def _level(table: Table, what: str) -> _Level:
    kind = table.number("format")
    if kind == _DENSE:
        return _Level(table.number("dense_size"), _NONE, _NONE)
    if kind != _COMPRESSED:
        raise BrokenFile(f"{what} has a level of format {kind}")
    segments, indices = (_integers(table, name, what) for name in ("array_segments", "array_indices"))
    if not len(segments) or segments[0] != 0 or (np.diff(segments) < 0).any() or segments[-1] != len(indices):
        raise BrokenFile(f"{what} has segments that do not fit its {len(indices)} indices")
    return _Level(None, segments, indices)


def _integers(level: Table, name: str, what: str) -> npt.NDArray[np.int64]:
    kind = level.number(f"{name}_type")
    held = level.table(name, _VECTORS[kind]) if kind in _VECTORS else None
    if held is None:
        raise BrokenFile(f"{what} has a compressed level without {name}")
    return held.vector("values").astype(np.int64)


def _sizes(order: list[int], blocked: list[int], levels: list[_Level], shape: tuple[int, ...], what: str) -> list[int]:
    """Return the sizes along each axis, counted in blocks where it has them, and of a block."""
    outer, blocks = list(shape), []
    for number, axis in enumerate(blocked, len(shape)):
        block = levels[order.index(number)].size
        if block is None or block < 1 or shape[axis] % block:
            raise BrokenFile(f"{what} has blocks of {block} along an axis of {shape[axis]}")
        outer[axis] //= block
        blocks.append(block)
    return outer + blocks


def _positions(order: list[int], levels: list[_Level], sizes: list[int], count: int, what: str) -> list[npt.NDArray[np.int64]]:
    """Return the index of each stored element along each axis."""
    # No level has more rows than elements are stored, or than a compressed level below it tells of.
    most = max(count, *(len(level.segments) - 1 for level in levels), *(len(level.indices) for level in levels), 1)
    budget().take_memory(most * 8 * len(order), what)
    found: list[npt.NDArray[np.int64]] = [np.zeros(1, np.int64) for _ in order]
    rows = 1
    for axis, level in zip(order, levels, strict=True):
        if level.size is not None:
            if level.size != sizes[axis]:
                raise BrokenFile(f"{what} has a level of {level.size} elements along an axis of {sizes[axis]}")
            if rows * level.size > most:
                raise BrokenFile(f"{what} stores {count} elements, its levels ask for {rows * level.size}")
            per_row, along = np.full(rows, level.size), np.tile(np.arange(level.size), rows)
        else:
            per_row, along = np.diff(level.segments), level.indices
            if len(per_row) != rows:
                raise BrokenFile(f"{what} has segments of {len(per_row)} rows, there are {rows}")
            if len(along) and not 0 <= along.min() <= along.max() < sizes[axis]:
                raise BrokenFile(f"{what} has indices that do not fit an axis of {sizes[axis]}")
        found = [np.repeat(one, per_row) for one in found]
        found[axis] = along
        rows = len(along)
    if rows > count:
        raise BrokenFile(f"{what} stores {count} elements, its levels ask for {rows}")
    return found
