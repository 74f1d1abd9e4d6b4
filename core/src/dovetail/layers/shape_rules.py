"""Rules of shape and dtype that several families share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from ..graph.descriptor import Infos, Values
from ..graph.element_types import DType
from ..graph.expressions import Expression
from ..graph.size_rules import as_size, below, broadcast_size, differ, shapes_differ
from ..graph.tensor import MAX_RANK, Dimension, TensorInfo, shown
from ..ground.errors import ErrorCode, GraphError


def shape_error(message: str, hint: str | None = None) -> GraphError:
    """Build a `SHAPE_MISMATCH` error."""
    return GraphError(message, code=ErrorCode.SHAPE_MISMATCH, hint=hint)


def attribute_error(message: str, hint: str | None = None) -> GraphError:
    """Build an `ATTRIBUTE_INVALID` error."""
    return GraphError(message, code=ErrorCode.ATTRIBUTE_INVALID, hint=hint)


def present(inputs: Infos, index: int) -> TensorInfo:
    """Return the info of an input that must be there."""
    info = inputs[index] if index < len(inputs) else None
    if info is None:
        raise GraphError(f"input {index} is not connected", code=ErrorCode.GRAPH_DANGLING)
    return info


def optional(inputs: Infos, index: int) -> TensorInfo | None:
    """Return the info of an input that may be missing."""
    return inputs[index] if index < len(inputs) else None


def normalize_axis(axis: int, rank: int) -> int:
    """Map an axis in [-rank, rank) to [0, rank)."""
    if not -rank <= axis < rank:
        raise attribute_error(f"axis {axis} is out of range for rank {rank}", f"give an axis in [{-rank}, {rank - 1}]")
    return axis + rank if axis < 0 else axis


def normalize_axes(axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Map axes to [0, rank), refusing doubles."""
    result = tuple(normalize_axis(a, rank) for a in axes)
    if len(set(result)) != len(result):
        raise attribute_error(f"axes {tuple(axes)} name an axis twice")
    return result


def require_rank(info: TensorInfo, ranks: int | Sequence[int], what: str) -> None:
    """Refuse a tensor of another rank."""
    if len(info.shape) == ranks:
        return
    allowed = (ranks,) if isinstance(ranks, int) else tuple(ranks)
    if info.rank not in allowed:
        raise shape_error(
            f"{what} has shape {info.shape_text}, of rank {info.rank}", f"expected rank {' or '.join(map(str, allowed))}"
        )


def require_shape(info: TensorInfo, shape: Sequence[int], what: str) -> None:
    """Refuse a tensor of another shape."""
    if shapes_differ(info.shape, tuple(shape)):
        raise shape_error(f"{what} has shape {info.shape_text}, expected {list(shape)}")


def require_same_dtype(infos: Infos, what: str = "inputs") -> DType:
    """Refuse tensors of different dtypes; returns the common one."""
    dtypes = {info.dtype for info in infos if info is not None}
    if len(dtypes) != 1:
        raise GraphError(
            f"{what} have dtypes {', '.join(info.dtype.label for info in infos if info is not None)}",
            code=ErrorCode.DTYPE_MISMATCH,
            hint="insert a cast so that they agree",
        )
    return dtypes.pop()


def require_dtype(info: TensorInfo, allowed: Iterable[DType], what: str) -> None:
    """Refuse a tensor whose dtype is not among these."""
    options = tuple(allowed)
    if info.dtype not in options:
        raise GraphError(
            f"{what} is {info.dtype}",
            code=ErrorCode.DTYPE_MISMATCH,
            hint=f"expected {', '.join(d.label for d in options)}; insert a cast",
        )


def require_number(info: TensorInfo, what: str) -> None:
    """Refuse truth values where numbers are computed."""
    if info.dtype is DType.BOOL:
        raise GraphError(f"{what} is {info.dtype}", code=ErrorCode.DTYPE_MISMATCH, hint="a bool is no number; insert a cast")


