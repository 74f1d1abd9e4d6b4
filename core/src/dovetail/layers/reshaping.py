"""Kinds that change the shape and keep, or only repeat and reorder, the elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from ..graph.descriptor import Array, Descriptor, Infos, Selection, Values, descriptor_class
from ..graph.element_types import DType
from ..graph.expressions import Expression, unknown_size
from ..graph.graph import Graph
from ..graph.layer import OutputSlot
from ..graph.size_rules import are_symbolic, as_size, differ, equal, some_below
from ..graph.tensor import MAX_RANK, DataLayout, TensorInfo
from ..ground.limits import ADDRESSABLE
from ..ground.pieces import PIECE, Region, assembled, copied
from .arguments import Operand, as_tuple, choice, integer
from .shape_rules import (
    attribute_error,
    broadcast,
    integers,
    normalize_axes,
    normalize_axis,
    present,
    require_positive,
    require_rank,
    shape_error,
)


def _reshaped(infos: Infos, values: Values, info: TensorInfo) -> list[Array] | None:
    return None if values[0] is None else [values[0].reshape(info.sizes)]


@descriptor_class
class _FromValue(Selection):
    """Base of kinds whose second input is the value of the attribute of its name."""

    value_inputs: ClassVar[tuple[int, ...]] = (1,)

    def resolve(self, inputs: Infos, values: Values) -> Descriptor:
        value = integers(values, 1)
        return self if value is None else replace(self, **{self.input_names[1]: value})


@descriptor_class
class _SameElements(_FromValue):
    """Base of kinds that give an input another shape, and nothing else."""

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        return _reshaped(inputs, values, self.infer(inputs)[0])


@descriptor_class
class Reshape(_SameElements, kind="dovetail.Reshape"):
    """The same elements in row-major order under another shape; one -1 is worked out.

    Value input: shape.

    Attributes:
        zero_copies: A 0 in `shape` stands for the input's size at that position (ONNX without
            `allowzero`). A symbolic size there stands for itself, although it might become 0.
    """

    input_names: ClassVar[tuple[str, ...]] = ("input", "shape")
    shape: tuple[int, ...] | None = None
    """Wanted sizes; one may be -1, which is worked out."""
    zero_copies: bool = False

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        if self.shape is None:
            raise attribute_error("no target shape", "give the attribute or the input 'shape'")
        shape = list(self.shape)
        if self.zero_copies:
            shape = [x.sizes[i] if equal(d, 0) and i < x.rank else d for i, d in enumerate(shape)]
        if not x.is_concrete or are_symbolic(shape):
            return [x.reshaped(self._symbolic_sizes(x, shape))]
        if shape.count(-1) > 1 or any(d < -1 for d in shape):
            raise attribute_error(f"target shape {list(self.shape)} is not valid", "sizes >= 0, at most one -1")
        if -1 in shape:
            rest = math.prod(d for d in shape if d != -1)
            if rest and x.elements % rest == 0:
                shape[shape.index(-1)] = x.elements // rest
        if -1 in shape or math.prod(shape) != x.elements:
            raise shape_error(f"{x.shape_text} ({x.elements} elements) cannot take the shape {list(self.shape)}")
        return [x.reshaped(shape)]

    def _symbolic_sizes(self, x: TensorInfo, target: Sequence[int]) -> list[int]:
        """Return the sizes where some are symbolic.

        One that is -1, or may be, is what the others leave of the elements.
        """
        if sum(equal(d, -1) for d in target) > 1 or some_below(target, -1):
            raise attribute_error(f"target shape {list(target)} is not valid", "sizes >= 0, at most one -1")
        open_axes = [i for i, d in enumerate(target) if (d.low if isinstance(d, Expression) else d) < 0]
        shape = list(target)
        rest = math.prod(d for i, d in enumerate(target) if i not in open_axes)
        if len(open_axes) == 1 and not equal(rest, 0):
            shape[open_axes[0]] = as_size(x.elements // rest)
        elif len(open_axes) > 1:
            shape = [unknown_size() if i in open_axes else d for i, d in enumerate(target)]
        elif open_axes or differ(rest, x.elements):
            raise shape_error(f"{x.shape_text} ({x.elements} elements) cannot take the shape {list(target)}")
        return shape


@descriptor_class
class ExpandDims(_SameElements, kind="dovetail.ExpandDims"):
    """Insert axes of size one, at these positions of the result. Value input: axes."""

    input_names: ClassVar[tuple[str, ...]] = ("input", "axes")
    axes: tuple[int, ...] | None = None
    """Positions in the result of the axes that are inserted."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        if self.axes is None:
            raise attribute_error("no axes given")
        if x.rank + len(self.axes) > MAX_RANK:
            raise attribute_error(f"{len(self.axes)} axes more for {x.shape_text}", f"a tensor has at most {MAX_RANK}")
        if are_symbolic(self.axes):
            return [x.with_shape([unknown_size() for _ in range(x.rank + len(self.axes))])]
        axes = normalize_axes(self.axes, x.rank + len(self.axes))
        sizes = iter(x.sizes)
        return [x.reshaped([1 if i in axes else next(sizes) for i in range(x.rank + len(axes))])]


