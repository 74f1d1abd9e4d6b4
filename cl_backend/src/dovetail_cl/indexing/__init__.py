"""What picks and places elements by indices; one that is out of range ends the run."""

from __future__ import annotations

import math

import numpy as np

from dovetail import Layer
from dovetail.layers import Gather, GatherElements, GatherNd, OneHot

from ..driver.arguments import Launch, Output, Reports
from ..elementwise import argument, input_info
from ..kernels import RAW, TYPES, Kernels, Work
from ..walking import contiguous, merged
from .positions import named, walked
from .scattering import scattered

_SOURCES = "walking/moving.cl indexing/positions.cl indexing/gather.cl"
_MAX_AXES = 12
_PICKS = np.dtype(
    [
        ("size", np.uint32, _MAX_AXES),
        ("stride", np.int32, _MAX_AXES),
        ("axes", np.uint32),
        ("named_size", np.uint32),
        ("named_stride", np.int32),
    ]
)


def create(layer: Layer, kernels: Kernels) -> Work:
    """Return the work of a layer that picks or places elements."""
    match layer.descriptor:
        case Gather() as descriptor:
            return Work((_gather(layer, kernels, descriptor),))
        case GatherNd() as descriptor:
            return Work((_gather_nd(layer, kernels, descriptor),))
        case GatherElements() as descriptor:
            return Work((_gather_elements(layer, kernels, descriptor),))
        case OneHot() as descriptor:
            return Work((_one_hot(layer, kernels, descriptor),))
    return scattered(layer, kernels)


def _gather(layer: Layer, kernels: Kernels, descriptor: Gather) -> Launch:
    info, indices = input_info(layer, 0), input_info(layer, 1)
    axis, batches = descriptor.axis % info.rank, descriptor.batch_dims
    outer, count = math.prod(info.sizes[batches:axis]), math.prod(indices.sizes[batches:])
    inner = math.prod(info.sizes[axis + 1 :])
    return _rows(layer, kernels, (info.sizes[axis],), (inner,), outer, count, info.sizes[axis] * inner, inner)


def _gather_nd(layer: Layer, kernels: Kernels, descriptor: GatherNd) -> Launch:
    info, indices = input_info(layer, 0), input_info(layer, 1)
    batches, depth = descriptor.batch_dims, indices.sizes[-1]
    sizes, strides = (each[batches : batches + depth] for each in (info.sizes, contiguous(info.sizes)))
    count, inner = math.prod(indices.sizes[batches:-1]), math.prod(info.sizes[batches + depth :])
    return _rows(layer, kernels, sizes, strides, 1, count, math.prod(info.sizes[batches:]), inner)


def _rows(
    layer: Layer,
    kernels: Kernels,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    outer: int,
    count: int,
    line: int,
    inner: int,
) -> Launch:
    """Return the launch that gathers slices; for the numbers see the kernel."""
    result, indices = layer.output.known_info, input_info(layer, 1)
    counts = (outer, count, line, inner) if result.elements else (0, 0, 0, 0)
    given = named(sizes, strides) if result.elements else named((), ())
    kernel = kernels.get(_SOURCES, "gather", T=RAW[result.dtype.itemsize], I=TYPES[indices.dtype])
    arguments = (argument(layer, 0), argument(layer, 1), Output(), Reports(), given)
    items, group = kernels.each(result.elements)
    return Launch(kernel, (*arguments, *map(np.uint32, counts), np.uint32(result.elements)), items, group)


def _gather_elements(layer: Layer, kernels: Kernels, descriptor: GatherElements) -> Launch:
    info, indices = input_info(layer, 0), input_info(layer, 1)
    axis, strides = descriptor.axis % info.rank, contiguous(info.sizes)
    elements = indices.elements
    fixed = (*strides[:axis], 0, *strides[axis + 1 :])
    given = walked(_PICKS, merged(indices.sizes, [fixed, contiguous(indices.sizes)]) if elements else (), "stride")
    if elements:
        given["named_size"], given["named_stride"] = info.sizes[axis], strides[axis]
    kernel = kernels.get(_SOURCES, "gather_elements", T=RAW[info.dtype.itemsize], I=TYPES[indices.dtype])
    arguments = (argument(layer, 0), argument(layer, 1), Output(), Reports(), given, np.uint32(elements))
    return Launch(kernel, arguments, *kernels.each(elements, least=1024))


def _one_hot(layer: Layer, kernels: Kernels, descriptor: OneHot) -> Launch:
    indices, result = input_info(layer, 0), layer.output.known_info
    inner = math.prod(indices.sizes[descriptor.axis % result.rank :])
    numbers = (descriptor.depth, inner, result.elements) if result.elements else (0, 0, 0)
    kernel = kernels.get(_SOURCES, "one_hot", T=RAW[result.dtype.itemsize], I=TYPES[indices.dtype])
    arguments = (argument(layer, 0), argument(layer, 1), Output(), *map(np.uint32, numbers))
    return Launch(kernel, arguments, *kernels.each(result.elements))
