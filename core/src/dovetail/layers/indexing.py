"""Kinds that pick elements by position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import ClassVar

import numpy as np

from ..graph.descriptor import Array, Descriptor, Infos, Selection, Values, descriptor_class
from ..graph.expressions import unknown_size
from ..graph.graph import Graph
from ..graph.layer import OutputSlot
from ..graph.size_rules import (
    are_symbolic,
    below,
    differ,
    equal,
    holds_zero,
    larger,
    shapes_differ,
    smaller,
)
from ..graph.tensor import Quantization, TensorInfo
from ..ground.pieces import PIECE, Region, assembled, copied, holds
from .arguments import Operand, as_tuple, choice, integer
from .shape_rules import (
    INDEX_DTYPES,
    attribute_error,
    integers,
    normalize_axes,
    normalize_axis,
    present,
    require_dtype,
    require_same_dtype,
    shape_error,
)


def _inside(values: Values, size: int) -> bool:
    """Say whether positions are known, and all in range."""
    positions = values[1]
    return positions is not None and holds(lambda part: (part >= -size) & (part < size), positions)


def _require_untouched(quantization: Quantization, axis: int, picked: int | None) -> None:
    """Refuse to pick along the axis of a quantization.

    The elements would have other scales than their places.
    """
    if axis == picked:
        raise shape_error(
            f"elements are picked along axis {axis}, each index of which has one of {len(quantization.scale)} scales",
            "dequantize before it",
        )


def _require_positions(result: TensorInfo, sizes: Sequence[int], x: TensorInfo) -> TensorInfo:
    """Refuse axes without an element from which some are picked: every run would fail."""
    if holds_zero(sizes) and differ(result.elements, 0):
        raise shape_error(
            f"{result.shape_text} is picked from {x.shape_text}, and no index is in range for an axis of size 0",
            "use an input with elements, or no indices",
        )
    return result


@descriptor_class
class StridedSlice(Selection, kind="dovetail.StridedSlice"):
    """x[begin:end:stride] along some axes, by Python's rules.

    Negative positions count from the end, ends are clamped.

    A stride longer than its axis gives one element: `ranges` clamps it, so that no position times a
    stride overflows.

    `axes` None means the first ones; `stride` None means 1. Value inputs: begin, end, axes, stride.
    """

    input_names: ClassVar[tuple[str, ...]] = ("input", "begin", "end", "axes", "stride")
    value_inputs: ClassVar[tuple[int, ...]] = (1, 2, 3, 4)
    begin: tuple[int, ...] = ()
    """First position for each axis in `axes`."""
    end: tuple[int, ...] = ()
    """Position behind the last for each axis in `axes`."""
    axes: tuple[int, ...] | None = None
    """Axes that are cut; None: the first ones."""
    stride: tuple[int, ...] | None = None
    """Step for each axis in `axes`, negative ones go backward; None: 1."""

    def resolve(self, inputs: Infos, values: Values) -> Descriptor:
        if len(values) < 2:
            return self
        given = [integers(values, i) for i in range(1, 5)]
        return replace(self, begin=given[0] or (), end=given[1] or (), axes=given[2], stride=given[3])

    def ranges(self, shape: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
        """(first position, step, count) for every axis of an input of this shape."""
        axes = normalize_axes(range(len(self.begin)) if self.axes is None else self.axes, len(shape))
        strides = (1,) * len(axes) if self.stride is None else self.stride
        if not len(self.begin) == len(self.end) == len(axes) == len(strides):
            raise attribute_error(f"begin {self.begin}, end {self.end}, axes {axes} and stride {strides} differ in length")
        if 0 in strides:
            raise attribute_error("a stride is 0", "positive strides go forward, negative ones backward")
        result = [(0, 1, size) for size in shape]
        for axis, begin, end, stride in zip(axes, self.begin, self.end, strides, strict=True):
            size = max(shape[axis], 1)
            step = max(-size, min(stride, size))
            positions = range(*slice(begin, end, step).indices(shape[axis]))
            result[axis] = (positions.start if len(positions) else 0, step, len(positions))
        return tuple(result)

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        if not x.is_concrete or are_symbolic((*self.begin, *self.end, *(self.axes or ()), *(self.stride or ()))):
            return [x.with_shape(self._symbolic_sizes(x.sizes)).with_quantization(self._kept(x.quantization))]
        ranges = self.ranges(x.sizes)
        if x.quantization is not None and x.quantization.axis is not None:
            axis = normalize_axis(x.quantization.axis, x.rank)
            _require_untouched(x.quantization, axis, axis if ranges[axis] != (0, 1, x.sizes[axis]) else None)
        return [x.with_shape([count for _, _, count in ranges])]

    def _symbolic_sizes(self, sizes: Sequence[int]) -> list[int]:
        """Return the result's sizes where some are symbolic, or a slice is bounded by a symbol."""
        axes = tuple(range(len(self.begin))) if self.axes is None else self.axes
        strides = (1,) * len(axes) if self.stride is None else self.stride
        if are_symbolic(axes):
            return [unknown_size() for _ in sizes]
        result = list(sizes)
        for axis, begin, end, stride in zip(normalize_axes(axes, len(sizes)), self.begin, self.end, strides, strict=True):
            result[axis] = _sliced(sizes[axis], begin, end, stride)
        return result

    def _kept(self, quantization: Quantization | None) -> Quantization | None:
        """Return a quantization that no slice cuts through."""
        if quantization is not None and quantization.axis is not None:
            raise shape_error(
                "elements are picked from a tensor with one scale for each index of an axis", "dequantize before it"
            )
        return quantization

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        x = values[0]
        if x is None:
            return None
        ranges = self.ranges(x.shape)
        # A range that goes backwards to the first element ends before it, for which a slice has no
        # number.
        ends = (None if first + step * count < 0 else first + step * count for first, step, count in ranges)
        index = tuple(slice(first, end, step) for (first, step, _), end in zip(ranges, ends, strict=True))
        return [copied(x[index]) if index else x]


