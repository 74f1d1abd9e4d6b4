"""Rules of shape and dtype that several families share."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from enum import Enum, StrEnum
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ..descriptor import Infos, Values
from ..errors import ErrorCode, GraphError
from ..layer import OutputSlot
from ..tensor import Dimension, DType, TensorInfo

Operand: TypeAlias = OutputSlot | npt.ArrayLike
"""A slot, or anything NumPy makes an array of: it becomes a constant."""
_Choice = TypeVar("_Choice", bound=Enum)


def shape_error(message: str, hint: str | None = None) -> GraphError:
    """Build a `SHAPE_MISMATCH` error."""
    return GraphError(message, code=ErrorCode.SHAPE_MISMATCH, hint=hint)


def attribute_error(message: str, hint: str | None = None) -> GraphError:
    """Build an `ATTRIBUTE_INVALID` error."""
    return GraphError(message, code=ErrorCode.ATTRIBUTE_INVALID, hint=hint)


def choice(options: type[_Choice], value: Any, what: str) -> _Choice:
    """Read a member of an enum, or its value.

    Raises:
        GraphError: There is none such (`ATTRIBUTE_INVALID`); the hint lists all.
    """
    try:
        return options(value)
    except ValueError:
        allowed = ", ".join(repr(member.value) for member in options)
        raise attribute_error(f"{what} is {value!r}", f"use one of {allowed}") from None


def integer(value: Any, what: str) -> int:
    """Read an integer; neither a bool nor a float is one."""
    try:
        if not isinstance(value, bool | np.bool_):
            return operator.index(value)
    except TypeError:
        pass
    raise attribute_error(f"{what} is {value!r} ({type(value).__name__})", "give an integer")


def number(value: Any, what: str) -> float:
    """Read a real number."""
    try:
        if not isinstance(value, str | bytes):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise attribute_error(f"{what} is {value!r} ({type(value).__name__})", "give a number")


def sequence(value: Any, what: str) -> tuple[Any, ...]:
    """Read a sequence of anything; a text is none."""
    try:
        if not isinstance(value, str | bytes):
            return tuple(value)
    except TypeError:
        pass
    raise attribute_error(f"{what} is {value!r} ({type(value).__name__})", "give a sequence")


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
    if info.shape != tuple(shape):
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


INDEX_DTYPES = (DType.INT32, DType.INT64)


def broadcast(*shapes: Sequence[Dimension]) -> tuple[int, ...]:
    """Return the NumPy broadcast of concrete shapes."""
    rank = max((len(s) for s in shapes), default=0)
    result = []
    for i in range(-rank, 0):
        sizes = {s[i] for s in shapes if len(s) >= -i} - {1}
        if len(sizes) > 1:
            raise shape_error(
                f"shapes {', '.join(str(list(s)) for s in shapes)} do not broadcast",
                "aligned at the last axis, sizes must be equal or 1",
            )
        result.append(sizes.pop() if sizes else 1)
    return tuple(int(d) for d in result)


def window_output(
    size: int, window: int, stride: int, before: int, after: int, dilation: int, *, ceil_mode: bool = False
) -> int:
    """Return the number of positions of a sliding window along one axis.

    With `ceil_mode` a last, partial window counts if it starts inside the data or the leading padding (ONNX and PyTorch).
    """
    reach = dilation * (window - 1) + 1
    room = size + before + after - reach
    if room < 0:
        raise shape_error(
            f"a window that reaches over {reach} does not fit into {size} elements padded by {before} and {after}",
            "reduce the window or dilation, or pad more",
        )
    steps = -(-room // stride) if ceil_mode else room // stride
    if ceil_mode and steps * stride >= size + before:
        steps -= 1
    return steps + 1


class AutoPadding(StrEnum):
    """Padding worked out from the input's size, so that the output has ceil(input / stride) positions."""

    EXPLICIT = "explicit"
    SAME_UPPER = "same_upper"  # an odd element goes to the end (TensorFlow)
    SAME_LOWER = "same_lower"


def same_padding(
    sizes: Sequence[int], window: Sequence[int], stride: Sequence[int], dilation: Sequence[int], mode: AutoPadding
) -> tuple[int, int, int, int]:
    """Return (top, left, bottom, right) for one of the SAME modes."""
    before, after = [], []
    for size, w, s, d in zip(sizes, window, stride, dilation, strict=True):
        total = max((-(-size // s) - 1) * s + d * (w - 1) + 1 - size, 0)
        small = total // 2
        before.append(small if mode is AutoPadding.SAME_UPPER else total - small)
        after.append(total - before[-1])
    return before[0], before[1], after[0], after[1]


def pair(value: int | Sequence[int], what: str) -> tuple[int, int]:
    """Read an integer or two of them: (height, width)."""
    values = _integers(value, what, 2)
    if len(values) != 2:
        raise attribute_error(f"{what} must be one integer or (height, width), got {value!r}")
    return values[0], values[1]


def padding4(value: int | Sequence[int]) -> tuple[int, int, int, int]:
    """Read padding: one integer, (height, width), or (top, left, bottom, right)."""
    values = _integers(value, "padding", 4)
    if len(values) == 2:
        values = (*values, *values)
    if len(values) != 4 or any(v < 0 for v in values):
        raise attribute_error(
            f"padding {value!r} is not valid", "give one integer, (height, width), or (top, left, bottom, right), none negative"
        )
    return values[0], values[1], values[2], values[3]


def _integers(value: Any, what: str, times: int = 1) -> tuple[int, ...]:
    """Read several integers, or one that stands for `times` equal ones."""
    single = isinstance(value, str | bytes) or (isinstance(value, np.ndarray) and value.ndim == 0)
    if isinstance(value, Iterable) and not single:
        return tuple(integer(v, f"{what}[{i}]") for i, v in enumerate(value))
    return (integer(value, what),) * times


def require_positive(what: str, *values: int) -> None:
    """Refuse anything below one."""
    if values and min(values) < 1:
        raise attribute_error(f"{what} must be at least 1, got {values if len(values) > 1 else values[0]}")


def integers(values: Values, index: int) -> tuple[int, ...] | None:
    """Return the value of an input as a tuple of integers; None if it is not connected."""
    value = values[index] if index < len(values) else None
    return None if value is None else tuple(int(v) for v in np.asarray(value).reshape(-1))


def as_tuple(value: int | Iterable[int] | None, what: str) -> tuple[int, ...] | None:
    """Read None, one integer, or several."""
    return None if value is None else _integers(value, what)


def known(values: Values) -> list[npt.NDArray[Any]] | None:
    """Return all values if all are known, else None."""
    found = [v for v in values if v is not None]
    return found if len(found) == len(values) else None
