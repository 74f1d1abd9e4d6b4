"""Reductions, positions of extremes, running sums."""

from __future__ import annotations

import math

from dovetail.graph.element_types import DType
from dovetail.layers import ArgFunction, ArgMinMax, CumulativeSum, Reduce, ReduceFunction, TopK

from ...operators.reduction import REDUCTIONS
from ..rules import Saying, says
from ..unexportable import Unexportable

_REDUCTIONS = {function: operator for operator, function in REDUCTIONS.items()}
_OF_ANY_COUNT = (ReduceFunction.SUM, ReduceFunction.PROD, ReduceFunction.L1, ReduceFunction.L2, ReduceFunction.SUM_SQUARE)

_OF_REAL_NUMBERS = (ReduceFunction.MEAN, ReduceFunction.L2, ReduceFunction.LOG_SUM, ReduceFunction.LOG_SUM_EXP)


@says(Reduce)
def reduce(say: Saying) -> str:
    """Say a reduction; over no axes it is a function of each element."""
    x, function, info = say.input(), say.descriptor.function, say.info()
    axes = say.descriptor.reduced_axes(info.rank)
    if not axes and info.rank:
        return _of_each(say, x, function)
    if function not in _OF_ANY_COUNT and not math.prod(info.sizes[axis] for axis in axes):
        raise Unexportable(f"ONNX does not define the {function} of no elements")
    if function in _OF_REAL_NUMBERS and info.dtype.is_integer:
        raise Unexportable(f"ONNX does not say how the {function} of {info.dtype} is rounded")
    given = () if not axes else (say.integers(axes),)
    return say.op(_REDUCTIONS[function], x, *given, keepdims=int(say.descriptor.keep_dims))


def _of_each(say: Saying, x: str, function: ReduceFunction) -> str:
    match function:
        case ReduceFunction.L1 | ReduceFunction.L2:
            return say.op("Abs", x)
        case ReduceFunction.SUM_SQUARE:
            return say.op("Mul", x, x)
        case ReduceFunction.LOG_SUM:
            return say.op("Log", x)
    return x


@says(ArgMinMax)
def arg_min_max(say: Saying) -> str:
    """Say the position of an extreme."""
    best = say.op(
        "ArgMax" if say.descriptor.function is ArgFunction.MAX else "ArgMin",
        say.input(),
        dtype=DType.INT64,
        axis=say.descriptor.axis,
        keepdims=int(say.descriptor.keep_dims),
        select_last_index=int(say.descriptor.select_last),
    )
    return say.cast(best, say.descriptor.dtype)


@says(CumulativeSum)
def cumulative_sum(say: Saying) -> str:
    """Say a running sum."""
    axis = say.scalar(say.descriptor.axis, DType.INT64)
    exclusive, reverse = int(say.descriptor.exclusive), int(say.descriptor.reverse)
    return say.op("CumSum", say.input(), axis, exclusive=exclusive, reverse=reverse)


@says(TopK)
def top_k(say: Saying) -> list[str]:
    """Say the k best."""
    count, largest = say.integers([say.descriptor.k]), int(say.descriptor.largest)
    return say.ops("TopK", say.input(), count, outputs=2, axis=say.descriptor.axis, largest=largest)
