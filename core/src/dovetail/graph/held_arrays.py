"""Arrays that a graph holds: those of callers, converted and copied where they must be.

They are never written to again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..ground.errors import ErrorCode, GraphError
from .descriptor import Array
from .element_types import STORED, DType


def held_array(value: npt.ArrayLike, name: str, dtype: DType | None, copy: bool | None) -> tuple[Array, DType | None]:
    """Return a read-only array of an element type that dovetail has, and maybe that type.

    The type is there where NumPy's dtype does not tell it.

    Args:
        value: The array, or anything NumPy makes an array of.
        name: For messages.
        dtype: Given where NumPy's dtype does not tell: bfloat16.
        copy: None: copy an array that the caller could still write to and share one that is
            read-only. False: share it anyway, where it is contiguous; nobody may write to it from
            now on. True: always copy.

    Raises:
        GraphError: It is no array, or of another element type than dovetail has.
    """
    if type(value) is np.ndarray and not copy and _is_taken_as_it_is(value, dtype, shared=copy is False):
        return _read_only(value), dtype
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as error:
        raise GraphError(
            f"constant {name!r} is no array: {error}",
            code=ErrorCode.ATTRIBUTE_INVALID,
            hint="give a NumPy array, a number, or nested lists whose rows are equally long",
        ) from error
    if array.dtype.kind == "V" and array.dtype.name == "bfloat16":
        dtype = DType.BFLOAT16
    if not isinstance(value, np.ndarray | np.generic) and array.dtype == np.float64:
        array = array.astype(np.float32)
    native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    if dtype is not None and native.dtype != dtype.numpy:
        native = native.view(dtype.numpy) if native.dtype.itemsize == dtype.itemsize else native.astype(dtype.numpy)
    DType.of(native.dtype)
    contiguous = native if native.flags.c_contiguous else np.ascontiguousarray(native).reshape(native.shape)
    fresh = isinstance(value, list | tuple | int | float | np.generic) or (
        contiguous is not array and not np.may_share_memory(contiguous, array)
    )
    if copy or (copy is None and not fresh and _is_writeable(contiguous)):
        contiguous = contiguous.copy()
        fresh = True
    owner: Any = contiguous if fresh else None
    while isinstance(owner, np.ndarray):  # what is ours stays read-only whoever takes it next
        owner.flags.writeable = False
        owner = owner.base
    return _read_only(contiguous), dtype


def owner_of(array: Array) -> Array:
    """Return the array whose memory an array is a view of."""
    owner: Any = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    found: Array = owner
    return found


def bytes_read(arrays: Iterable[Array]) -> int:
    """Return the bytes that contiguous arrays read.

    A small view of large memory, as of a mapped file, counts as what it reads; the same view counts
    once, and views that overlap at most as the memory that they share.
    """
    owners: dict[int, tuple[int, dict[tuple[int, int], int]]] = {}
    for array in arrays:
        owner = owner_of(array)
        _, views = owners.setdefault(id(owner), (owner.nbytes, {}))
        views[array.__array_interface__["data"][0], array.nbytes] = array.nbytes
    return sum(min(whole, sum(views.values())) for whole, views in owners.values())


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def _is_taken_as_it_is(array: Array, dtype: DType | None, *, shared: bool) -> bool:
    """True if an array needs no conversion and no copy, as of the weights that a parser brings."""
    is_known = array.dtype in STORED if dtype is None else array.dtype == dtype.numpy
    return is_known and array.flags.c_contiguous and (shared or not _is_writeable(array))


def _is_writeable(array: npt.NDArray[Any]) -> bool:
    """True if somebody can write to the array's memory.

    That is through the array, a base of it, or the buffer that it wraps.
    """
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return True
        owner = owner.base
    try:
        return owner is not None and not memoryview(owner).readonly
    except TypeError:  # no buffer: the array's own flag is all that can be known
        return False
