"""Kinds that reduce or scan along axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import ClassVar

import numpy as np

from ..graph.descriptor import Array, Descriptor, Infos, Selection, Values, descriptor_class
from ..graph.element_types import DType
from ..graph.expressions import unknown_size
from ..graph.graph import Graph
from ..graph.layer import OutputSlot
from ..graph.size_rules import are_symbolic, as_size, below, equal
from ..graph.tensor import TensorInfo
from ..ground.pieces import reduced
from .arguments import Operand, as_tuple, choice, integer
from .shape_rules import attribute_error, integers, normalize_axes, normalize_axis, present, require_number, shape_error


class ReduceFunction(StrEnum):
    """What many elements become; the dtype stays.

    Over no elements: the neutral element (maximum: the least value).

    Maximum and minimum: NaN wins. Integers wrap modulo 2^bits; what is no integer of them (a mean)
    truncates toward zero.
    """

    SUM = "sum"
    MEAN = "mean"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    L1 = "l1"  # sum |x|
    L2 = "l2"  # sqrt(sum x^2)
    SUM_SQUARE = "sum_square"
    LOG_SUM = "log_sum"
    LOG_SUM_EXP = "log_sum_exp"


@descriptor_class
class Reduce(Descriptor, kind="dovetail.Reduce"):
    """Reduce along axes; `axes` None means all, () none.

    Value input: axes, integers.
    """

    input_names: ClassVar[tuple[str, ...]] = ("input", "axes")
    value_inputs: ClassVar[tuple[int, ...]] = (1,)
    function: ReduceFunction
    """What the elements become."""
    axes: tuple[int, ...] | None = None
    """Which are reduced; None: all, an empty list: none."""
    keep_dims: bool = False
    """Keep reduced axes with size one."""
    empty_means_none: bool = False
    """True: a value input of no axes reduces nothing; else all (ONNX: noop_with_empty_axes)."""

    def resolve(self, inputs: Infos, values: Values) -> Descriptor:
        axes = integers(values, 1)
        return self if axes is None else replace(self, axes=axes if axes or self.empty_means_none else None)

    def reduced_axes(self, rank: int) -> tuple[int, ...]:
        """Axes that are reduced, in [0, rank), ascending."""
        return tuple(range(rank)) if self.axes is None else tuple(sorted(normalize_axes(self.axes, rank)))

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        if self.function not in (ReduceFunction.MAX, ReduceFunction.MIN):
            require_number(x, "input")
        if self.axes is not None and are_symbolic(self.axes):
            rank = x.rank if self.keep_dims else x.rank - len(self.axes)
            return [TensorInfo(tuple([unknown_size() for _ in range(rank)]), x.dtype)]
        axes = self.reduced_axes(x.rank)
        if self.keep_dims:
            shape = tuple(1 if i in axes else d for i, d in enumerate(x.sizes))
        else:
            shape = tuple(d for i, d in enumerate(x.sizes) if i not in axes)
        return [TensorInfo(shape, x.dtype)]

    def evaluate(self, inputs: Infos, values: Values) -> Sequence[Array] | None:
        functions = {
            ReduceFunction.SUM: np.add,
            ReduceFunction.PROD: np.multiply,
            ReduceFunction.MAX: np.maximum,
            ReduceFunction.MIN: np.minimum,
        }
        x, info, function = values[0], present(inputs, 0), functions.get(self.function)
        if x is None or x.size == 0 or not info.dtype.is_integer or function is None:
            return None
        return [reduced(function, x, self.reduced_axes(info.rank), x.dtype).reshape(self.infer(inputs)[0].sizes)]


class ArgFunction(StrEnum):
    """Whose position is wanted."""

    MAX = "max"
    MIN = "min"


@descriptor_class
class ArgMinMax(Descriptor, kind="dovetail.ArgMinMax"):
    """Position of the extreme along an axis: the first, or the last with `select_last`.

    A NaN is both extremes (NumPy).
    """

    function: ArgFunction
    """Whose position is wanted."""
    axis: int = -1
    """Along which positions count."""
    keep_dims: bool = False
    """Keep the axis with size one."""
    select_last: bool = False
    """Of equal extremes give the last; else the first."""
    dtype: DType = DType.INT64
    """Of the positions."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        axis = normalize_axis(self.axis, x.rank)
        if equal(x.sizes[axis], 0):
            raise shape_error(f"axis {self.axis} of {x.shape_text} is empty: it has no extreme")
        kept = (1,) if self.keep_dims else ()
        return [TensorInfo((*x.sizes[:axis], *kept, *x.sizes[axis + 1 :]), self.dtype)]


