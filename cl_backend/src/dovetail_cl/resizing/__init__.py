"""Resize along any axes.

NEAREST picks elements of any type by a table for each axis that changes. LINEAR and CUBIC are
separable: one pass for each of these axes, in floats.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import Layer
from dovetail.layers import Resize, ResizeMethod

from ..driver.arguments import Argument, ConstantArray, Launch, Output, Scratch
from ..elementwise import argument, input_info
from ..kernels import RAW, TYPES, Alias, Kernels, Work
from ..walking import contiguous
from ..walking.copying import Side, copy

_MAX_AXES = 8
_ALIGNMENT = 64
_SELECTION = np.dtype(
    [("size", np.uint32, _MAX_AXES), ("stride", np.int32, _MAX_AXES), ("table", np.int32, _MAX_AXES), ("axes", np.uint32)]
)


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a Resize."""
    info, result, descriptor = input_info(layer, 0), layer.output.known_info, layer.descriptor
    assert isinstance(descriptor, Resize), "the family is of this kind alone"
    if not result.elements:
        return Work(())
    scales = descriptor.axis_scales(info)
    changed = [axis for axis in range(info.rank) if info.sizes[axis] != result.sizes[axis] or scales[axis] != 1.0]
    if not changed:
        alias = Alias("view") if layer.constant(0) is None else None
        steps = contiguous(info.sizes)
        source, target = Side(argument(layer, 0), steps), Side(Output(), steps)
        launch = copy(kernels, info.dtype.itemsize, info.sizes, source, target, unless=alias)
        return Work((launch,), aliases=(alias,) if alias else (), is_elidable=alias is not None)
    if descriptor.method is ResizeMethod.NEAREST:
        return Work((_nearest(layer, kernels, descriptor, changed),))
    return _resampled(layer, kernels, descriptor, changed)


def _nearest(layer: Layer, kernels: Kernels, descriptor: Resize, changed: list[int]) -> Launch:
    info, result = input_info(layer, 0), layer.output.known_info
    scales, strides = descriptor.axis_scales(info), contiguous(info.sizes)
    axes: list[tuple[int, int, int]] = []  # size of the result, stride, and where the table begins
    tables: list[npt.NDArray[Any]] = []
    for axis, (size, wanted, stride) in enumerate(zip(info.sizes, result.sizes, strides, strict=True)):
        if axis in changed:
            begin = sum(map(len, tables))
            positions = descriptor.positions(size, wanted, scales[axis], range(wanted))
            tables.append(descriptor.nearest(positions, size) * stride)
            axes.append((wanted, 0, begin))
        elif axes and axes[-1][2] < 0:  # both lie in one piece
            axes[-1] = (axes[-1][0] * size, stride, -1)
        else:
            axes.append((size, stride, -1))
    given = np.zeros((), _SELECTION)
    for number, (size, stride, begin) in enumerate(reversed(axes)):
        given["size"][number], given["stride"][number], given["table"][number] = size, stride, begin
    given["axes"] = len(axes)
    kernel = kernels.get("walking/moving.cl resizing/nearest.cl", "nearest", T=RAW[info.dtype.itemsize])
    table = ConstantArray(np.concatenate(tables).astype(np.int32))
    arguments = (argument(layer, 0), Output(), table, given, np.uint32(result.elements))
    return Launch(kernel, arguments, *kernels.each(result.elements))


def _resampled(layer: Layer, kernels: Kernels, descriptor: Resize, changed: list[int]) -> Work:
    """Return a pass for each axis; those between two passes are floats in scratch memory."""
    info, result = input_info(layer, 0), layer.output.known_info
    scales, sizes = descriptor.axis_scales(info), list(info.sizes)
    # What shrinks goes first, so that nothing in between is larger than both ends; of equals the
    # innermost one, whose sums are not made in vectors.
    order = sorted(changed, key=lambda axis: (result.sizes[axis] / info.sizes[axis], -axis))
    launches: list[Launch] = []
    between: list[int] = []
    for axis in order[:-1]:
        sizes[axis] = result.sizes[axis]
        between.append(-(-math.prod(sizes) * 4 // _ALIGNMENT) * _ALIGNMENT)
    halves = max(between[::2], default=0), max(between[1::2], default=0)
    sizes = list(info.sizes)
    source, type_ = argument(layer, 0), TYPES[info.dtype]
    for number, axis in enumerate(order):
        is_last = number == len(order) - 1
        target: Argument = Output() if is_last else Scratch(halves[0] * (number % 2))
        written = TYPES[result.dtype] if is_last else "float"
        taps = _taps(descriptor, sizes[axis], result.sizes[axis], scales[axis])
        counts = (sizes[axis], result.sizes[axis], math.prod(sizes[axis + 1 :]))
        sizes[axis] = result.sizes[axis]
        elements = math.prod(sizes)
        kernel = kernels.get("resizing/resample.cl", "resample", A=type_, Y=written)
        arguments = (source, target, *taps, *map(np.uint32, counts), np.uint32(elements))
        launches.append(Launch(kernel, arguments, *kernels.each(elements, least=2048)))
        source, type_ = target, written
    return Work(tuple(launches), scratch=sum(halves))


def _taps(descriptor: Resize, size: int, wanted: int, scale: float) -> tuple[ConstantArray, ...]:
    """Return where the taps of each result begin, their positions and their weights."""
    parts = list(descriptor.taps(size, wanted, scale))
    begins, first = 0, []
    for part in parts:
        first.append(part.first[:-1] + begins)
        begins += int(part.first[-1])
    first.append(np.array([begins]))
    positions = np.concatenate([part.position for part in parts]).astype(np.int32)
    weights = np.concatenate([part.weight for part in parts]).astype(np.float32)
    return ConstantArray(np.concatenate(first).astype(np.int32)), ConstantArray(positions), ConstantArray(weights)
