"""Kinds that make their elements by position: one-hot rows, triangles, ranges, fills."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from ..graph.descriptor import Array, Descriptor, Infos, Values, descriptor_class
from ..graph.element_types import DType
from ..graph.expressions import unknown_size
from ..graph.graph import Graph
from ..graph.layer import OutputSlot
from ..graph.size_rules import (
    are_symbolic,
    as_size,
    below,
    larger,
    shapes_differ,
    some_below,
)
from ..graph.tensor import TensorInfo
from ..ground.pieces import PIECE, Region, assembled, copied
from .arguments import Operand, as_tuple, integer
from .shape_rules import (
    attribute_error,
    integers,
    normalize_axis,
    present,
    require_representable,
    require_same_dtype,
    shape_error,
)


@descriptor_class
class OneHot(Descriptor, kind="dovetail.OneHot"):
    """A new axis of size `depth` holding on (values[1]) at the index and off (values[0]) elsewhere.

    Indices in [-depth, depth); others give a row of off. Inputs: indices, depth (value), values
    [2].
    """

    input_names: ClassVar[tuple[str, ...]] = ("indices", "values", "depth")
    required_inputs: ClassVar[int] = 2
    value_inputs: ClassVar[tuple[int, ...]] = (2,)
    dtype_of: ClassVar[tuple[str, int]] = ("output", 0)
    depth: int = 0
    """Size of the new axis."""
    axis: int = -1
    """Where the new axis stands in the result."""

    def resolve(self, inputs: Infos, values: Values) -> Descriptor:
        depth = integers(values, 2)
        return replace(self, depth=depth[0]) if depth else self

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        indices, pair = present(inputs, 0), present(inputs, 1)
        axis = normalize_axis(self.axis, indices.rank + 1)
        if shapes_differ(pair.sizes, (2,)):
            raise shape_error(f"values has shape {pair.shape_text}", "expected [2]: off, on")
        if below(self.depth, 0):
            raise attribute_error(f"depth is {self.depth}", "give a non-negative integer")
        return [TensorInfo((*indices.sizes[:axis], as_size(self.depth), *indices.sizes[axis:]), pair.dtype)]


@descriptor_class
class Trilu(Descriptor, kind="dovetail.Trilu"):
    """Keep the upper (or lower) triangle of the last two axes, zero elsewhere; diagonal k is kept.

    Value input: k.

    A diagonal beyond the matrix is resolved to the nearest one beyond it, which keeps the same
    elements.
    """

    input_names: ClassVar[tuple[str, ...]] = ("input", "k")
    value_inputs: ClassVar[tuple[int, ...]] = (1,)
    upper: bool = True
    """Keep what lies on the diagonal and above it; else on it and below."""
    k: int = 0
    """Diagonal that is kept: 0 is the main one, positive ones lie above it."""

    def resolve(self, inputs: Infos, values: Values) -> Descriptor:
        k = integers(values, 1)
        x = present(inputs, 0)
        nearest = diagonal = k[0] if k else self.k
        if x.rank > 1 and not are_symbolic((*x.sizes[-2:], diagonal)):
            rows, columns = x.sizes[-2:]
            nearest = max(-rows, min(diagonal, columns))
        return self if nearest == self.k else replace(self, k=nearest)

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        if x.rank < 2:
            raise shape_error(f"input {x.shape_text} has no matrix axes")
        return [x]

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        x = values[0]
        if x is None:
            return None
        if x.size <= PIECE:
            return [(np.triu if self.upper else np.tril)(x, self.k)]

        def part(region: Region) -> Array:
            row, column = (np.arange(*one.indices(size)) for one, size in zip(region[-2:], x.shape[-2:], strict=True))
            beyond = column - row[:, None] - self.k
            return np.where(beyond >= 0 if self.upper else beyond <= 0, x[region], np.zeros(1, x.dtype))

        return [assembled(x.shape, x.dtype, part)]


@descriptor_class
class Range(Descriptor, kind="dovetail.Range"):
    """start, start + delta, ... before limit.

    Value inputs: all three, scalars of one dtype; so it is always folded.
    """

    input_names: ClassVar[tuple[str, ...]] = ("start", "limit", "delta")
    required_inputs: ClassVar[int] = 0
    value_inputs: ClassVar[tuple[int, ...]] = (0, 1, 2)
    start: float | int = 0
    """First number."""
    limit: float | int = 0
    """Where it ends; not reached itself."""
    delta: float | int = 1
    """From one number to the next; may be negative."""
    dtype: DType = DType.INT64
    """Of the numbers."""

    def resolve(self, inputs: Infos, values: Values) -> Descriptor:
        if len(values) < 3:
            return self
        dtype = require_same_dtype(inputs, "start, limit and delta")
        start, limit, delta = (_scalar(value) for value in values)
        return replace(self, start=start, limit=limit, delta=delta, dtype=dtype)

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        if are_symbolic((self.start, self.limit, self.delta)):
            return [TensorInfo((self._symbolic_count(),), self.dtype)]
        if self.delta == 0:
            raise attribute_error("delta is 0", "a range needs a step")
        if self.dtype in (DType.BFLOAT16, DType.BOOL):
            raise attribute_error(f"a range of {self.dtype}", "count in float32 and cast")
        for name in ("start", "limit", "delta"):
            require_representable(getattr(self, name), self.dtype, name)
        try:
            count = math.ceil((self.limit - self.start) / self.delta)
        except (OverflowError, ValueError):  # infinite, or no number
            raise attribute_error(f"a range from {self.start} to {self.limit} by {self.delta} does not end") from None
        return [TensorInfo((max(count, 0),), self.dtype)]

    def _symbolic_count(self) -> int:
        numbers = (self.start, self.limit, self.delta)
        if not self.dtype.is_integer or self.delta == 0 or any(isinstance(one, float) for one in numbers):
            return unknown_size()
        return larger(-((self.start - self.limit) // self.delta), 0)  # type: ignore[arg-type]  # no float is among them

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        storage = self.dtype.numpy
        count = self.infer(inputs)[0].elements

        def part(region: Region) -> Array:
            begin, end = (0, count) if region == (...,) else (region[0].start, region[0].stop)
            steps = np.arange(begin, end).astype(storage)
            counted: Array = (storage.type(self.start) + steps * storage.type(self.delta)).astype(storage)
            return counted

        return [assembled((count,), storage, part)]


@descriptor_class
class Fill(Descriptor, kind="dovetail.Fill"):
    """A tensor of one value. Value input: shape."""

    input_names: ClassVar[tuple[str, ...]] = ("shape",)
    required_inputs: ClassVar[int] = 0
    value_inputs: ClassVar[tuple[int, ...]] = (0,)
    dtype_of: ClassVar[tuple[str, int]] = ("output", 0)
    value: float | int | bool = 0.0
    """Of every element."""
    dtype: DType = DType.FLOAT32
    """Of the result."""
    shape: tuple[int, ...] = ()
    """Of the result."""

    def resolve(self, inputs: Infos, values: Values) -> Descriptor:
        shape = integers(values, 0)
        return self if shape is None else replace(self, shape=shape)

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        if some_below(self.shape, 0):
            raise attribute_error(f"shape {self.shape} has a negative size")
        require_representable(self.value, self.dtype, "value")
        return [TensorInfo(tuple([as_size(d) for d in self.shape]), self.dtype)]

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        if self.dtype is DType.BFLOAT16:
            return None
        value = np.asarray(self.value, self.dtype.numpy)
        return [copied(np.broadcast_to(value, self.shape))]


def _scalar(value: Array | None) -> float | int:
    if value is None or value.size != 1:
        raise shape_error("start, limit and delta of a range must be scalars")
    number: float | int = value.reshape(-1).tolist()[0]
    return number


class GeneratingLayers(Graph):
    """Builder methods."""

    def one_hot(
        self, indices: Operand, depth: int | OutputSlot, values: Operand, axis: int = -1, *, name: str | None = None
    ) -> OutputSlot:
        """A new axis holding on at the index, off elsewhere; values is [off, on]."""
        if isinstance(depth, OutputSlot):
            return self.add(OneHot(axis=integer(axis, "axis")), indices, values, depth, name=name).output
        return self.add(OneHot(depth=integer(depth, "depth"), axis=integer(axis, "axis")), indices, values, name=name).output

    def trilu(self, x: Operand, k: int | OutputSlot = 0, *, upper: bool = True, name: str | None = None) -> OutputSlot:
        """Keep a triangle of the last two axes."""
        if isinstance(k, OutputSlot):
            return self.add(Trilu(upper=upper), x, k, name=name).output
        return self.add(Trilu(upper=upper, k=integer(k, "k")), x, name=name).output

    def range(self, start: Operand, limit: Operand, delta: Operand, *, name: str | None = None) -> OutputSlot:
        """start, start + delta, ... before limit."""
        return self.add(Range(), start, limit, delta, name=name).output

    def fill(
        self,
        shape: Sequence[int] | OutputSlot,
        value: float | int | bool,
        dtype: DType = DType.FLOAT32,
        *,
        name: str | None = None,
    ) -> OutputSlot:
        """A tensor of one value."""
        if isinstance(shape, OutputSlot):
            return self.add(Fill(value=value, dtype=DType.of(dtype)), shape, name=name).output
        return self.add(Fill(value=value, dtype=DType.of(dtype), shape=as_tuple(shape, "shape") or ()), name=name).output
