"""What a table of 256 bytes does to each element: activations, functions, other quantizations."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dovetail import Layer
from dovetail.layers import Activation, Concat, ElementwiseUnary, Stack
from dovetail.quantized.tables import requantizing, table_of

from ..driver.arguments import Argument, ConstantArray, Launch, Output
from ..elementwise import argument, in_place, input_info
from ..kernels import Alias, Kernels, Work
from ..walking import contiguous
from ..walking.copying import Side, copy
from .arithmetic import scheme

_RUNS = np.dtype([(name, np.uint32) for name in ("run", "from", "to", "start")])


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a layer that looks up each element."""
    if isinstance(layer.descriptor, Concat | Stack):
        return _joined(layer, kernels)
    descriptor, info, result = layer.descriptor, input_info(layer, 0), layer.output.known_info
    assert isinstance(descriptor, Activation | ElementwiseUnary), "no other kind comes here"
    launch = _mapped(kernels, argument(layer, 0), table_of(descriptor, info, result), 1, (info.elements,) * 3, 0)
    return Work((launch,), aliases=in_place(layer))


def _mapped(
    kernels: Kernels, source: Argument, table: npt.NDArray[np.uint8], runs: int, steps: tuple[int, int, int], start: int
) -> Launch:
    """Return the launch that looks up runs of bytes.

    Args:
        kernels: Of the device.
        source: Where they lie.
        table: What they become.
        runs: How many runs there are.
        steps: Bytes of a run, and between runs of the source and of the result.
        start: Bytes before the first run of the result.
    """
    given = np.zeros((), _RUNS)
    given["run"], given["from"], given["to"], given["start"] = *steps, start
    count = runs * steps[0]
    items, group = kernels.each(count)
    kernel = kernels.get("quantized/tables.cl", "look_up")
    return Launch(kernel, (source, ConstantArray(table), Output(), given, np.uint32(count)), items, group)


def _joined(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a join of tensors, some of which have another quantization."""
    result, descriptor = layer.output.known_info, layer.descriptor
    assert isinstance(descriptor, Concat | Stack), "it was asked before"
    axis, whole = descriptor.axis % result.rank, contiguous(result.sizes)
    runs, step = math.prod(result.sizes[:axis]), math.prod(result.sizes[axis:])
    launches: list[Launch] = []
    aliases: list[Alias] = []
    start = 0
    for index in range(len(layer.inputs)):
        info = input_info(layer, index)
        count = 1 if isinstance(descriptor, Stack) else info.sizes[axis]
        sizes = (*result.sizes[:axis], count, *result.sizes[axis + 1 :])
        run = count * whole[axis]
        if info.quantization != result.quantization:
            table = requantizing(scheme(info), scheme(result), result.dtype)
            launches.append(_mapped(kernels, argument(layer, index), table, runs, (run, run, step), start))
        else:
            alias = Alias("part", 0, index, start) if runs == 1 and layer.constant(index) is None else None
            aliases += [alias] if alias else []
            source = Side(argument(layer, index), contiguous(sizes))
            launches.append(copy(kernels, 1, sizes, source, Side(Output(), whole, start), unless=alias))
        start += run
    return Work(tuple(launches), aliases=tuple(aliases))
