"""Rules of shape and dtype that several families share."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from enum import Enum, StrEnum
from functools import reduce
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ..graph.descriptor import Infos, Values
from ..graph.expressions import Expression
from ..graph.layer import OutputSlot
from ..graph.size_rules import as_size, below, broadcast_size, differ, larger, shapes_differ
from ..graph.tensor import MAX_RANK, Dimension, DType, TensorInfo, shown
from ..ground.errors import ErrorCode, GraphError
from ..ground.limits import ADDRESSABLE

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


def require_window(
    x: TensorInfo, axes: Sequence[int], stride: Sequence[int], dilation: Sequence[int], padding: Sequence[int]
) -> None:
    """Refuse a window whose positions a kernel cannot compute with.

    Each attribute fits 32 bits. And the data with its padding, a stride and a dilation longer along
    `axes`, is no larger than a tensor may be: whatever position a kernel works out, even one step
    beyond the last, times the bytes between two of them, is then far from the end of 64 bits. The
    window itself is not asked for: whoever calls refuses one that does not fit into the padded
    data.

    Args:
        x: What the window slides over; of a transposed convolution, its output before the padding
            is cut off.
        axes: Axes of `x` along which it slides.
        stride: One for each axis.
        dilation: One for each axis.
        padding: All before, then all after.

    Raises:
        GraphError: A stride or dilation is below 1, a padding below 0, one of them too large, or
            all of them together are (`ATTRIBUTE_INVALID`).
    """
    require_positive("stride", *stride)
    require_positive("dilation", *dilation)
    if min(padding) < 0 or max(padding) > LARGEST_COUNT:
        raise attribute_error(
            f"padding is ({', '.join(map(shown, padding))})", f"give counts from 0 to {LARGEST_COUNT}; a slice removes elements"
        )
    extents = [max(size, 1) for size in x.sizes] if x.is_concrete else [1] * x.rank  # the others are asked for once they are
    for i, axis in enumerate(axes):
        extents[axis] += padding[i] + padding[i + len(axes)] + stride[i] + dilation[i]
    if (nbytes := math.prod(extents) * x.dtype.itemsize) >= ADDRESSABLE:
        raise attribute_error(
            f"stride {tuple(stride)}, dilation {tuple(dilation)} and padding {tuple(padding)} of a window over {x.shape_text} "
            f"reach over {shown(nbytes)} bytes",
            f"no tensor can reach {ADDRESSABLE} bytes, padding included; check the attributes in the model",
        )


def window_output(
    size: int, window: int, stride: int, before: int, after: int, dilation: int, *, ceil_mode: bool = False
) -> int:
    """Return the number of positions of a sliding window along one axis.

    With `ceil_mode` a last, partial window counts if it starts inside the data or the leading
    padding (ONNX and PyTorch).
    """
    reach = dilation * (window - 1) + 1
    room = size + before + after - reach
    if below(room, 0):
        raise shape_error(
            f"a window that reaches over {reach} does not fit into {size} elements padded by {before} and {after}",
            "reduce the window or dilation, or pad more",
        )
    if not ceil_mode:
        return room // stride + 1
    # One that would start behind the data and the leading padding is left out: all others start at
    # least a stride before that.
    return -(-(size + before - max(reach - after, stride)) // stride) + 1


class AutoPadding(StrEnum):
    """Padding worked out from the input's size, for ceil(input / stride) output positions."""

    EXPLICIT = "explicit"
    SAME_UPPER = "same_upper"  # an odd element goes to the end (TensorFlow)
    SAME_LOWER = "same_lower"


def same_padding(
    sizes: Sequence[int], window: Sequence[int], stride: Sequence[int], dilation: Sequence[int], mode: AutoPadding
) -> tuple[int, int, int, int]:
    """Return (top, left, bottom, right) for one of the SAME modes."""
    before, after = [], []
    for size, w, s, d in zip(sizes, window, stride, dilation, strict=True):
        total = larger((-(-size // s) - 1) * s + d * (w - 1) + 1 - size, 0)
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


def as_tuple(value: int | Iterable[int] | None, what: str) -> tuple[int, ...] | None:
    """Read None, one integer, or several."""
    return None if value is None else _integers(value, what)


def known(values: Values) -> list[npt.NDArray[Any]] | None:
    """Return all values if all are known, else None."""
    found = [v for v in values if v is not None]
    return found if len(found) == len(values) else None