@descriptor_class
class _Picking(Selection):
    """What picks elements of an input by indices."""

    input_names: ClassVar[tuple[str, ...]] = ("input", "indices")
    required_inputs: ClassVar[int] = 2

    def _operands(self, inputs: Infos) -> tuple[TensorInfo, TensorInfo]:
        x, indices = present(inputs, 0), present(inputs, 1)
        require_dtype(indices, INDEX_DTYPES, "indices")
        return x, indices


@descriptor_class
class Gather(_Picking, kind="dovetail.Gather"):
    """Pick slices along an axis: the axis is replaced by the shape of `indices`.

    Negative indices count from the end.

    An index out of range fails the run. `batch_dims` leading axes of input and indices are walked
    together.
    """

    axis: int = 0
    """Of the input, along which slices are picked."""
    batch_dims: int = 0
    """Leading axes of input and indices that are walked together."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x, indices = self._operands(inputs)
        axis = normalize_axis(self.axis, x.rank)
        if not 0 <= self.batch_dims <= min(axis, indices.rank):
            raise attribute_error(f"batch_dims {self.batch_dims} does not fit axis {axis} and indices {indices.shape_text}")
        if shapes_differ(x.shape[: self.batch_dims], indices.shape[: self.batch_dims]):
            raise shape_error(f"input {x.shape_text} and indices {indices.shape_text} differ in the batch axes")
        shape = (*x.sizes[:axis], *indices.sizes[self.batch_dims :], *x.sizes[axis + 1 :])
        quantization = x.quantization
        if quantization is not None and quantization.axis is not None:
            scaled = normalize_axis(quantization.axis, x.rank)
            _require_untouched(quantization, scaled, axis)
            moved = scaled if scaled < axis else scaled + len(shape) - x.rank
            quantization = quantization.replaced(axis=moved)
        return [_require_positions(TensorInfo(shape, x.dtype, quantization), (x.sizes[axis],), x)]

    def checked_inputs(self, inputs: Infos, values: Values) -> Sequence[int]:
        x = present(inputs, 0)
        return () if _inside(values, x.sizes[normalize_axis(self.axis, x.rank)]) else (1,)

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        x, indices = values[0], values[1]
        if x is None or indices is None or self.batch_dims:
            return None
        axis = normalize_axis(self.axis, x.ndim)
        if not _inside(values, x.shape[axis]):
            return None
        lines = x.reshape(math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :]))
        positions, shape = indices.reshape(-1), (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
        if math.prod(shape) <= PIECE:
            return [np.take(x, indices, axis=axis)]

        def part(region: Region) -> Array:
            outer, picked, inner = region
            return lines[outer, :, inner].take(positions[picked], axis=1)

        return [assembled((len(lines), len(positions), lines.shape[2]), x.dtype, part).reshape(shape)]


@descriptor_class
class GatherElements(_Picking, kind="dovetail.GatherElements"):
    """output[i, j, k] = input[i, indices[i, j, k], k] for axis 1.

    Negative indices count from the end.
    """

    axis: int = 0
    """Of the input, along which the indices count."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x, indices = self._operands(inputs)
        axis = normalize_axis(self.axis, x.rank)
        fits = indices.rank == x.rank and all(i == axis or not below(x.sizes[i], n) for i, n in enumerate(indices.sizes))
        if not fits:
            raise shape_error(f"indices {indices.shape_text} do not fit the input {x.shape_text} beside axis {axis}")
        return [_require_positions(x.with_shape(indices.sizes), (x.sizes[axis],), x)]

    def checked_inputs(self, inputs: Infos, values: Values) -> Sequence[int]:
        x = present(inputs, 0)
        return () if _inside(values, x.sizes[normalize_axis(self.axis, x.rank)]) else (1,)


