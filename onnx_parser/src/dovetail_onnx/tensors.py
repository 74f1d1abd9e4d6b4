"""Element types and tensors: from ONNX to NumPy storage and `DType`."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dovetail import Constant, DType, ModelError
from dovetail.graph.late_array import LateArray
from dovetail.graph.layer import OutputSlot
from dovetail.ground.late_reads import PlaceInFile
from dovetail.ground.limits import budget
from dovetail.ground.making import Making
from dovetail.ground.pieces import mapped
from dovetail.ground.records import NamedTuple

from .external_data import ExternalData
from .malformed import malformed
from .messages import SparseTensorProto, TensorProto
from .unsupported import Unsupported

_TYPES = TensorProto.DataType
DTYPES: dict[int, DType] = {
    _TYPES.FLOAT: DType.FLOAT32,
    _TYPES.DOUBLE: DType.FLOAT64,
    _TYPES.FLOAT16: DType.FLOAT16,
    _TYPES.BFLOAT16: DType.BFLOAT16,
    _TYPES.INT8: DType.INT8,
    _TYPES.INT16: DType.INT16,
    _TYPES.INT32: DType.INT32,
    _TYPES.INT64: DType.INT64,
    _TYPES.UINT8: DType.UINT8,
    _TYPES.UINT16: DType.UINT16,
    _TYPES.UINT32: DType.UINT32,
    _TYPES.UINT64: DType.UINT64,
    _TYPES.BOOL: DType.BOOL,
}
CODES = {dtype: int(code) for code, dtype in DTYPES.items()}

# Which field of TensorProto holds an element type, and as what; int32_data holds the bits of the
# 16-bit floats.
_FIELDS: dict[DType, tuple[str, str]] = {
    DType.FLOAT32: ("float_data", "f4"),
    DType.FLOAT64: ("double_data", "f8"),
    DType.FLOAT16: ("int32_data", "u2"),
    DType.BFLOAT16: ("int32_data", "u2"),
    DType.INT64: ("int64_data", "i8"),
    DType.UINT32: ("uint64_data", "u4"),
    DType.UINT64: ("uint64_data", "u8"),
}


MAX_AXES = 64
"""Axes of an array of NumPy."""


Bytes: TypeAlias = npt.NDArray[Any] | PlaceInFile
"""Of a tensor: at hand, or left in their file."""
Value: TypeAlias = npt.NDArray[Any] | LateArray
"""The same of elements."""


class Tensor(NamedTuple):
    """A tensor's value, in NumPy storage, and its element type."""

    value: npt.NDArray[Any]
    dtype: DType


class FoundTensor(NamedTuple):
    """The same; the value may have stayed in its file."""

    value: Value
    dtype: DType


def dtype_name(code: int) -> str:
    """Name an ONNX element type."""
    try:
        return TensorProto.DataType(code).name.lower()
    except ValueError:
        return f"type {code}"


def dtype_of_code(code: int, what: str) -> DType:
    """Map an ONNX element type.

    Raises:
        Unsupported: Dovetail has no such type.
    """
    try:
        return DTYPES[code]
    except KeyError:
        raise Unsupported(f"{what} has element type {dtype_name(code)}", attribute=dtype_name(code)) from None


def read_tensor(tensor: TensorProto, external: ExternalData, cut: Bytes | None = None) -> Tensor:
    """Return the value of a tensor, whose bytes may have been cut out of it.

    Raises:
        Unsupported: The element type, or a segment.
        ModelError: The data does not fit the shape.
    """
    value, dtype = find_tensor(tensor, external, cut)
    return Tensor(value.read() if isinstance(value, LateArray) else value, dtype)