@descriptor_class
class Squeeze(_SameElements, kind="dovetail.Squeeze"):
    """Remove axes of size one: these, or all of them. Value input: axes."""

    input_names: ClassVar[tuple[str, ...]] = ("input", "axes")
    axes: tuple[int, ...] | None = None
    """Axes that are removed; None: all of size one."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        if self.axes is None:
            return [x.reshaped([d for d in x.sizes if d != 1])]
        if are_symbolic(self.axes):
            return [x.with_shape([unknown_size() for _ in range(x.rank - len(self.axes))])]
        axes = normalize_axes(self.axes, x.rank)
        for axis in axes:
            if differ(x.sizes[axis], 1):
                raise shape_error(f"axis {axis} of {x.shape_text} has size {x.sizes[axis]}, not 1")
        return [x.reshaped([d for i, d in enumerate(x.sizes) if i not in axes])]


@descriptor_class
class Flatten(Selection, kind="dovetail.Flatten"):
    """Merge the axes before `axis` into one and those from it on into another."""

    axis: int = 1
    """First of the axes that become the second one; the rank of the input: none."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        if not -x.rank <= self.axis <= x.rank:
            raise attribute_error(f"axis {self.axis} is out of range for rank {x.rank}")
        axis = self.axis + x.rank if self.axis < 0 else self.axis
        return [x.reshaped((math.prod(x.sizes[:axis]), math.prod(x.sizes[axis:])))]

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        return _reshaped(inputs, values, self.infer(inputs)[0])


@descriptor_class
class Permute(Selection, kind="dovetail.Permute"):
    """Reorder axes: axis i of the result is input axis permutation[i]; None reverses them."""

    permutation: tuple[int, ...] | None = None
    """For each axis of the result the axis of the input; None: in reverse."""

    def order(self, rank: int) -> tuple[int, ...]:
        """The permutation for this rank."""
        return tuple(reversed(range(rank))) if self.permutation is None else normalize_axes(self.permutation, rank)

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        order = self.order(x.rank)
        if len(order) != x.rank:
            raise attribute_error(f"permutation {list(order)} does not fit {x.shape_text}", f"expected {x.rank} axes")
        quantization = x.quantization
        if quantization is not None and quantization.axis is not None:
            moved = order.index(normalize_axis(quantization.axis, x.rank))
            quantization = quantization.replaced(axis=moved)
        return [TensorInfo(tuple(x.sizes[i] for i in order), x.dtype, quantization)]

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        x = values[0]
        return None if x is None else [copied(x.transpose(self.order(x.ndim)))]


