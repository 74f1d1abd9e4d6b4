"""ScatterElements and ScatterNd.

Updates of one element meet it in row-major order, on every device: without a reduction the last one
stays, and sums do not depend on the schedule.
"""

from __future__ import annotations

import math

import numpy as np

from dovetail import DType, Layer
from dovetail.layers import ScatterElements, ScatterNd, ScatterReduction

from ..driver.arguments import Launch, Output, Reports
from ..elementwise import argument, input_info
from ..elementwise.functions import SOURCE
from ..kernels import RAW, TYPES, Alias, Kernels, Work
from ..walking import contiguous, merged
from ..walking.copying import Side, copy
from .positions import named, walked

_SOURCES = f"{SOURCE} indexing/positions.cl indexing/scatter.cl"
_MAX_AXES = 10
_GPU_GROUP = 64
_LINES = np.dtype(
    [
        ("size", np.uint32, _MAX_AXES),
        ("from", np.int32, _MAX_AXES),
        ("to", np.int32, _MAX_AXES),
        ("axes", np.uint32),
        ("count", np.uint32),
        ("count_stride", np.int32),
        ("named_size", np.uint32),
        ("named_stride", np.int32),
    ]
)
_INTEGERS = {
    DType.INT8: "char",
    DType.INT16: "short",
    DType.UINT8: "uchar",
    DType.UINT16: "ushort",
    DType.UINT32: "uint",
    DType.UINT64: "ulong",
}
_OF_FLOATS = {"add": "((v) + (w))", "mul": "((v) * (w))", "max": "largest(v, w)", "min": "smallest(v, w)"}
_OF_INTEGERS = {**_OF_FLOATS, "max": "max(v, w)", "min": "min(v, w)"}


def scattered(layer: Layer, kernels: Kernels) -> Work:
    """Return a copy of the input, which may be left out, and the updates."""
    info, descriptor = input_info(layer, 0), layer.descriptor
    assert isinstance(descriptor, ScatterElements | ScatterNd), "the others are no scatters"
    steps = contiguous(info.sizes)
    # What is an update too must stay as it is.
    is_apart = layer.inputs[0].source is not layer.inputs[2].source
    alias = Alias("in place") if layer.constant(0) is None and is_apart else None
    itemsize = info.dtype.itemsize
    whole = copy(kernels, itemsize, info.sizes, Side(argument(layer, 0), steps), Side(Output(), steps), unless=alias)
    make = _elements if isinstance(descriptor, ScatterElements) else _slices
    return Work((whole, make(layer, kernels)), aliases=(alias,) if alias else ())


def _elements(layer: Layer, kernels: Kernels) -> Launch:
    info, indices = input_info(layer, 0), input_info(layer, 1)
    axis = layer.descriptor.axis % info.rank  # type: ignore[attr-defined]  # ScatterElements
    ours, theirs = contiguous(indices.sizes), contiguous(info.sizes)
    count = indices.sizes[axis]
    lines = math.prod(indices.sizes[:axis] + indices.sizes[axis + 1 :]) if count else 0
    if lines:
        rest = [each[:axis] + each[axis + 1 :] for each in (indices.sizes, ours, theirs)]
        given = walked(_LINES, merged(rest[0], rest[1:]), "from", "to")
        given["count"], given["count_stride"] = count, ours[axis]
        given["named_size"], given["named_stride"] = info.sizes[axis], theirs[axis]
    else:
        given = np.zeros((), _LINES)
    kernel = kernels.get(_SOURCES, "scatter_elements", **_defined(layer))
    arguments = (argument(layer, 1), argument(layer, 2), Output(), Reports(), given, np.uint32(lines))
    return Launch(kernel, arguments, *kernels.each(lines, least=max(1, 1024 // max(count, 1))))


def _slices(layer: Layer, kernels: Kernels) -> Launch:
    info, indices = input_info(layer, 0), input_info(layer, 1)
    depth = indices.sizes[-1]
    inner, sizes = math.prod(info.sizes[depth:]), info.sizes[:depth]
    count, slices = (math.prod(indices.sizes[:-1]), math.prod(sizes)) if inner else (0, 0)
    kernel = kernels.get(_SOURCES, "scatter_slices", **_defined(layer))
    numbers = (count, inner, slices) if count else (0, 0, 0)
    given = named(sizes, contiguous(sizes)) if count else named((), ())
    arguments = (argument(layer, 1), argument(layer, 2), Output(), Reports(), given)
    return Launch(kernel, (*arguments, *map(np.uint32, numbers)), *_shares(kernels, count, inner, slices))


def _shares(kernels: Kernels, count: int, inner: int, slices: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return how many work items share columns and slices; each goes through all indices."""
    if not count:
        return (0, 0), (1, 1)
    if kernels.is_cpu:
        items = max(1, min(4 * kernels.compute_units, inner * count // 4096))
        columns = max(1, min(items, inner // 64))
        return (columns, max(1, min(items // columns, slices))), (1, 1)
    columns = min(-(-inner // _GPU_GROUP), 8 * kernels.compute_units) * _GPU_GROUP if inner >= _GPU_GROUP else max(inner, 1)
    owners = max(1, min(slices, 8 * kernels.compute_units * _GPU_GROUP // columns))
    return (columns, owners), (columns, 1) if columns < _GPU_GROUP else (_GPU_GROUP, 1)


def _defined(layer: Layer) -> dict[str, str]:
    """Return the types, and how an update meets what is there."""
    dtype, index = input_info(layer, 0).dtype, TYPES[input_info(layer, 1).dtype]
    reduction: ScatterReduction = layer.descriptor.reduction  # type: ignore[attr-defined]  # both scatters have one
    function, type_ = "(w)", RAW[dtype.itemsize]
    if reduction is not ScatterReduction.NONE:
        function = (_OF_FLOATS if dtype.is_float else _OF_INTEGERS)[reduction.value]
        type_ = _INTEGERS.get(dtype) or TYPES[dtype]
    is_computed = reduction is not ScatterReduction.NONE and dtype.is_float
    return {
        "T": type_,
        "I": index,
        "FUNCTION(v, w)": function,
        "IN(T, p, i)": "LOAD_AS(T, p, i)" if is_computed else "(p)[i]",
        "OUT(T, p, i, v)": "STORE_AS(T, p, i, v)" if is_computed else "(p)[i] = (v)",
    }