@descriptor_class
class GatherNd(_Picking, kind="dovetail.GatherNd"):
    """Pick by positions into the leading axes of the input (after `batch_dims`).

    The last axis of `indices` holds the positions.
    """

    batch_dims: int = 0
    """Leading axes of input and indices that are walked together."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x, indices = self._operands(inputs)
        b = self.batch_dims
        if indices.rank < 1 or b < 0 or b >= min(x.rank, indices.rank) or shapes_differ(x.sizes[:b], indices.sizes[:b]):
            raise shape_error(f"indices {indices.shape_text} do not fit the input {x.shape_text} with {b} batch axes")
        depth = indices.sizes[-1]
        if not 1 <= depth <= x.rank - b:
            raise shape_error(f"indices {indices.shape_text} address {depth} axes of {x.rank - b}")
        result = x.with_shape((*indices.sizes[:-1], *x.sizes[b + depth :]))
        return [_require_positions(result, x.sizes[b : b + depth], x)]

    def checked_inputs(self, inputs: Infos, values: Values) -> Sequence[int]:
        return (1,)


class ScatterReduction(StrEnum):
    """How an update meets what is there."""

    NONE = "none"
    ADD = "add"
    MUL = "mul"
    MAX = "max"
    MIN = "min"


@descriptor_class
class _Scattering(Descriptor):
    """What puts updates into a copy of an input by indices."""

    input_names: ClassVar[tuple[str, ...]] = ("input", "indices", "updates")
    required_inputs: ClassVar[int] = 3

    def _operands(self, inputs: Infos) -> tuple[TensorInfo, TensorInfo, TensorInfo]:
        x, indices, updates = (present(inputs, i) for i in range(3))
        require_dtype(indices, INDEX_DTYPES, "indices")
        require_same_dtype([x, updates], "input and updates")
        return x, indices, updates


@descriptor_class
class ScatterElements(_Scattering, kind="dovetail.ScatterElements"):
    """A copy of the input with output[i, indices[i, j, k], k] = updates[i, j, k] for axis 1."""

    axis: int = 0
    """Of the input, along which the indices count."""
    reduction: ScatterReduction = ScatterReduction.NONE
    """How an update meets what is there."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x, indices, updates = self._operands(inputs)
        axis = normalize_axis(self.axis, x.rank)
        if shapes_differ(indices.shape, updates.shape) or indices.rank != x.rank:
            raise shape_error(f"indices {indices.shape_text}, updates {updates.shape_text} and input {x.shape_text} do not fit")
        if any(below(x.sizes[i], n) for i, n in enumerate(indices.sizes) if i != axis):
            raise shape_error(f"indices {indices.shape_text} are larger than the input {x.shape_text} beside axis {axis}")
        return [x]

    def checked_inputs(self, inputs: Infos, values: Values) -> Sequence[int]:
        x = present(inputs, 0)
        return () if _inside(values, x.sizes[normalize_axis(self.axis, x.rank)]) else (1,)

    def selects_elements(self) -> bool:
        return self.reduction is ScatterReduction.NONE


@descriptor_class
class ScatterNd(_Scattering, kind="dovetail.ScatterNd"):
    """A copy of the input with slices replaced: the last axis of `indices` addresses them."""

    reduction: ScatterReduction = ScatterReduction.NONE
    """How an update meets what is there."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x, indices, updates = self._operands(inputs)
        depth = indices.sizes[-1] if indices.rank else 0
        if are_symbolic((depth,)):
            return [x]
        if not 1 <= depth <= x.rank or shapes_differ(updates.sizes, (*indices.sizes[:-1], *x.sizes[depth:])):
            raise shape_error(f"indices {indices.shape_text}, updates {updates.shape_text} and input {x.shape_text} do not fit")
        return [x]

    def checked_inputs(self, inputs: Infos, values: Values) -> Sequence[int]:
        return (1,)

    def selects_elements(self) -> bool:
        return self.reduction is ScatterReduction.NONE


_TO_THE_END = 2**31 - 1
"""The end of a slice that stands for the end of the axis.