@descriptor_class
class CumulativeSum(Descriptor, kind="dovetail.CumulativeSum"):
    """Running sum along an axis; `exclusive` leaves out the element itself. Value input: axis."""

    input_names: ClassVar[tuple[str, ...]] = ("input", "axis")
    value_inputs: ClassVar[tuple[int, ...]] = (1,)
    axis: int = 0
    """Along which is summed."""
    exclusive: bool = False
    """Leave out the element itself."""
    reverse: bool = False
    """Sum from the end of the axis."""

    def resolve(self, inputs: Infos, values: Values) -> Descriptor:
        axis = integers(values, 1)
        return replace(self, axis=axis[0]) if axis else self

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        require_number(x, "input")
        if not are_symbolic((self.axis,)):
            normalize_axis(self.axis, x.rank)
        return [x.with_quantization(None)]


@descriptor_class
class TopK(Selection, kind="dovetail.TopK"):
    """The k largest (or smallest) elements along an axis and their positions (int64), best first.

    Equal elements come in order of position; a NaN counts as larger than every number. Value input:
    k.
    """

    input_names: ClassVar[tuple[str, ...]] = ("input", "k")
    value_inputs: ClassVar[tuple[int, ...]] = (1,)
    k: int = 1
    """How many elements are wanted."""
    axis: int = -1
    """Along which they are looked for."""
    largest: bool = True
    """The largest; else the smallest."""

    @property
    def output_count(self) -> int:
        return 2

    def resolve(self, inputs: Infos, values: Values) -> Descriptor:
        k = integers(values, 1)
        return replace(self, k=k[0]) if k else self

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        x = present(inputs, 0)
        axis = normalize_axis(self.axis, x.rank)
        if below(self.k, 0) or below(x.sizes[axis], self.k):
            raise attribute_error(f"k is {self.k}, but axis {self.axis} of {x.shape_text} has {x.sizes[axis]} elements")
        shape = (*x.sizes[:axis], as_size(self.k), *x.sizes[axis + 1 :])
        return [TensorInfo(shape, x.dtype, x.quantization), TensorInfo(shape, DType.INT64)]


class ReductionLayers(Graph):
    """Builder methods."""

    def reduce(
        self,
        x: Operand,
        function: ReduceFunction | str,
        axes: int | Sequence[int] | OutputSlot | None = None,
        *,
        keep_dims: bool = False,
        empty_means_none: bool = False,
        name: str | None = None,
    ) -> OutputSlot:
        """Reduce along axes (None: all)."""
        kind = choice(ReduceFunction, function, "function")
        label = name or f"reduce_{kind}"
        if isinstance(axes, OutputSlot):
            descriptor = Reduce(function=kind, keep_dims=keep_dims, empty_means_none=empty_means_none)
            return self.add(descriptor, x, axes, name=label).output
        return self.add(Reduce(function=kind, axes=as_tuple(axes, "axes"), keep_dims=keep_dims), x, name=label).output

    def mean(
        self, x: Operand, axes: int | Sequence[int] | None = None, *, keep_dims: bool = False, name: str | None = None
    ) -> OutputSlot:
        """Arithmetic mean along axes (None: all)."""
        return self.reduce(x, ReduceFunction.MEAN, axes, keep_dims=keep_dims, name=name or "mean")

    def arg_min_max(
        self,
        x: Operand,
        function: ArgFunction | str,
        axis: int = -1,
        *,
        keep_dims: bool = False,
        select_last: bool = False,
        dtype: DType = DType.INT64,
        name: str | None = None,
    ) -> OutputSlot:
        """Position of the largest or smallest element along an axis."""
        kind = choice(ArgFunction, function, "function")
        descriptor = ArgMinMax(
            function=kind, axis=integer(axis, "axis"), keep_dims=keep_dims, select_last=select_last, dtype=DType.of(dtype)
        )
        return self.add(descriptor, x, name=name or f"arg_{kind}").output

    def cumulative_sum(
        self,
        x: Operand,
        axis: int | OutputSlot = 0,
        *,
        exclusive: bool = False,
        reverse: bool = False,
        name: str | None = None,
    ) -> OutputSlot:
        """Running sum along an axis."""
        if isinstance(axis, OutputSlot):
            return self.add(CumulativeSum(exclusive=exclusive, reverse=reverse), x, axis, name=name).output
        return self.add(CumulativeSum(axis=integer(axis, "axis"), exclusive=exclusive, reverse=reverse), x, name=name).output

    def top_k(
        self, x: Operand, k: int | OutputSlot, axis: int = -1, *, largest: bool = True, name: str | None = None
    ) -> tuple[OutputSlot, OutputSlot]:
        """(values, positions) of the k best elements along an axis."""
        if isinstance(k, OutputSlot):
            layer = self.add(TopK(axis=integer(axis, "axis"), largest=largest), x, k, name=name)
        else:
            layer = self.add(TopK(k=integer(k, "k"), axis=integer(axis, "axis"), largest=largest), x, name=name)
        return layer.outputs[0], layer.outputs[1]