@descriptor_class
class BroadcastTo(_FromValue, kind="dovetail.BroadcastTo"):
    """Repeat along axes of size one until the shape is the broadcast of the input's and `shape`.

    Value input: shape.
    """

    input_names: ClassVar[tuple[str, ...]] = ("input", "shape")
    shape: tuple[int, ...] | None = None
    """The result has the broadcast of this and the shape of the input."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        if self.shape is None:
            raise attribute_error("no target shape")
        return [x.with_shape(broadcast(x.shape, self.shape))]

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        return None if values[0] is None else [copied(np.broadcast_to(values[0], self.infer(inputs)[0].sizes))]


@descriptor_class
class Tile(_FromValue, kind="dovetail.Tile"):
    """Repeat the whole tensor `repeats[i]` times along axis i. Value input: repeats."""

    input_names: ClassVar[tuple[str, ...]] = ("input", "repeats")
    repeats: tuple[int, ...] | None = None
    """How often the tensor is repeated along each axis."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        if self.repeats is None or len(self.repeats) != x.rank or some_below(self.repeats, 0):
            raise attribute_error(f"repeats {self.repeats} do not fit {x.shape_text}", f"give {x.rank} non-negative counts")
        if not x.is_concrete or are_symbolic(self.repeats):
            return [x.with_shape([d * as_size(r) for d, r in zip(x.sizes, self.repeats, strict=True)])]
        if max(self.repeats, default=0) >= ADDRESSABLE and 0 in x.sizes:  # else the result is refused, which is as large
            raise attribute_error(f"repeats {self.repeats} of the empty {x.shape_text}", f"give counts below {ADDRESSABLE}")
        return [x.with_shape([d * r for d, r in zip(x.sizes, self.repeats, strict=True)])]

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        x, repeats = values[0], self.repeats
        if x is None or repeats is None:
            return None
        shape = self.infer(inputs)[0].sizes
        if math.prod(shape) <= PIECE:
            return [np.tile(x, repeats)]

        def part(region: Region) -> Array:
            """Cut out of the tensor what one piece repeats, then repeat it."""
            ranges = [one.indices(size)[:2] for one, size in zip(region, shape, strict=True)]
            one_copy = [begin // size == (end - 1) // size for (begin, end), size in zip(ranges, x.shape, strict=True)]
            made = x[
                tuple(
                    slice(begin % size, (end - 1) % size + 1) if whole else slice(None)
                    for (begin, end), size, whole in zip(ranges, x.shape, one_copy, strict=True)
                )
            ]
            for axis in sorted((i for i, whole in enumerate(one_copy) if not whole), key=lambda i: repeats[i]):
                made = made.take(np.arange(*ranges[axis]) % x.shape[axis], axis=axis)
            return made

        return [assembled(shape, x.dtype, part)]


@descriptor_class
class Shape(Selection, kind="dovetail.Shape"):
    """The input's sizes from axis `start` to before `end`, as int64.

    Known as soon as shapes are, so always folded.
    """

    start: int = 0
    """First axis whose size is given."""
    end: int | None = None
    """Axis behind the last one; None: all from `start` on."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        return [TensorInfo((len(present(inputs, 0).shape[self.start : self.end]),), DType.INT64)]

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        sizes = present(inputs, 0).sizes[self.start : self.end]
        return [np.asarray(sizes, object if are_symbolic(sizes) else np.int64)]


@descriptor_class
class SpaceToDepth(Selection, kind="dovetail.SpaceToDepth"):
    """Move blocks of block x block pixels to channels: output channel (dy * block + dx) * C + c."""

    block: int
    """Height and width of a block in pixels."""
    layout: DataLayout = DataLayout.NCHW
    """Order of the axes of an image; weights follow it."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        require_rank(x, 4, "input")
        require_positive("block", self.block)
        h, w = (x.sizes[a] for a in self.layout.spatial_axes())
        if differ(h % self.block, 0) or differ(w % self.block, 0):
            raise shape_error(f"{h} x {w} pixels do not divide into blocks of {self.block}")
        n, c = x.sizes[0], x.sizes[self.layout.channel_axis] * self.block**2
        h, w = h // self.block, w // self.block
        return [x.with_shape((n, c, h, w) if self.layout is DataLayout.NCHW else (n, h, w, c))]


@descriptor_class
class DepthToSpace(Selection, kind="dovetail.DepthToSpace"):
    """Move channels into blocks of block x block pixels: the inverse of `SpaceToDepth`.

    With `column_first` the input channel is c * block^2 + dy * block + dx (ONNX CRD, PyTorch pixel
    shuffle).
    """

    block: int
    """Height and width of a block in pixels."""
    column_first: bool = False
    """Input channel c * block^2 + dy * block + dx; else (dy * block + dx) * C + c."""
    layout: DataLayout = DataLayout.NCHW
    """Order of the axes of an image; weights follow it."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        require_rank(x, 4, "input")
        require_positive("block", self.block)
        c = x.sizes[self.layout.channel_axis]
        if differ(c % self.block**2, 0):
            raise shape_error(f"{c} channels do not divide by {self.block} squared")
        h, w = (x.sizes[a] * self.block for a in self.layout.spatial_axes())
        n, c = x.sizes[0], c // self.block**2
        return [x.with_shape((n, c, h, w) if self.layout is DataLayout.NCHW else (n, h, w, c))]


class ReshapingLayers(Graph):
    """Builder methods; an output slot may stand for a shape or axes known later."""

    def reshape(
        self, x: Operand, shape: Sequence[int] | OutputSlot, *, zero_copies: bool = False, name: str | None = None
    ) -> OutputSlot:
        """The same elements under another shape; one -1 is worked out."""
        if isinstance(shape, OutputSlot):
            return self.add(Reshape(zero_copies=zero_copies), x, shape, name=name).output
        return self.add(Reshape(shape=as_tuple(shape, "shape"), zero_copies=zero_copies), x, name=name).output

    def expand_dims(self, x: Operand, axes: int | Sequence[int] | OutputSlot, *, name: str | None = None) -> OutputSlot:
        """Insert axes of size one."""
        if isinstance(axes, OutputSlot):
            return self.add(ExpandDims(), x, axes, name=name).output
        return self.add(ExpandDims(axes=as_tuple(axes, "axes")), x, name=name).output

    def squeeze(
        self, x: Operand, axes: int | Sequence[int] | OutputSlot | None = None, *, name: str | None = None
    ) -> OutputSlot:
        """Remove axes of size one."""
        if isinstance(axes, OutputSlot):
            return self.add(Squeeze(), x, axes, name=name).output
        return self.add(Squeeze(axes=as_tuple(axes, "axes")), x, name=name).output

    def flatten(self, x: Operand, axis: int = 1, *, name: str | None = None) -> OutputSlot:
        """Merge axes into two."""
        return self.add(Flatten(axis=integer(axis, "axis")), x, name=name).output

    def permute(self, x: Operand, permutation: Sequence[int] | None = None, *, name: str | None = None) -> OutputSlot:
        """Reorder axes; None reverses them."""
        return self.add(Permute(permutation=as_tuple(permutation, "permutation")), x, name=name).output

    def broadcast_to(self, x: Operand, shape: Sequence[int] | OutputSlot, *, name: str | None = None) -> OutputSlot:
        """Repeat along axes of size one."""
        if isinstance(shape, OutputSlot):
            return self.add(BroadcastTo(), x, shape, name=name).output
        return self.add(BroadcastTo(shape=as_tuple(shape, "shape")), x, name=name).output

    def tile(self, x: Operand, repeats: Sequence[int] | OutputSlot, *, name: str | None = None) -> OutputSlot:
        """Repeat the whole tensor along axes."""
        if isinstance(repeats, OutputSlot):
            return self.add(Tile(), x, repeats, name=name).output
        return self.add(Tile(repeats=as_tuple(repeats, "repeats")), x, name=name).output

    def shape_of(self, x: Operand, start: int = 0, end: int | None = None, *, name: str | None = None) -> OutputSlot:
        """The sizes of x, as an int64 tensor."""
        return self.add(
            Shape(start=integer(start, "start"), end=None if end is None else integer(end, "end")), x, name=name
        ).output

    def space_to_depth(
        self, x: Operand, block: int, *, layout: DataLayout | str = DataLayout.NCHW, name: str | None = None
    ) -> OutputSlot:
        """Move blocks of pixels into channels."""
        return self.add(
            SpaceToDepth(block=integer(block, "block"), layout=choice(DataLayout, layout, "layout")), x, name=name
        ).output

    def depth_to_space(
        self,
        x: Operand,
        block: int,
        *,
        column_first: bool = False,
        layout: DataLayout | str = DataLayout.NCHW,
        name: str | None = None,
    ) -> OutputSlot:
        """Move channels into blocks of pixels."""
        return self.add(
            DepthToSpace(block=integer(block, "block"), column_first=column_first, layout=choice(DataLayout, layout, "layout")),
            x,
            name=name,
        ).output
