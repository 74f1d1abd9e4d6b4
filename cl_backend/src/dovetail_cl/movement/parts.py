"""Concat, Stack and Split: one copy a part, which may be left out along the outermost axis."""

from __future__ import annotations

import math

import numpy as np

from dovetail import Layer
from dovetail.layers import Concat, Split, Stack

from ..driver.arguments import Launch, Output
from ..elementwise import argument, input_info
from ..kernels import RAW, Alias, Kernels, Work
from ..walking import contiguous
from ..walking.copying import Side, copy

_MAX_PARTS = 8
"""Whose rows one kernel joins."""
_MIN_ELEMENTS = 4096
"""Elements that are worth a work item."""


def joined(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a Concat or a Stack."""
    result, descriptor = layer.output.known_info, layer.descriptor
    assert isinstance(descriptor, Concat | Stack), "it was asked before"
    axis, itemsize = descriptor.axis % result.rank, result.dtype.itemsize
    whole = contiguous(result.sizes)
    if kernels.is_cpu and math.prod(result.sizes[:axis]) > 1 and len(layer.inputs) <= _MAX_PARTS:
        return Work((_join(layer, kernels, axis),))
    launches: list[Launch] = []
    aliases: list[Alias] = []
    start = 0
    for index in range(len(layer.inputs)):
        count = 1 if isinstance(descriptor, Stack) else input_info(layer, index).sizes[axis]
        sizes = (*result.sizes[:axis], count, *result.sizes[axis + 1 :])
        alias = None
        if math.prod(result.sizes[:axis]) == 1 and layer.constant(index) is None:
            alias = Alias("part", 0, index, start * itemsize)
            aliases.append(alias)
        source = Side(argument(layer, index), contiguous(sizes))
        launches.append(copy(kernels, itemsize, sizes, source, Side(Output(), whole, start), unless=alias))
        start += count * whole[axis]
    return Work(tuple(launches), aliases=tuple(aliases), is_elidable=len(aliases) == len(launches))


def _join(layer: Layer, kernels: Kernels, axis: int) -> Launch:
    """Return the launch that joins rows of all inputs at once."""
    info, count = layer.output.known_info, len(layer.inputs)
    rows = math.prod(info.sizes[:axis])
    given = np.zeros((), [("run", np.uint32, count), ("whole", np.uint32)])
    given["run"], given["whole"] = [input_info(layer, at).elements // rows for at in range(count)], info.elements // rows
    kernel = kernels.get(
        "walking/moving.cl movement/join.cl",
        "join",
        T=RAW[info.dtype.itemsize],
        COUNT=count,
        **{"PARTS(X)": " ".join(f"X(x{at}, {at})" for at in range(count))},
    )
    items, group = kernels.each(rows if info.elements else 0, least=max(1, _MIN_ELEMENTS // max(1, int(given["whole"]))))
    arguments = (*(argument(layer, at) for at in range(count)), Output(), given, np.uint32(rows))
    return Launch(kernel, arguments, items, group)


def split(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a Split."""
    info, descriptor = input_info(layer, 0), layer.descriptor
    assert isinstance(descriptor, Split), "it was asked before"
    axis, itemsize = descriptor.axis % info.rank, info.dtype.itemsize
    whole = contiguous(info.sizes)
    launches: list[Launch] = []
    aliases: list[Alias] = []
    start = 0
    for index, result in enumerate(layer.output_infos):
        alias = None
        if math.prod(info.sizes[:axis]) == 1 and layer.constant(0) is None:
            alias = Alias("view", index, 0, start * itemsize)
            aliases.append(alias)
        target = Side(Output(index), contiguous(result.sizes))
        launches.append(copy(kernels, itemsize, result.sizes, Side(argument(layer, 0), whole, start), target, unless=alias))
        start += result.sizes[axis] * whole[axis]
    return Work(tuple(launches), aliases=tuple(aliases), is_elidable=len(aliases) == len(launches))
