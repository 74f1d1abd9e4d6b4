"""The best elements of lines along an axis: TopK."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail import DType, Layer

from ..driver.arguments import Launch, Output, Scratch
from ..elementwise import argument, input_info
from ..kernels import RAW, TYPES, Kernels, Work, computed_type
from ..lines import lines_along

_PART = 256
"""Elements that a GPU sorts by comparing each with each."""
_WORTH = 4096
"""Elements that are worth a work item of a CPU."""


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of TopK: on a CPU a heap for each line, else sorted parts that are merged."""
    descriptor: Any = layer.descriptor
    info = input_info(layer, 0)
    if not descriptor.k or not info.elements:
        return Work(())
    defined = {
        "C": computed_type(info.dtype),
        "X": TYPES[info.dtype],
        "RAW": RAW[info.dtype.itemsize],
        "IS_FLOAT": int(info.dtype.is_float),
        "DOUBLES": int(info.dtype is DType.FLOAT64),
        "LARGEST": int(descriptor.largest),
    }
    lines, k = lines_along(info.sizes, descriptor.axis), np.uint32(descriptor.k)
    x, results = argument(layer, 0), (Output(0), Output(1))
    if kernels.is_cpu:
        kernel = kernels.get("selection/order.cl selection/heaps.cl", "keep_heaps", **defined)
        spread = kernels.each(lines.total, least=max(1, _WORTH // lines.size))
        return Work((Launch(kernel, (x, *results, lines.argument, k, np.uint32(lines.total)), *spread),))

    spread, n = kernels.each(info.elements), np.uint32(info.elements)

    def launch(name: str, *arguments: Any) -> Launch:
        kernel = kernels.get("selection/order.cl selection/runs.cl", name, **defined)
        return Launch(kernel, (x, *arguments, k, n), *spread)

    if lines.size <= _PART:
        return Work((launch("sort_lines", *results, lines.argument),))
    room = 4 * info.elements
    part, runs, others = _PART, Scratch(0), Scratch(room)
    launches = [launch("sort_parts", runs, lines.argument, np.uint32(part))]
    while 2 * part < lines.size:
        launches.append(launch("merge_runs", runs, others, lines.argument, np.uint32(part)))
        part, runs, others = 2 * part, others, runs
    launches.append(launch("merge_last", runs, *results, lines.argument, np.uint32(part)))
    return Work(tuple(launches), scratch=room * min(len(launches) - 1, 2))
