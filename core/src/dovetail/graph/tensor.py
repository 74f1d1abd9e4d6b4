"""What a tensor is: element type, shape, quantization, layout."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..ground.errors import ErrorCode, GraphError
from ..ground.limits import ADDRESSABLE
from ..ground.records import NamedTuple, Record
from .element_types import DType
from .expressions import Expression

Dimension: TypeAlias = int | str
"""A size, or the name of a symbolic size that is fixed by `shapes` of `dovetail.load`.

While symbols are inferred (`symbolic_inference`), what depends on a symbol is an `Expression`,
which passes for an int.
"""


def shown(number: int) -> str:
    """Return an integer as printed to people.

    Beyond 128 bits by its length, since Python refuses to print the longest.
    """
    bits = number.bit_length()
    return str(number) if bits <= 128 else f"{'-' if number < 0 else ''}2^{bits - 1}..."


_LARGEST_ALIGNMENT = 1 << 21
"""Bytes: a huge page."""

MAX_RANK = 64 if int(np.__version__.partition(".")[0]) >= 2 else 32
"""Axes that a tensor can have: those of a NumPy array, which inputs, outputs and constants are."""


class DataLayout(StrEnum):
    """Axis order of an image tensor: batch, channels, height, width; convolution weights follow it.

    NCHW: weights [out, in / groups, height, width]. NHWC: weights [out, height, width, in /
    groups], and depthwise [1, height, width, channels * multiplier].
    """

    NCHW = "NCHW"
    NHWC = "NHWC"

    @property
    def channel_axis(self) -> int:
        """Axis of the channels."""
        return 1 if self is DataLayout.NCHW else -1

    def spatial_axes(self, rank: int = 4) -> tuple[int, ...]:
        """Axes of the spatial dimensions of a tensor of this rank."""
        return tuple(range(2, rank)) if self is DataLayout.NCHW else tuple(range(1, rank - 1))


class Quantization(Record, frozen=True):
    """Affine quantization: real = scale * (q - zero_point).

    Attributes:
        scale: One scale, or one per index of `axis`.
        zero_point: As many as there are scales.
        axis: None for per-tensor.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...] = (0,)
    axis: int | None = None

    def __post_init__(self) -> None:
        self._take_numbers()
        if len(self.zero_point) == 1 and len(self.scale) > 1:
            object.__setattr__(self, "zero_point", self.zero_point * len(self.scale))
        if len(self.scale) != len(self.zero_point) or not self.scale:
            raise GraphError(
                f"quantization has {len(self.scale)} scales and {len(self.zero_point)} zero points",
                code=ErrorCode.ATTRIBUTE_INVALID,
                hint="give one zero point per scale",
            )
        if self.axis is None and len(self.scale) != 1:
            raise GraphError(
                f"per-tensor quantization takes one scale, got {len(self.scale)}",
                code=ErrorCode.ATTRIBUTE_INVALID,
                hint="name the axis for per-axis quantization",
            )
        # A sum is finite only where all its terms are, and takes a fifth of the time of asking all.
        if not ((math.isfinite(sum(self.scale)) or all(map(math.isfinite, self.scale))) and min(self.scale) > 0):
            raise GraphError(
                "quantization scales must be positive and finite",
                code=ErrorCode.ATTRIBUTE_INVALID,
                hint="check the model's calibration",
            )

    def _take_numbers(self) -> None:
        """Keep NumPy's numbers as Python's, and lists as tuples."""
        try:
            object.__setattr__(self, "scale", tuple(map(float, self.scale)))
            object.__setattr__(self, "zero_point", tuple(map(operator.index, self.zero_point)))
            if self.axis is not None:
                object.__setattr__(self, "axis", operator.index(self.axis))
        except (TypeError, ValueError, OverflowError) as error:
            raise GraphError(
                f"quantization has the scales {self.scale!r}, the zero points {self.zero_point!r} and the axis {self.axis!r}",
                code=ErrorCode.ATTRIBUTE_INVALID,
                hint="give tuples of numbers and of integers, and an integer or None; or use per_tensor() or per_axis()",
            ) from error

    @classmethod
    def per_tensor(cls, scale: float, zero_point: int = 0) -> Quantization:
        """One scale for all elements."""
        return cls((scale,), (zero_point,))

    @classmethod
    def per_axis(cls, scale: Iterable[float], zero_point: Iterable[int] = (0,), *, axis: int) -> Quantization:
        """One scale per index of `axis`."""
        return cls(tuple(scale), tuple(zero_point), axis)

    def check_axis(self, info: TensorInfo) -> None:
        """Refuse a tensor that has not one index of the axis for each scale.

        Raises:
            GraphError: It has no such axis (`ATTRIBUTE_INVALID`), or another number of indices
                (`SHAPE_MISMATCH`).
        """
        if self.axis is None:
            return
        if not -info.rank <= self.axis < info.rank:
            raise GraphError(
                f"axis {self.axis} of a quantization is out of range for {info.shape_text}",
                code=ErrorCode.ATTRIBUTE_INVALID,
                hint="a kind that moves or merges the axis must say which it is then; dequantize before it",
            )
        size = info.shape[self.axis]
        if isinstance(size, int) and size != len(self.scale):
            raise GraphError(
                f"quantization has {len(self.scale)} scales for {size} elements along axis {self.axis} of {info.shape_text}",
                code=ErrorCode.SHAPE_MISMATCH,
                hint="give one scale per index of the axis; where a layer changes the axis, dequantize before it",
            )

    def reshaped(self, before: Sequence[int], after: Sequence[int]) -> Quantization:
        """Return the quantization of the same elements, in row-major order, under another shape.

        Raises:
            GraphError: The axis is not one of the new shape (`SHAPE_MISMATCH`).
        """
        if self.axis is None or tuple(before) == tuple(after):
            return self
        axis = self.axis % max(len(before), 1)
        outer = math.prod(before[:axis])
        for moved, size in enumerate(after):
            if size == before[axis] and math.prod(after[:moved]) == outer:
                return Quantization(self.scale, self.zero_point, moved)
        if len(self.scale) == 1:
            return Quantization(self.scale, self.zero_point)
        raise GraphError(
            f"quantization along axis {axis} of {list(before)} has no axis of {list(after)}",
            code=ErrorCode.SHAPE_MISMATCH,
            hint="dequantize before the shape is changed",
        )

    def check(self, dtype: DType) -> None:
        """Refuse zero points that an integer type cannot hold.

        Raises:
            GraphError: One is out of range (`ATTRIBUTE_INVALID`).
        """
        if not dtype.is_integer:
            return
        (low, high), zeros = dtype.limits, self.zero_point
        first = zeros[0]
        if zeros.count(first) == len(zeros):  # mostly all are 0, which is seen soonest by counting
            zeros = (first,)
        if min(zeros) < low or max(zeros) > high:
            bad = next(z for z in self.zero_point if not low <= z <= high)
            raise GraphError(
                f"zero point {bad} does not fit {dtype}",
                code=ErrorCode.ATTRIBUTE_INVALID,
                hint=f"give zero points from {low} to {high}",
            )

    @property
    def is_per_axis(self) -> bool:
        """True if each index of `axis` has its own scale."""
        return self.axis is not None