def find_tensor(tensor: TensorProto, external: ExternalData, cut: Bytes | None = None) -> FoundTensor:
    """Do the same, but leave the value in its file if it may wait there."""
    what = f"tensor {tensor.name!r}"
    dtype = dtype_of_code(tensor.data_type, what)
    if tensor.has("segment"):
        raise Unsupported(f"{what} is one segment of a larger one", attribute="segment")
    shape = _shape(tensor.dims, tensor)
    count = math.prod(shape)
    if tensor.data_location == TensorProto.EXTERNAL:
        return FoundTensor(_of_bytes(external.read(tensor, count * dtype.itemsize), dtype, shape, what), dtype)
    if cut is not None or tensor.has("raw_data"):
        raw = tensor.raw_data if cut is None else cut
        nbytes = len(raw) if isinstance(raw, bytes | bytearray | memoryview) else raw.nbytes
        if nbytes != count * dtype.itemsize:
            found = f"{nbytes} bytes, but needs {count * dtype.itemsize} for its shape {list(shape)}"
            raise _misfit(tensor, f"has {found}")
        if cut is None:  # else it was counted when it was read
            budget().take_memory(nbytes, what)
        return FoundTensor(_of_bytes(raw, dtype, shape, what), dtype)
    field, storage = _FIELDS.get(dtype, ("int32_data", ""))
    data = getattr(tensor, field)
    if len(data) != count:
        raise _misfit(tensor, f"needs {count} elements for its shape {list(shape)}, but has {len(data)}")
    budget().take_memory(count * dtype.itemsize, what)
    wide = np.asarray(data, dtype=None if count else np.int64)
    narrow = mapped(lambda part: part.astype(storage or dtype.numpy), storage or dtype.numpy, wide)
    narrow.flags.writeable = False  # so that the network shares it
    return FoundTensor(narrow.view(dtype.numpy).reshape(shape), dtype)


def read_sparse(sparse: SparseTensorProto, external: ExternalData, making: Making) -> Tensor:
    """Return the value of a sparse tensor, filled in: its file may be tiny whatever its shape says.

    Raises:
        ModelError: It is too large, or an index is out of range.
    """
    values, dtype = read_tensor(sparse.values, external)
    indices = read_tensor(sparse.indices, external).value
    shape = _shape(sparse.dims, sparse.values)
    what = f"tensor {sparse.values.name!r}"
    if not making.allows(math.prod(shape), what, values.size):
        raise _misfit(sparse.values, f"is sparse with the shape {list(shape)}")
    positions = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape)
    if positions.shape != values.shape or (positions.size and not 0 <= positions.min() <= positions.max() < math.prod(shape)):
        raise _misfit(sparse.values, f"has indices that do not fit the shape {list(shape)}")
    dense = np.zeros(math.prod(shape), dtype.numpy)
    dense[positions] = values
    dense.flags.writeable = False  # so that the network shares it
    return Tensor(dense.reshape(shape), dtype)


def _shape(dims: Sequence[int], tensor: TensorProto) -> tuple[int, ...]:
    if len(dims) > MAX_AXES:  # a product of a million sizes is a number of a million digits
        raise _misfit(tensor, f"has {len(dims)} axes, and {MAX_AXES} are the most that there can be")
    if len(dims) and min(dims) < 0:
        raise _misfit(tensor, f"has the shape {list(dims)}")
    return tuple(dims)


def scalar_of(value: float, dtype: DType) -> npt.NDArray[Any]:
    """Return a number in the storage of an element type."""
    if dtype is not DType.BFLOAT16:
        return np.asarray(value, dtype.numpy)
    bits = int(np.asarray(value, np.float32).view(np.uint32))
    # Round to the nearest upper half, ties to even; infinities have nothing to round, and NaN is
    # not asked for.
    return np.asarray((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16, np.uint16)


def made_of(slot: OutputSlot, shape: tuple[int, ...], make: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Value:
    """Make the value of a constant of that of another, at once or when it is asked for.

    It waits if the other is still in its file.

    Args:
        slot: Of the other constant.
        shape: What will be made.
        make: Makes it: in row-major order, of the same element type.
    """
    constant = slot.layer.descriptor
    if not isinstance(constant, Constant):
        raise TypeError(f"{slot.name!r} is no constant")
    return make(constant.value) if constant.unread is None else LateArray(shape, slot.dtype, lambda: make(constant.value))


def _of_bytes(data: bytes | Bytes, dtype: DType, shape: tuple[int, ...], what: str) -> Value:
    if isinstance(data, PlaceInFile):
        data.what = what
        return LateArray(shape, dtype, lambda: _from_bytes(data.read(), dtype, shape))
    return _from_bytes(data, dtype, shape)


def _from_bytes(data: bytes | npt.NDArray[Any], dtype: DType, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    array = np.frombuffer(data, dtype.numpy)
    if dtype is DType.BOOL:  # any byte but 0 is true, and kernels compute with 1
        array = mapped(lambda part: part != 0, np.bool_, array.view(np.uint8))
    native = array if sys.byteorder == "little" or dtype.itemsize == 1 else array.byteswap()
    native.flags.writeable = False  # so that the network shares it
    return native.reshape(shape)


def _misfit(tensor: TensorProto, found: str) -> ModelError:
    return malformed(
        f"tensor {tensor.name!r} {found}",
        hint="the file is damaged; export the model again",
        tensor=tensor.name,
    )
