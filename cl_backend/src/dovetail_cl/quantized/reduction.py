"""Reduction of quantized tensors: sums and extremes of their integers, scaled at the end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dovetail import Layer
from dovetail.layers import ReduceFunction

from ..driver.arguments import Launch, Output, Scratch
from ..elementwise import argument, input_info
from ..kernels import TYPES, Kernels, Work
from ..reduction.reducing import FUNCTIONS, computed_in, reduce
from .arithmetic import SOURCE, fixed_point, limits, scheme

_MAX_SUMMED = 1 << 23
"""Elements whose sum is scaled in fixed point."""


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a reduction."""
    descriptor: Any = layer.descriptor
    info, result = input_info(layer, 0), layer.output.known_info
    axes = descriptor.reduced_axes(info.rank)
    count = math.prod(info.sizes[axis] for axis in axes)
    function = descriptor.function
    is_sum = function in (ReduceFunction.SUM, ReduceFunction.MEAN)
    given, theirs = scheme(info), scheme(result)
    factor = given.scale[0] / theirs.scale[0]
    multiplier, shift = _mean_factor(factor, count)
    is_fixed = function is ReduceFunction.MEAN and count <= _MAX_SUMMED
    if function is ReduceFunction.MEAN:
        factor /= max(count, 1)
    name = "sum" if is_sum else function.value
    work = reduce(kernels, argument(layer, 0), info.dtype, info.sizes, axes, FUNCTIONS[name], keeps=False)
    names = ("out_zero", "low", "high", "multiplier", "shift")
    struct = [("zero", np.int64), *((name, np.int32) for name in names)]
    numbers = np.zeros((), np.dtype(struct, align=True))
    numbers["zero"] = given.zero_point[0] * (count if is_sum else 1)
    numbers["out_zero"], (numbers["low"], numbers["high"]) = theirs.zero_point[0], limits(result.dtype)
    numbers["multiplier"], numbers["shift"] = multiplier, shift
    kernel = kernels.get(
        f"{SOURCE} quantized/reduction.cl",
        "finish",
        C=computed_in(info.dtype, count),
        T=TYPES[result.dtype],
        FIXED_POINT=int(is_fixed),
    )
    items, group = kernels.each(result.elements)
    arguments = (Scratch(), Output(), numbers, np.float32(factor), np.uint32(result.elements))
    return work._replace(launches=(*work.launches, Launch(kernel, arguments, items, group)))


def _mean_factor(factor: float, count: int) -> tuple[int, int]:
    """Return the factor of a mean, for the sum: its fraction is divided as an integer, truncated.

    Source: TensorFlow Lite, reference_ops::QuantizedMeanOrSum.
    """
    multiplier, shift = (int(one) for one in fixed_point(factor))
    if count:
        by = min(count.bit_length() - 1, 32, 31 + shift)
        multiplier, shift = (multiplier << by) // count, shift - by
    return multiplier, shift
