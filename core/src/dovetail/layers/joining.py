"""Kinds that join, part and pad tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import ClassVar

import numpy as np

from ..graph.descriptor import Array, Descriptor, Infos, Selection, Values, descriptor_class
from ..graph.element_types import DType
from ..graph.expressions import unknown_integer
from ..graph.graph import Graph
from ..graph.layer import OutputSlot
from ..graph.size_rules import are_symbolic, as_size, below, differ, larger, shapes_differ, smaller, some_below
from ..graph.tensor import TensorInfo
from ..ground.pieces import PIECE, copied, put
from .arguments import Operand, as_tuple, choice, integer, sequence
from .shape_rules import (
    attribute_error,
    integers,
    known,
    normalize_axes,
    normalize_axis,
    present,
    require_positive,
    require_representable,
    require_same_dtype,
    shape_error,
)


@descriptor_class
class _Joining(Selection):
    """What joins any number of tensors of one element type."""

    input_names: ClassVar[tuple[str, ...]] = ("inputs",)
    variadic: ClassVar[bool] = True

    def _joined_infos(self, inputs: Infos) -> tuple[list[TensorInfo], DType]:
        """Return the infos of what is joined, all there, and their element type."""
        infos = [present(inputs, i) for i in range(len(inputs))]
        return infos, require_same_dtype(infos)


@descriptor_class
class Concat(_Joining, kind="dovetail.Concat"):
    """Join tensors along an axis; the other sizes agree."""

    axis: int = 0
    """Along which the tensors are joined."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        infos, dtype = self._joined_infos(inputs)
        first = infos[0]
        axis = normalize_axis(self.axis, first.rank)
        for info in infos:
            if info.rank != first.rank or any(
                differ(a, b) for i, (a, b) in enumerate(zip(info.shape, first.shape, strict=True)) if i != axis
            ):
                raise shape_error(
                    f"{first.shape_text} and {info.shape_text} cannot be joined along axis {axis}", "the other sizes must agree"
                )
        total = sum(info.sizes[axis] for info in infos)
        shape = (*first.sizes[:axis], total, *first.sizes[axis + 1 :])
        shared = first.quantization if all(i.quantization == first.quantization for i in infos) else None
        return [TensorInfo(shape, dtype, shared)]

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        arrays = known(values)
        return None if arrays is None else [_joined(arrays, normalize_axis(self.axis, arrays[0].ndim))]


