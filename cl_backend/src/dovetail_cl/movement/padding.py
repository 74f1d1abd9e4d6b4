"""Pad, in every mode: the position alone says which element of the input it is."""

from __future__ import annotations

import numpy as np

from dovetail import Layer
from dovetail.layers import Pad, PadMode

from ..driver.arguments import Launch, Output
from ..elementwise import argument, input_info
from ..kernels import RAW, Kernels
from .element_bits import element_bits

_MAX_AXES = 12
_MODES = (PadMode.CONSTANT, PadMode.EDGE, PadMode.REFLECT, PadMode.SYMMETRIC, PadMode.WRAP)
_PADDING = np.dtype(
    [
        ("size", np.uint32, _MAX_AXES),
        ("count", np.uint32, _MAX_AXES),
        ("first", np.int32, _MAX_AXES),
        ("axes", np.uint32),
        ("how", np.uint32),
    ]
)


def pad(layer: Layer, kernels: Kernels) -> Launch:
    """Return the launch that pads."""
    info, result, descriptor = input_info(layer, 0), layer.output.known_info, layer.descriptor
    assert isinstance(descriptor, Pad), "it was asked before"
    given = np.zeros((), _PADDING)
    if result.elements:
        axes = _merged(descriptor, info.sizes, result.sizes)
        for number, (size, count, first) in enumerate(reversed(axes)):
            given["size"][number], given["count"][number], given["first"][number] = size, count, first
        given["axes"], given["how"] = len(axes), _MODES.index(descriptor.mode)
    fill = np.uint64(element_bits(info.dtype, descriptor.value))
    items, group = kernels.each(result.elements)
    kernel = kernels.get("walking/moving.cl movement/movement.cl", "pad", T=RAW[info.dtype.itemsize])
    return Launch(kernel, (argument(layer, 0), Output(), given, fill, np.uint32(result.elements)), items, group)


def _merged(descriptor: Pad, sizes: tuple[int, ...], counts: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Return size, count in the result, and first position of axes that are padded by themselves.

    An axis without padding becomes one with the axis outside of it: where that has none either, or
    where what is outside is a fill.
    """
    axes: list[tuple[int, int, int]] = []
    for size, count, before in zip(sizes, counts, descriptor.before, strict=True):
        if axes and (size, before) == (count, 0):
            outer, outer_count, first = axes[-1]
            if descriptor.mode is PadMode.CONSTANT or (outer, first) == (outer_count, 0):
                axes[-1] = (outer * size, outer_count * size, first * size)
                continue
        axes.append((size, count, -before))
    return axes or [(1, 1, 0)]
