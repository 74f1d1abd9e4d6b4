"""What moves elements without computing: reshapes, permutations, slices, joins, paddings, fills."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail import Layer
from dovetail.layers import Concat, Fill, Pad, Split, Stack, Trilu

from ..driver.arguments import Launch, Output
from ..elementwise import argument, input_info
from ..kernels import RAW, Alias, Kernels, Work
from ..walking import contiguous
from ..walking.copying import Side, copy
from .element_bits import element_bits
from .padding import pad
from .parts import joined, split
from .views import view


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a layer that moves elements."""
    match layer.descriptor:
        case Concat() | Stack():
            return joined(layer, kernels)
        case Split():
            return split(layer, kernels)
        case Pad():
            return Work((pad(layer, kernels),))
        case Trilu():
            return _triangle(layer, kernels)
        case Fill():
            return Work((_fill(layer, kernels),))
    return _reordered(layer, kernels)


def _reordered(layer: Layer, kernels: Kernels) -> Work:
    """Return one strided copy: a view where no element moves."""
    info, result = input_info(layer, 0), layer.output.known_info
    itemsize = info.dtype.itemsize
    sizes, strides, start = view(layer.descriptor, info.sizes, result.sizes)
    steps = contiguous(sizes)
    alias = None
    if layer.constant(0) is None and all(
        size == 1 or mine == theirs for size, mine, theirs in zip(sizes, strides, steps, strict=True)
    ):
        alias = Alias("view", offset=start * itemsize if result.elements else 0)
    launch = copy(kernels, itemsize, sizes, Side(argument(layer, 0), strides, start), Side(Output(), steps), unless=alias)
    return Work((launch,), aliases=(alias,) if alias else (), is_elidable=alias is not None)


def _triangle(layer: Layer, kernels: Kernels) -> Work:
    info, descriptor = layer.output.known_info, layer.descriptor
    assert isinstance(descriptor, Trilu), "it was asked before"
    rows, columns = info.sizes[-2:]
    sizes: tuple[Any, ...] = (0, 0, 0, 0)
    if info.elements:
        k = max(-rows, min(descriptor.k, columns))  # beyond the matrix it changes nothing more
        sizes = (np.uint32(rows), np.uint32(columns), np.int32(k), np.uint32(descriptor.upper))
    items, group = kernels.each(info.elements)
    kernel = kernels.get("walking/moving.cl movement/movement.cl", "triangle", T=RAW[info.dtype.itemsize])
    launch = Launch(kernel, (argument(layer, 0), Output(), *sizes, np.uint32(info.elements)), items, group)
    return Work((launch,), aliases=(Alias("in place"),) if layer.constant(0) is None else ())


def _fill(layer: Layer, kernels: Kernels) -> Launch:
    info, descriptor = layer.output.known_info, layer.descriptor
    assert isinstance(descriptor, Fill), "it was asked before"
    items, group = kernels.each(info.elements)
    kernel = kernels.get("walking/moving.cl movement/movement.cl", "fill", T=RAW[info.dtype.itemsize])
    bits = np.uint64(element_bits(info.dtype, descriptor.value))
    return Launch(kernel, (Output(), bits, np.uint32(info.elements)), items, group)
