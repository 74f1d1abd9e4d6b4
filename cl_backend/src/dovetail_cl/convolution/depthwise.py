"""Convolutions of single channels on a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail import Layer

from ..driver.arguments import ConstantArray, Input, Launch, Output, Scratch
from ..elementwise import input_info, reals
from ..elementwise.epilogue import Epilogue
from ..kernels import TYPES, Kernels, Work
from .geometry import Geometry
from .tiles import UNITS_EACH, is_channels_last, vector_epilogue, vector_files, vector_of

_ROWS = 4
"""Pixels, or rows of them, that are summed up together."""
_PACKED_FLOATS = 1 << 13
"""Of a packed plane, to stay in the nearest cache."""
_MAX_STRIDE = 4
"""Of columns of a plane that is packed; MAX_STRIDE of the source."""
_MAX_REACHED = 256
"""Rows, and columns, between the first and the last tap of a window of a plane that is packed."""
_UNROLLED = (3, 5)
"""Columns of taps that have programs of their own."""
_PAIRS = ("in_size", "out_size", "taps", "stride", "start", "between")
_NUMBERS = ("in_elements", "groups", "filters", "band", "bands", "residue", "chunk", "chunks", "units", "scratch")
_STRUCT = np.dtype(
    [(name, np.int32, 2) for name in _PAIRS]
    + [("in_at", np.uint32, 4), ("out_at", np.uint32, 4)]
    + [(name, np.uint32) for name in _NUMBERS]
)


def takes(geometry: Geometry, kernels: Kernels) -> bool:
    """Say whether a convolution with constant weights is one of single channels."""
    if geometry.channels != 1 or geometry.divide != (1, 1) or min(geometry.between) < 1:
        return False
    if is_channels_last(geometry):
        return geometry.filters == 1 and geometry.groups >= vector_of(kernels)
    reach = max((geometry.taps[i] - 1) * geometry.between[i] for i in range(2))
    return geometry.in_at[3] == geometry.out_at[3] == 1 and geometry.stride[1] <= _MAX_STRIDE and reach <= _MAX_REACHED


def create(layer: Layer, geometry: Geometry, kernels: Kernels, epilogue: Epilogue) -> Work:
    """Return the work of a convolution that `takes` says yes to."""
    given = np.zeros((), _STRUCT)
    for name in ("in_at", "out_at", "groups", "filters", *_PAIRS):
        given[name] = getattr(geometry, name)
    given["in_elements"] = input_info(layer, 0).elements
    weights, bias = reals(layer, 1), reals(layer, 2)
    assert weights is not None
    matrix = geometry.matrix(weights).reshape(geometry.groups * geometry.filters, -1)
    added = np.zeros(len(matrix), np.float32) if bias is None else bias.astype(np.float32)
    epilogue = vector_epilogue(geometry, epilogue)
    if is_channels_last(geometry):
        return _along_channels(layer, geometry, kernels, epilogue, given, np.ascontiguousarray(matrix.T), added)
    return _along_pixels(layer, geometry, kernels, epilogue, given, matrix, added)


def _along_channels(
    layer: Layer, geometry: Geometry, kernels: Kernels, epilogue: Epilogue, given: Any, weights: Any, bias: Any
) -> Work:
    vector = vector_of(kernels)
    rows, parts = geometry.batch * geometry.out_size[0], -(-geometry.groups // vector)
    wanted = -(-UNITS_EACH * kernels.compute_units // rows)
    given["chunk"] = max(1, parts // wanted) * vector
    given["chunks"] = -(-geometry.groups // int(given["chunk"]))
    given["units"] = rows * given["chunks"]
    items = min(int(given["units"]), UNITS_EACH * kernels.compute_units)
    arguments = (Input(), ConstantArray(weights), ConstantArray(bias), Output(), given, *epilogue.arguments)
    taps, stride = geometry.taps[1], geometry.stride[1]
    is_known = taps in _UNROLLED and stride <= 2 and geometry.between[1] == 1
    kernel = _kernel(layer, kernels, epilogue, 1, TAPS=taps if is_known else 0, STRIDE=stride if is_known else 0)
    return Work((Launch(kernel, arguments, (items,), (1,)),))


def _along_pixels(
    layer: Layer, geometry: Geometry, kernels: Kernels, epilogue: Epilogue, given: Any, weights: Any, bias: Any
) -> Work:
    vector, (height, width), (rows, columns) = vector_of(kernels), geometry.taps, geometry.out_size
    stride, between = geometry.stride, geometry.between
    residue = columns + (width - 1) * between[1] // stride[1] + 1
    line = residue * stride[1]
    reach = (height - 1) * between[0] + 1
    band = min(-(-rows // _ROWS), max(1, (_PACKED_FLOATS // line - reach) // stride[0] // _ROWS)) * _ROWS
    floats = ((band - 1) * stride[0] + reach) * line + 2 * vector
    given["band"], given["bands"], given["residue"], given["scratch"] = band, -(-rows // band), residue, floats
    given["units"] = geometry.batch * geometry.groups * given["bands"]
    places = [
        row * between[0] * line + column * between[1] % stride[1] * residue + column * between[1] // stride[1]
        for row in range(height)
        for column in range(width)
    ]
    items = min(int(given["units"]), UNITS_EACH * kernels.compute_units)
    constants = (ConstantArray(weights), ConstantArray(bias), ConstantArray(np.array(places, np.uint32)))
    arguments = (Input(), *constants, Scratch(), Output(), given, *epilogue.arguments)
    return Work((Launch(_kernel(layer, kernels, epilogue, 0), arguments, (items,), (1,)),), items * floats * 4)


def _kernel(layer: Layer, kernels: Kernels, epilogue: Epilogue, is_last: int, **defined: int) -> Any:
    return kernels.get(
        f"{vector_files(kernels, epilogue)} convolution/depthwise.cl",
        "convolve",
        T=TYPES[input_info(layer, 0).dtype],
        VECTOR=vector_of(kernels),
        CHANNELS_LAST=is_last,
        **defined,
        **epilogue.defined(vector_of(kernels)),
    )
