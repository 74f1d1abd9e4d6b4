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
from .arithmetic import SOURCE, scheme, single


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
    if function is ReduceFunction.MEAN:
        factor /= max(count, 1)
    name = "sum" if is_sum else function.value
    work = reduce(kernels, argument(layer, 0), info.dtype, info.sizes, axes, FUNCTIONS[name], keeps=False)
    struct = [("zero", np.int64), *((name, np.int32) for name in ("out_zero", "low", "high")), ("factor", np.float32)]
    numbers = np.zeros((), np.dtype(struct, align=True))
    numbers["zero"] = given.zero_point[0] * (count if is_sum else 1)
    numbers["out_zero"], (numbers["low"], numbers["high"]) = theirs.zero_point[0], result.dtype.limits
    numbers["factor"] = single(factor)
    kernel = kernels.get(
        f"{SOURCE} quantized/reduction.cl",
        "finish",
        C=computed_in(info.dtype, count),
        T=TYPES[result.dtype],
    )
    items, group = kernels.each(result.elements)
    arguments = (Scratch(), Output(), numbers, np.uint32(result.elements))
    return work._replace(launches=(*work.launches, Launch(kernel, arguments, items, group)))