Exporters write it, or what 64 bits hold, where no size is known.
"""


def _sliced(size: int, begin: int, end: int, stride: int) -> int:
    """Return how many elements a slice has.

    A slice of which the sign of a position or stride is not known may have any number.
    """
    if are_symbolic((stride,)) or stride == 0:
        return unknown_size()
    if not are_symbolic((size, begin, end)):
        return len(range(size)[slice(begin, end, stride)])
    if stride < 0:
        is_whole = not are_symbolic((begin, end)) and (begin == -1 or begin >= _TO_THE_END) and end <= -_TO_THE_END
        return -(-size // -stride) if is_whole else unknown_size()
    first, last = _position(begin, size), size if equal(larger(end, _TO_THE_END), end) else _position(end, size)
    if first is None or last is None:
        return unknown_size()
    count = larger(last - first, 0)
    if last is size:  # written shorter than what the clamped position gives
        count = smaller(size, -begin) if below(begin, 0) else larger(size - begin, 0)
    return -(-count // stride)


def _position(position: int, size: int) -> int | None:
    """Return where a slice begins or ends on an axis, clamped to it.

    None if the sign of what is given is not known.
    """
    if below(position, 0):
        return larger(size + position, 0)
    return None if not below(-1, position) else smaller(position, size)


class IndexingLayers(Graph):
    """Builder methods."""

    def slice(self, x: Operand, begin: Sequence[int], size: Sequence[int], *, name: str | None = None) -> OutputSlot:
        """`size` elements from `begin` on, for every axis; a size of -1 goes to the end."""
        first, counts = as_tuple(begin, "begin") or (), as_tuple(size, "size") or ()
        if len(first) != len(counts):
            raise attribute_error(f"begin {first} and size {counts} differ in length", "give one of each for every axis")
        end = tuple(2**31 - 1 if s == -1 else b + s for b, s in zip(first, counts, strict=True))
        return self.strided_slice(x, first, end, name=name or "slice")

    def strided_slice(
        self,
        x: Operand,
        begin: Sequence[int] | OutputSlot,
        end: Sequence[int] | OutputSlot,
        *,
        axes: Sequence[int] | OutputSlot | None = None,
        stride: Sequence[int] | OutputSlot | None = None,
        name: str | None = None,
    ) -> OutputSlot:
        """x[begin:end:stride] along axes; each may be a slot whose value is known later."""
        given = (begin, end, axes, stride)
        if any(isinstance(v, OutputSlot) for v in given):
            operands = [v if v is None or isinstance(v, OutputSlot) else np.asarray(v, np.int64) for v in given]
            return self.add(StridedSlice(), x, *operands, name=name).output
        descriptor = StridedSlice(
            begin=as_tuple(begin, "begin") or (),  # type: ignore[arg-type]  # no slot is left here
            end=as_tuple(end, "end") or (),  # type: ignore[arg-type]
            axes=as_tuple(axes, "axes"),  # type: ignore[arg-type]
            stride=as_tuple(stride, "stride"),  # type: ignore[arg-type]
        )
        return self.add(descriptor, x, name=name).output

    def gather(
        self, x: Operand, indices: Operand, axis: int = 0, *, batch_dims: int = 0, name: str | None = None
    ) -> OutputSlot:
        """Pick slices along an axis."""
        return self.add(
            Gather(axis=integer(axis, "axis"), batch_dims=integer(batch_dims, "batch_dims")), x, indices, name=name
        ).output

    def gather_elements(self, x: Operand, indices: Operand, axis: int = 0, *, name: str | None = None) -> OutputSlot:
        """Pick single elements along an axis."""
        return self.add(GatherElements(axis=integer(axis, "axis")), x, indices, name=name).output

    def gather_nd(self, x: Operand, indices: Operand, *, batch_dims: int = 0, name: str | None = None) -> OutputSlot:
        """Pick slices by positions over several axes."""
        return self.add(GatherNd(batch_dims=integer(batch_dims, "batch_dims")), x, indices, name=name).output

    def scatter_elements(
        self,
        x: Operand,
        indices: Operand,
        updates: Operand,
        axis: int = 0,
        *,
        reduction: ScatterReduction | str = ScatterReduction.NONE,
        name: str | None = None,
    ) -> OutputSlot:
        """Copy with single elements replaced."""
        descriptor = ScatterElements(axis=integer(axis, "axis"), reduction=choice(ScatterReduction, reduction, "reduction"))
        return self.add(descriptor, x, indices, updates, name=name).output

    def scatter_nd(
        self,
        x: Operand,
        indices: Operand,
        updates: Operand,
        *,
        reduction: ScatterReduction | str = ScatterReduction.NONE,
        name: str | None = None,
    ) -> OutputSlot:
        """Copy with slices replaced."""
        return self.add(
            ScatterNd(reduction=choice(ScatterReduction, reduction, "reduction")), x, indices, updates, name=name
        ).output