@descriptor_class
class Stack(_Joining, kind="dovetail.Stack"):
    """Join tensors of one shape along a new axis."""

    axis: int = 0
    """Where the new axis stands in the result."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        infos, dtype = self._joined_infos(inputs)
        first = infos[0]
        axis = normalize_axis(self.axis, first.rank + 1)
        for info in infos:
            if shapes_differ(info.shape, first.shape):
                raise shape_error(f"{first.shape_text} and {info.shape_text} cannot be stacked", "the shapes must be equal")
        return [TensorInfo((*first.sizes[:axis], len(infos), *first.sizes[axis:]), dtype, first.quantization)]

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        arrays = known(values)
        if arrays is None:
            return None
        axis = normalize_axis(self.axis, arrays[0].ndim + 1)
        return [_joined([np.expand_dims(array, axis) for array in arrays], axis)]


@descriptor_class
class Split(Selection, kind="dovetail.Split"):
    """Part a tensor along an axis into `parts` outputs.

    They are of the given sizes, or as equal as can be, the last smaller.

    Value input: sizes.
    """

    input_names: ClassVar[tuple[str, ...]] = ("input", "sizes")
    value_inputs: ClassVar[tuple[int, ...]] = (1,)
    parts: int
    """How many outputs there are."""
    axis: int = 0
    """Which is parted."""
    sizes: tuple[int, ...] | None = None
    """Of the parts along the axis; None: as equal as can be, the last smaller."""

    @property
    def output_count(self) -> int:
        return self.parts

    def resolve(self, inputs: Infos, values: Values) -> Descriptor:
        sizes = integers(values, 1, maximum=self.parts)
        return self if sizes is None else replace(self, sizes=sizes)

    def part_sizes(self, size: int) -> tuple[int, ...]:
        """Sizes of the parts of an axis of this size."""
        require_positive("parts", self.parts)
        sizes = self.sizes
        if sizes is None:
            chunk = -(-size // self.parts)
            sizes = tuple(larger(0, smaller(chunk, size - i * chunk)) for i in range(self.parts))
        if len(sizes) != self.parts or differ(sum(sizes), size) or some_below(sizes, 0):
            raise shape_error(f"sizes {sizes} do not part {size} elements into {self.parts}")
        return sizes

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        axis = normalize_axis(self.axis, x.rank)
        parts = self.part_sizes(x.sizes[axis])
        return [x.with_shape((*x.sizes[:axis], as_size(s), *x.sizes[axis + 1 :])) for s in parts]

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        x = values[0]
        if x is None:
            return None
        sizes = self.part_sizes(x.shape[normalize_axis(self.axis, x.ndim)])
        return list(np.split(x, np.cumsum(sizes)[:-1], axis=self.axis))


class PadMode(StrEnum):
    """What stands beyond the edge."""

    CONSTANT = "constant"
    EDGE = "edge"  # a a | a b c | c c
    REFLECT = "reflect"  # c b | a b c | b a
    SYMMETRIC = "symmetric"  # b a | a b c | c b
    WRAP = "wrap"  # b c | a b c | a b


@descriptor_class
class Pad(Selection, kind="dovetail.Pad"):
    """Add elements before and after each axis.

    Negative counts remove some (constant mode), at most all that there are.

    `before` and `after` have one count per axis of the input. Value inputs: pads (all before, then
    all after; for the axes in `axes` alone if that is given), value (scalar), axes.
    """

    input_names: ClassVar[tuple[str, ...]] = ("input", "pads", "value", "axes")
    value_inputs: ClassVar[tuple[int, ...]] = (1, 2, 3)
    before: tuple[int, ...] = ()
    """Elements added before each axis of the input; a negative count removes some."""
    after: tuple[int, ...] = ()
    """Elements added after each axis of the input; a negative count removes some."""
    mode: PadMode = PadMode.CONSTANT
    """What the added elements are."""
    value: float | int | bool = 0
    """Of the elements that the mode `constant` adds."""

    def resolve(self, inputs: Infos, values: Values) -> Descriptor:
        if len(values) < 2:
            return self
        x = present(inputs, 0)
        pads, value, axes = integers(values, 1), values[2] if len(values) > 2 else None, integers(values, 3)
        if axes is not None and are_symbolic(axes):
            return replace(self, before=_unknown_pads(x.rank), after=_unknown_pads(x.rank))
        named = normalize_axes(range(x.rank) if axes is None else axes, x.rank)
        before, after = list(self.before or (0,) * x.rank), list(self.after or (0,) * x.rank)
        if not len(before) == len(after) == x.rank:
            raise attribute_error(f"pads {self.before} and {self.after} do not fit {x.shape_text}", f"give {x.rank} of each")
        if pads is not None:
            if len(pads) != 2 * len(named):
                raise shape_error(f"{len(pads)} pads for {len(named)} axes", "give one before and one after for each axis")
            for i, axis in enumerate(named):
                before[axis], after[axis] = pads[i], pads[i + len(named)]
        fill = self.value if value is None or value.size == 0 or are_symbolic(value.flat) else value.reshape(-1)[0].item()
        return replace(self, before=tuple(before), after=tuple(after), value=fill)

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        if len(self.before) != x.rank or len(self.after) != x.rank:
            raise attribute_error(f"pads {self.before} and {self.after} do not fit {x.shape_text}", f"give {x.rank} of each")
        shape = [b + d + a for b, d, a in zip(self.before, x.sizes, self.after, strict=True)]
        removed = [smaller(b, a) + d for b, d, a in zip(self.before, x.sizes, self.after, strict=True)]
        if some_below(shape, 0) or some_below(removed, 0):
            raise shape_error(f"pads {self.before} and {self.after} remove more than {x.shape_text} has")
        for axis, (b, a, d) in enumerate(zip(self.before, self.after, x.sizes, strict=True)):
            limit = _max_padding(self.mode, d)
            if limit is not None and below(limit, larger(b, a)):
                raise shape_error(f"{self.mode} padding {b}, {a} of axis {axis} needs more than its {d} elements")
        require_representable(self.value, x.dtype, "value")
        return [x.with_shape([as_size(size) for size in shape])]

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        x = values[0]
        if x is None or self.mode is not PadMode.CONSTANT or min((*self.before, *self.after), default=0) < 0:
            return None
        if x.ndim == 0:
            return [x]
        axes = list(zip(self.before, x.shape, self.after, strict=True))
        made = copied(np.broadcast_to(np.asarray(self.value, x.dtype), [sum(axis) for axis in axes]))
        put(made[tuple(slice(before, before + size) for before, size, _ in axes)], x)
        return [made]


def _joined(arrays: Sequence[Array], axis: int) -> Array:
    """Join arrays along an axis."""
    if sum(array.size for array in arrays) <= PIECE:
        return np.concatenate(arrays, axis=axis)
    shape = list(arrays[0].shape)
    shape[axis] = sum(array.shape[axis] for array in arrays)
    made, begin = np.empty(shape, arrays[0].dtype), 0
    for array in arrays:
        end = begin + array.shape[axis]
        put(made[(*(slice(None),) * axis, slice(begin, end))], array)
        begin = end
    return made


def _unknown_pads(rank: int) -> tuple[int, ...]:
    return tuple(unknown_integer() for _ in range(rank))


def _max_padding(mode: PadMode, size: int) -> int | None:
    """Return how many elements can stand beyond each edge of an axis; None: any number.

    Of an empty axis none is repeated.
    """
    if mode is PadMode.REFLECT:
        return larger(size - 1, 0)
    if mode is PadMode.SYMMETRIC:
        return size
    return 0 if mode is not PadMode.CONSTANT and below(size, 1) else None


def _parts(tensors: Sequence[Operand]) -> tuple[Operand, ...]:
    parts = sequence(tensors, "tensors")
    if not parts:
        raise attribute_error("tensors is empty", "give at least one")
    return parts


class JoiningLayers(Graph):
    """Builder methods."""

    def concat(self, tensors: Sequence[Operand], axis: int = 0, *, name: str | None = None) -> OutputSlot:
        """Join tensors along an axis."""
        return self.add(Concat(axis=integer(axis, "axis")), *_parts(tensors), name=name).output

    def stack(self, tensors: Sequence[Operand], axis: int = 0, *, name: str | None = None) -> OutputSlot:
        """Join tensors along a new axis."""
        return self.add(Stack(axis=integer(axis, "axis")), *_parts(tensors), name=name).output

    def split(
        self,
        x: Operand,
        parts: int,
        axis: int = 0,
        *,
        sizes: Sequence[int] | OutputSlot | None = None,
        name: str | None = None,
    ) -> tuple[OutputSlot, ...]:
        """Part a tensor along an axis."""
        require_positive("parts", integer(parts, "parts"))
        if isinstance(sizes, OutputSlot):
            return tuple(
                self.add(Split(parts=integer(parts, "parts"), axis=integer(axis, "axis")), x, sizes, name=name).outputs
            )
        return tuple(
            self.add(
                Split(parts=integer(parts, "parts"), axis=integer(axis, "axis"), sizes=as_tuple(sizes, "sizes")), x, name=name
            ).outputs
        )

    def pad(
        self,
        x: Operand,
        before: Sequence[int],
        after: Sequence[int],
        *,
        mode: PadMode | str = PadMode.CONSTANT,
        value: float | int | bool = 0,
        name: str | None = None,
    ) -> OutputSlot:
        """Add elements before and after each axis."""
        descriptor = Pad(
            before=as_tuple(before, "before") or (),
            after=as_tuple(after, "after") or (),
            mode=choice(PadMode, mode, "mode"),
            value=value,
        )
        return self.add(descriptor, x, name=name).output
