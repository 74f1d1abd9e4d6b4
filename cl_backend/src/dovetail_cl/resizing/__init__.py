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
_EVEN = (2, 4)
"""Taps that all results of an axis may have."""
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
    picked = {
        axis: descriptor.nearest(
            descriptor.positions(info.sizes[axis], result.sizes[axis], scales[axis], range(result.sizes[axis])),
            info.sizes[axis],
        )
        for axis in changed
    }
    if all(_repeats(positions, info.sizes[axis]) for axis, positions in picked.items()):
        shape = [n for axis, size in enumerate(info.sizes) for n in (size, result.sizes[axis] // size)]
        source = Side(argument(layer, 0), tuple(n for stride in strides for n in (stride, 0)))
        return copy(kernels, info.dtype.itemsize, shape, source, Side(Output(), contiguous(shape)))
    axes: list[tuple[int, int, int]] = []  # size of the result, stride, and where the table begins
    tables: list[npt.NDArray[Any]] = []
    for axis, (size, stride) in enumerate(zip(result.sizes, strides, strict=True)):
        if axis in picked:
            axes.append((size, 0, sum(map(len, tables))))
            tables.append(picked[axis] * stride)
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


def _repeats(positions: npt.NDArray[Any], size: int) -> bool:
    """Say whether each element of an axis is repeated equally often, in order."""
    return len(positions) % size == 0 and bool((positions == np.arange(len(positions)) // (len(positions) // size)).all())


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
        even, taps = _taps(descriptor, sizes[axis], result.sizes[axis], scales[axis])
        counts = (sizes[axis], result.sizes[axis], math.prod(sizes[axis + 1 :]))
        sizes[axis] = result.sizes[axis]
        elements = math.prod(sizes)
        kernel = kernels.get("resizing/resample.cl", "resample", A=type_, Y=written, TAPS=even)
        arguments = (source, target, *taps, *map(np.uint32, counts), np.uint32(elements))
        launches.append(Launch(kernel, arguments, *kernels.each(elements, least=2048)))
        source, type_ = target, written
    return Work(tuple(launches), scratch=sum(halves))


def _taps(descriptor: Resize, size: int, wanted: int, scale: float) -> tuple[int, tuple[ConstantArray, ...]]:
    """Return how many taps each result has, and where they begin, their positions and weights.

    Where there are few, all results get as many, and a tap becomes two of half its weight, which
    changes no sum. Else their number is 0, and each has its own.
    """
    parts = list(descriptor.taps(size, wanted, scale))
    counts = np.concatenate([np.diff(part.first) for part in parts])
    positions = np.concatenate([part.position for part in parts]).astype(np.int32)
    weights = np.concatenate([part.weight for part in parts]).astype(np.float32)
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    most = next((one for one in _EVEN if one >= counts.max(initial=0)), 0)
    if most and counts.min(initial=most):
        number, turn = np.arange(wanted), np.arange(most)[:, None]
        taken = first[number] + turn % counts
        shares = most // counts + (turn % counts < most % counts)
        positions, weights = positions[taken], weights[taken] / shares.astype(np.float32)
        return most, (ConstantArray(first[:1]), ConstantArray(positions), ConstantArray(weights))
    return 0, (ConstantArray(first), ConstantArray(positions), ConstantArray(weights))
