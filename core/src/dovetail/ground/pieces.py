"""Large arrays, worked through piece by piece.

NumPy stops for nobody: one call over a hundred million elements takes longer than a load may
overshoot its deadline, and longer than Ctrl-C may go unheard. What a load does to arrays whose size
a file decides is therefore cut into pieces, and the time is looked at between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from .limits import budget

_Array: TypeAlias = npt.NDArray[Any]
Region: TypeAlias = tuple[Any, ...]

PIECE = 1 << 20
"""Elements of a piece: some milliseconds of any function of one element."""


class _Readable(Protocol):
    def readinto(self, buffer: memoryview, /) -> int | None: ...


def regions(shape: Sequence[int]) -> Iterator[Region]:
    """Cut an array into pieces in row-major order, and look at the time before each.

    A piece is an index: `...` if the array is a single one, else a slice for each axis.

    Raises:
        LoadTimeoutError: The time of the load under way is over.
    """
    load = budget()
    load.check_time()
    if math.prod(shape) <= PIECE:
        yield (...,)
        return
    axis, inner = len(shape) - 1, 1
    while inner * shape[axis] <= PIECE:
        inner *= shape[axis]
        axis -= 1
    step, whole = PIECE // inner, (slice(None),) * (len(shape) - axis - 1)
    for outer in product(*map(range, shape[:axis])):
        before = tuple(slice(i, i + 1) for i in outer)
        for begin in range(0, shape[axis], step):
            load.check_time()
            yield (*before, slice(begin, min(begin + step, shape[axis])), *whole)


def assembled(shape: Sequence[int], dtype: npt.DTypeLike, part: Callable[[Region], Any]) -> _Array:
    """Make an array of what `part` returns for each region; a single piece is returned as is."""
    if math.prod(shape) <= PIECE:
        return np.asarray(part((...,)), dtype)
    made = np.empty(shape, dtype)
    for region in regions(shape):
        made[region] = part(region)
    return made


def mapped(function: Callable[..., Any], dtype: npt.DTypeLike, *arrays: _Array) -> _Array:
    """Apply a function of single elements to arrays, which are broadcast against each other."""
    if all(array.size <= PIECE for array in arrays):
        shape = np.broadcast_shapes(*[array.shape for array in arrays])
        if math.prod(shape) <= PIECE:
            return np.asarray(function(*arrays), dtype)
    views = np.broadcast_arrays(*arrays)
    return assembled(views[0].shape, dtype, lambda region: function(*[view[region] for view in views]))


def copied(array: _Array) -> _Array:
    """Copy an array, in row-major order."""
    if array.size <= PIECE:
        return np.array(array, order="C")
    return assembled(array.shape, array.dtype, array.__getitem__)


def in_order(array: _Array) -> _Array:
    """Return an array in row-major order: itself, or a copy."""
    return array if array.flags.c_contiguous else copied(array)


def put(target: _Array, source: _Array) -> None:
    """Copy an array into another one of its shape."""
    for region in regions(target.shape):
        target[region] = source[region]


def reduced(
    function: np.ufunc, array: _Array, axes: Sequence[int], dtype: npt.DTypeLike, part: Callable[[_Array], _Array] | None = None
) -> _Array:
    """Reduce axes of an array that is not empty to one element each.

    The function must not depend on the order.

    Args:
        function: Such as `np.add`; integers wrap.
        array: What is reduced.
        axes: In [0, rank).
        dtype: What is computed in.
        part: What to make of each piece before.
    """
    made = np.empty([1 if axis in axes else size for axis, size in enumerate(array.shape)], dtype)
    for region in regions(array.shape):
        piece = array[region] if part is None else part(array[region])
        one = function.reduce(piece, axis=tuple(axes), keepdims=True, dtype=dtype)
        if region == (...,):
            made[...] = one
            continue
        target = tuple(slice(None) if axis in axes else index for axis, index in enumerate(region))
        made[target] = function(made[target], one) if any(region[axis].start for axis in axes) else one
    return made


def holds(condition: Callable[..., Any], *arrays: _Array) -> bool:
    """Say whether a condition of single elements holds for all of some arrays of one shape."""
    return all(bool(np.all(condition(*[array[region] for array in arrays]))) for region in regions(arrays[0].shape))


def bits_equal(a: _Array, b: _Array) -> bool:
    """Say whether two arrays of one type and shape in row-major order have the same bits."""
    bits = (array.reshape(-1).view(np.uint8) for array in (a, b))
    return a.nbytes == b.nbytes and holds(np.equal, *bits)


def read_into(file: _Readable, array: _Array) -> int:
    """Fill an array of bytes from a file; returns how many there were."""
    view, done, load = array.data, 0, budget()
    while done < len(view):
        load.check_time()
        count = file.readinto(view[done : done + 8 * PIECE])
        if not count:
            break
        done += count
    return done
