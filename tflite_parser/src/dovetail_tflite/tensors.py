"""Tensors of a file: types, shapes, quantization, values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dovetail import DType, Quantization
from dovetail.graph.late_array import LateArray
from dovetail.ground.late_reads import PlaceInFile, may_wait
from dovetail.ground.limits import budget
from dovetail.ground.records import NamedTuple

from .flatbuffer import BrokenFile, Bytes, Table
from .model_file import ModelFile
from .sparse import filled_in
from .unsupported import Unsupported

TYPES = (
    *("float32", "float16", "int32", "uint8", "int64", "string", "bool", "int16", "complex64", "int8", "float64"),
    *("complex128", "uint64", "resource", "variant", "uint32", "uint16", "int4", "bfloat16", "int2", "uint4"),
    *("float8_e4m3fn", "float8_e5m2"),
)
"""Names of the element types, by their codes."""
_NARROW = {"int4": (4, DType.INT8), "int2": (2, DType.INT8), "uint4": (4, DType.UINT8)}
"""Types that several elements share a byte of: bits, and what they become."""
_KNOWN = {dtype.label: dtype for dtype in DType}
_MAX_AXES = 32
_OF_ITS_OWN = 1 << 16
"""Bytes of a tensor that is read apart; those around it are read with what lies there."""
Value: TypeAlias = "npt.NDArray[Any] | LateArray"
_DETAILS = ("no", "custom", "blockwise", "multi-axis")


class Tensor(NamedTuple):
    """What a file says of a tensor.

    Attributes:
        name: Its name; may be empty, and is not unique.
        dtype: Its type; int4 and int2 become int8.
        shape: Its sizes, -1 where they are open.
        quantization: How its integers stand for real numbers, if they do.
        is_variable: True if it keeps its value from one run to the next.
        value: What it holds, if it is a constant; large ones may wait in the file.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    quantization: Quantization | None
    is_variable: bool
    value: Value | None


def type_name(code: int) -> str:
    """Return the name of an element type."""
    return TYPES[code] if 0 <= code < len(TYPES) else f"number {code}"


def dtype_of_code(code: int, what: str) -> DType:
    """Return an element type.

    Raises:
        Unsupported: Dovetail has no such type.
    """
    name = type_name(code)
    if name in _NARROW:
        return _NARROW[name][1]
    if name not in _KNOWN:
        raise Unsupported(f"{what} is of type {name}")
    return _KNOWN[name]


def read_tensor(file: ModelFile, table: Table, index: int) -> Tensor:
    """Read a tensor.

    Raises:
        Unsupported: Its type, its quantization or where its value lies is not supported.
        BrokenFile: What it says contradicts itself.
    """
    name = table.text("name")
    what = f"tensor {name or index!r}"
    code = table.number("type")
    dtype = dtype_of_code(code, what)
    sizes = table.numbers("shape")
    open_sizes = table.numbers("shape_signature")
    if len(sizes) > _MAX_AXES:
        raise Unsupported(f"{what} has {len(sizes)} axes")
    if len(open_sizes) == len(sizes):
        # A size that was not open when the model was converted is the same in both.
        sizes = tuple(-1 if a == -1 else b for a, b in zip(open_sizes, sizes, strict=True))
    if min(sizes, default=0) < -1:
        raise BrokenFile(f"{what} has shape {list(sizes)}")
    value = _value(file, table, code, dtype, sizes, what)
    return Tensor(name, dtype, sizes, _quantization(table, dtype, sizes, what), table.number("is_variable"), value)