def require_real(info: TensorInfo, what: str) -> None:
    """Refuse plain integers where real numbers are computed.

    Those that stand for real numbers, by a quantization, are taken.
    """
    if not info.dtype.is_float and (info.quantization is None or info.dtype is DType.BOOL):
        raise GraphError(
            f"{what} is {info.dtype}",
            code=ErrorCode.DTYPE_MISMATCH,
            hint="expected floats, or integers with a quantization; insert a cast",
        )


INDEX_DTYPES = (DType.INT32, DType.INT64)


def broadcast(*shapes: Sequence[Dimension]) -> tuple[int, ...]:
    """Return the NumPy broadcast of shapes."""
    rank = max((len(s) for s in shapes), default=0)
    result = []
    for i in range(-rank, 0):
        sizes: set[Any] = {s[i] for s in shapes if len(s) >= -i} - {1}
        if len(sizes) > 1:
            sizes = _joined_symbols(sizes)
        size = sizes.pop() if sizes else 1
        if sizes or (size < 0 if type(size) is int else below(size, 0)):
            raise shape_error(
                f"shapes {', '.join(str(list(s)) for s in shapes)} do not broadcast",
                "aligned at the last axis, sizes must be equal or 1, and none negative",
            )
        result.append(size if type(size) is int else as_size(size))
    return tuple(result)


def _joined_symbols(sizes: set[Any]) -> set[Any]:
    """Replace sizes of which some are symbolic by what they broadcast to.

    Those that are known to differ stay.
    """
    numbers = {size for size in sizes if not isinstance(size, Expression)}
    expressions = sorted((size for size in sizes if isinstance(size, Expression)), key=str)
    if not expressions or len(numbers) > 1:
        return numbers
    for one in expressions:
        if differ(one, 1) and any(differ(one, other) and differ(other, 1) for other in sizes):
            return sizes
    return {reduce(broadcast_size, (*numbers, *expressions))}


LARGEST_COUNT = 2**31 - 1
"""Largest kernel size, stride, dilation, padding, number of groups or parts: 32 bits hold it."""


def require_positive(what: str, *values: int) -> None:
    """Refuse anything below one, and what 32 bits do not hold."""
    if values and not 1 <= min(values) <= max(values) <= LARGEST_COUNT:
        found = ", ".join(map(shown, values))
        limit = "at least 1" if min(values) < 1 else f"at most {LARGEST_COUNT}"
        raise attribute_error(
            f"{what} must be {limit}, got {f'({found})' if len(values) > 1 else found}", "check the attributes in the model"
        )


def require_representable(value: float | int | bool, dtype: DType, what: str) -> None:
    """Refuse a number beyond an integer type, or a NaN; fractions are cut off where it is stored.

    Raises:
        GraphError: It does not fit (`ATTRIBUTE_INVALID`).
    """
    if not dtype.is_integer:
        return
    low, high = dtype.limits
    if not low <= value <= high:
        found = shown(value) if isinstance(value, int) else repr(value)
        raise attribute_error(f"{what} is {found}, which {dtype} does not hold", f"give a number from {low} to {high}")


def integers(values: Values, index: int, maximum: int = 2 * MAX_RANK) -> tuple[int, ...] | None:
    """Return the value of an input as a tuple of integers; None if it is not connected.

    Raises:
        GraphError: It holds something else (`ATTRIBUTE_INVALID`), or more than `most`
            (`SHAPE_MISMATCH`).
    """
    value = values[index] if index < len(values) else None
    if value is None:
        return None
    array = np.asarray(value)
    if array.size > maximum:
        raise shape_error(
            f"input {index} holds {array.size} sizes, axes or positions", f"a tensor has at most {maximum} of them"
        )
    listed = array.reshape(-1).tolist()
    if array.dtype.kind == "O":  # symbols among them
        return tuple(listed)
    if array.dtype.kind not in "iu":  # whole floats are taken, since ONNX allows any type for some
        if array.dtype.kind != "f" or not all(map(float.is_integer, listed)):
            raise attribute_error(
                f"input {index} holds {array.dtype} {listed}, expected sizes, axes or positions", "give integers"
            )
        listed = [int(number) for number in listed]
    return tuple(listed)


def known(values: Values) -> list[npt.NDArray[Any]] | None:
    """Return all values if all are known, else None."""
    found = [v for v in values if v is not None]
    return found if len(found) == len(values) else None