class OpaqueLayout(NamedTuple):
    """Private storage of a tensor in one backend's substitution, such as a channel-blocked layout.

    Attributes:
        tag: The backend's own name for it; two tensors with the same tag, shape and dtype are laid
            out alike.
        nbytes: Bytes of storage.
        alignment: Bytes, a power of two.
    """

    tag: str
    nbytes: int
    alignment: int = 64

    def check(self) -> None:
        """Refuse storage that no machine has.

        Raises:
            GraphError: It is too large, or its alignment is none (`SHAPE_MISMATCH`).
        """
        nbytes, alignment = self.nbytes, self.alignment
        if type(nbytes) is not int or not 0 <= nbytes < ADDRESSABLE:
            found = f"{nbytes!r} bytes of storage"
        elif type(alignment) is not int or not 0 < alignment <= _LARGEST_ALIGNMENT or alignment & (alignment - 1):
            found = f"an alignment of {alignment!r}"
        else:
            return
        raise GraphError(
            f"the opaque layout {self.tag!r} has {found}",
            code=ErrorCode.SHAPE_MISMATCH,
            hint=f"give an int of bytes below {ADDRESSABLE}, aligned to a power of two up to {_LARGEST_ALIGNMENT}",
        )


class TensorInfo(NamedTuple):
    """Shape, element type and quantization of a tensor, on the output slot that produces it."""

    shape: tuple[Dimension, ...]
    dtype: DType
    quantization: Quantization | None = None
    opaque: OpaqueLayout | None = None

    @classmethod
    def of(
        cls, shape: Sequence[Dimension], dtype: DType | npt.DTypeLike = DType.FLOAT32, quantization: Quantization | None = None
    ) -> TensorInfo:
        """Build from anything shape-like and dtype-like.

        Raises:
            GraphError: A size is negative or neither an integer nor a name, or there are too many
                (`SHAPE_MISMATCH`).
        """
        try:
            dimensions = None if isinstance(shape, str | bytes) else tuple(shape)
        except TypeError:
            dimensions = None
        if dimensions is None:
            raise GraphError(
                f"shape is {shape!r} ({type(shape).__name__})",
                code=ErrorCode.ATTRIBUTE_INVALID,
                hint="give a sequence of sizes and names, such as (1, 3) or ('N', 3)",
            )
        return cls(tuple(_dimension(d) for d in dimensions), DType.of(dtype), quantization)

    @classmethod
    def of_array(cls, array: npt.NDArray[Any]) -> TensorInfo:
        """Describe a NumPy array."""
        return cls(tuple(array.shape), DType.of(array.dtype))

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def is_concrete(self) -> bool:
        """True if no dimension is symbolic."""
        for d in self.shape:  # noqa: SIM110  # a generator would take three times as long, and this is asked of every slot
            if type(d) is not int and not isinstance(d, int):
                return False
        return True

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape as integers; expressions pass for integers while symbols are inferred.

        Raises:
            GraphError: A dimension is still a name (`SHAPE_UNKNOWN`).
        """
        for d in self.shape:
            if type(d) is not int and not isinstance(d, int | Expression):
                raise GraphError(
                    f"dimension {d!r} of shape {self.shape_text} is symbolic",
                    code=ErrorCode.SHAPE_UNKNOWN,
                    hint=f"fix it: give shapes={{{d!r}: 1}} to dovetail.load or dovetail.optimize",
                    symbol=d,
                )
        return self.shape  # type: ignore[return-value]  # every element was just seen to be an int

    @property
    def elements(self) -> int:
        """Number of elements; 1 for a scalar."""
        return math.prod(self.sizes)

    @property
    def nbytes(self) -> int:
        """Bytes of storage."""
        return self.opaque.nbytes if self.opaque else self.elements * self.dtype.itemsize

    @property
    def shape_text(self) -> str:
        """The shape as printed to people: [N, 3, 224, 224]."""
        more = f", ... {len(self.shape) - MAX_RANK} more" if len(self.shape) > MAX_RANK else ""
        return "[" + ", ".join(shown(d) if isinstance(d, int) else str(d) for d in self.shape[:MAX_RANK]) + more + "]"

    def check(self) -> None:
        """Refuse sizes that no tensor has or no machine can hold, and unfit quantizations.

        A quantization has to fit type and shape.

        The graph asks this of every info, whoever inferred it, so that nobody behind it meets a
        size that is negative, or one whose bytes or strides overflow 64 bits. An empty tensor has
        strides as well: its other sizes count.

        Raises:
            GraphError: A size is negative or no plain integer, there are too many axes, or the
                tensor is too large (`SHAPE_MISMATCH`); a zero point or the axis of a quantization
                is out of range (`ATTRIBUTE_INVALID`), or there is not one scale per index of the
                axis (`SHAPE_MISMATCH`).
        """
        nbytes = self.dtype.itemsize
        if type(self.shape) is not tuple:
            raise self._bad_size(self.shape)
        if len(self.shape) > MAX_RANK:
            raise GraphError(
                f"a tensor would have {len(self.shape)} axes",
                code=ErrorCode.SHAPE_MISMATCH,
                hint=f"a tensor has at most {MAX_RANK}, as a NumPy array has; reshape it",
            )
        for d in self.shape:
            if type(d) is int:
                if d > 0:
                    nbytes *= d
                elif d < 0:
                    raise self._bad_size(d)
            elif type(d) is Expression:
                if d.high < 0:
                    raise self._bad_size(d)
            elif type(d) is not str:
                raise self._bad_size(d)
        if nbytes >= ADDRESSABLE:
            raise GraphError(
                f"a tensor {self} would take {shown(nbytes)} bytes" + (", were it not empty" if 0 in self.shape else ""),
                code=ErrorCode.SHAPE_MISMATCH,
                hint=f"no tensor can reach {ADDRESSABLE} bytes, nor an axis that many elements; check the sizes in the model",
            )
        if self.quantization is not None:
            self.quantization.check(self.dtype)
            self.quantization.check_axis(self)
        if self.opaque is not None:
            self.opaque.check()

    def _bad_size(self, size: Any) -> GraphError:
        found = shown(size) if type(size) is int else f"{size!r} ({type(size).__name__})"
        return GraphError(
            f"a tensor {self} would have the size {found}",
            code=ErrorCode.SHAPE_MISMATCH,
            hint="a size is an int that is not negative, or the name of a symbolic size; check the sizes in the model",
        )

    def with_shape(self, shape: Sequence[Dimension]) -> TensorInfo:
        """Return the same with another shape."""
        return self._replace(shape=tuple(shape), opaque=None)

    def reshaped(self, shape: Sequence[int]) -> TensorInfo:
        """Return the same elements in row-major order under another shape.

        The axis of a quantization is where it is then.

        Raises:
            GraphError: It is not there (`SHAPE_MISMATCH`).
        """
        quantization = self.quantization
        if quantization is not None and quantization.axis is not None:
            quantization = quantization.reshaped(self.sizes, shape)
        return TensorInfo(tuple(shape), self.dtype, quantization)

    def with_dtype(self, dtype: DType) -> TensorInfo:
        """Return the same shape with another dtype, unquantized."""
        return TensorInfo(self.shape, dtype)

    def with_quantization(self, quantization: Quantization | None) -> TensorInfo:
        """Return the same with another quantization."""
        return TensorInfo(self.shape, self.dtype, quantization, self.opaque)

    def with_opaque(self, opaque: OpaqueLayout | None) -> TensorInfo:
        """Return the same in private storage, or None: as the shape says."""
        return self._replace(opaque=opaque)

    def __str__(self) -> str:
        return f"{self.dtype}{self.shape_text}"


def _dimension(value: Any) -> Dimension:
    if type(value) is Expression or (isinstance(value, str) and value):
        return value
    try:
        size = operator.index(value)
    except (TypeError, ValueError):
        size = -1
    if size < 0 or isinstance(value, bool):
        raise GraphError(
            f"{shown(value) if isinstance(value, int) else repr(value)} is not a dimension",
            code=ErrorCode.SHAPE_MISMATCH,
            hint="give a non-negative integer, or a name for a symbolic size",
        )
    return size