def _value(file: ModelFile, table: Table, code: int, dtype: DType, shape: tuple[int, ...], what: str) -> Value | None:
    if table.number("external_buffer"):
        raise Unsupported(f"the value of {what} lies in another file")
    number = table.number("buffer")
    if number == 0:  # which is empty, and means: none
        return None
    begin, size = _extent(file, file.buffers[number], what)
    if not size:
        return None
    if -1 in shape:
        raise BrokenFile(f"{what} is a constant of shape {list(shape)}")
    count = math.prod(shape)
    name = type_name(code)
    bits = _NARROW[name][0] if name in _NARROW else dtype.bits
    sparsity = table.table("sparsity")
    if sparsity is not None:
        if name in _NARROW:
            raise Unsupported(f"{what} is sparse and of type {name}")
        stored = _bytes(file, begin, size // dtype.itemsize * dtype.itemsize, what).view(dtype.numpy)
        return filled_in(stored, sparsity, shape, file.making, what)
    nbytes = -(-count * bits // 8)
    if size < nbytes:
        raise BrokenFile(f"{what} of shape {list(shape)} needs {nbytes} bytes, its buffer has {size}")
    elements = _elements(name, dtype, bits, count)
    late = file.source.late if may_wait(nbytes) else None
    if elements is not None:
        _check_made(file, count, 1 if late is None else 0, what)
    if late is not None:
        return _late(late.place(begin, nbytes, what), elements, dtype, shape)
    data = _bytes(file, begin, nbytes, what)
    if elements is not None:
        return _sealed(elements(data)).reshape(shape)
    found = data.view(dtype.numpy)
    if not found.flags.aligned:
        _check_made(file, count, dtype.itemsize, what)
        found = _sealed(found.copy())
    return found.reshape(shape)


def _elements(name: str, dtype: DType, bits: int, count: int) -> Callable[[Bytes], npt.NDArray[Any]] | None:
    """Return what makes elements of a file's bytes; None where they are these bytes."""
    if name in _NARROW:
        return lambda data: _widened(data, bits, count, signed=name != "uint4")
    if dtype is DType.BOOL:  # any byte but 0 is true
        return lambda data: data != 0
    return None


def _late(
    place: PlaceInFile, elements: Callable[[Bytes], npt.NDArray[Any]] | None, dtype: DType, shape: tuple[int, ...]
) -> LateArray:
    def read() -> npt.NDArray[Any]:
        data = place.read()
        if elements is None:
            return data.view(dtype.numpy).reshape(shape)
        budget().take_memory(math.prod(shape), place.what)
        return _sealed(elements(data)).reshape(shape)

    return LateArray(shape, dtype, read)


def _check_made(file: ModelFile, count: int, itemsize: int, what: str) -> None:
    """Refuse values that are no views of the file, once they are many times what it holds."""
    if not file.making.allows(count, what, itemsize=itemsize):
        raise Unsupported(f"{what} has {count} elements, after those that many others share with it")


def _sealed(made: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Make an array read-only, as views of the file are: the network shares it then."""
    made.flags.writeable = False
    return made


def _extent(file: ModelFile, buffer: Table, what: str) -> tuple[int, int]:
    """Return where a buffer lies: behind the FlatBuffer, maybe, in files above 2 GiB."""
    offset, size = buffer.number("offset"), buffer.number("size")
    if offset > 1:  # 1 stands for an offset that was still to be filled in
        if offset + size > len(file.source.data):
            raise BrokenFile(f"the buffer of {what} has {size} bytes at byte {offset} of {len(file.source.data)}")
        return offset, size
    return buffer.extent("data")


def _bytes(file: ModelFile, begin: int, nbytes: int, what: str) -> Bytes:
    """Return bytes of a file: a view of it, or of many an array that is freed with its tensor."""
    late = file.source.late
    found = None if late is None or nbytes < _OF_ITS_OWN else late.array(begin, nbytes, what)
    if found is None:
        file.source.need(begin, begin + nbytes)
        found = file.source.data[begin : begin + nbytes]
    return found


def _widened(data: npt.NDArray[np.uint8], bits: int, count: int, *, signed: bool) -> npt.NDArray[Any]:
    """Give each element of `bits` bits a byte; the first is in the lowest bits."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    found = ((data[:, None] >> shifts) & ((1 << bits) - 1)).reshape(-1)[:count]
    if not signed:
        return found
    top = 8 - bits
    return (found << top).view(np.int8) >> top


def _quantization(table: Table, dtype: DType, shape: tuple[int, ...], what: str) -> Quantization | None:
    found = table.table("quantization")
    if found is None or not dtype.is_integer:
        return None
    details = found.number("details_type")
    if details:
        how = _DETAILS[details] if details < len(_DETAILS) else f"kind {details} of"
        raise Unsupported(f"{what} has {how} quantization")
    scale, zero = found.numbers("scale"), found.numbers("zero_point")
    if not scale:
        return None
    if not (math.isfinite(sum(scale)) and min(scale) > 0):  # sums of float32 do not overflow
        if dtype.bits > 16 or not len(shape):
            return None  # sizes and positions, to which a quantizer gave a scale of zero
        raise BrokenFile(f"{what} has scales that are not positive and finite")
    if len(zero) not in (0, 1, len(scale)):
        raise BrokenFile(f"{what} has {len(scale)} scales and {len(zero)} zero points")
    axis = found.number("quantized_dimension")
    if len(scale) > 1 and not 0 <= axis < len(shape):
        raise BrokenFile(f"{what} of shape {list(shape)} is quantized along axis {axis}")
    if zero.count(zero[0] if zero else 0) == len(zero):  # one stands for all of them
        zero = zero[:1] or (0,)
    return Quantization(scale, zero, axis if len(scale) > 1 else None)
