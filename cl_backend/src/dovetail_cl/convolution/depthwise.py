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
from .windows import WINDOWS, windows_defined, windows_of

_ROWS = 4
"""Pixels, or rows of them, that are summed up together."""
_PACKED_FLOATS = 1 << 13
"""Of a packed plane, to stay in the nearest cache."""
_MAX_STRIDE = 4
"""Of columns of a plane that is packed; MAX_STRIDE of the source."""
_MAX_REACHED = 256
"""Rows, and columns, between the first and the last tap of a window of a plane that is packed."""
_MAX_PACKED = 1 << 20
"""Floats of the rows that are packed for `_ROWS` rows of results: each work item has as many."""
_PAIRS = ("in_size", "out_size", "taps", "stride", "start", "between")
_NUMBERS = ("in_elements", "groups", "filters", "band", "bands", "residue", "units", "scratch")
_STRUCT = np.dtype(
    [(name, np.int32, 2) for name in _PAIRS]
    + [("in_at", np.uint32, 4), ("out_at", np.uint32, 4)]
    + [(name, np.uint32) for name in _NUMBERS]
)
_LAST = np.dtype(
    [("seen", WINDOWS), ("out_size", np.int32, 2), ("out_at", np.uint32, 4)]
    + [(name, np.uint32) for name in ("chunk", "chunks", "units")]
)
"""The same where channels are neighbours."""


def takes(geometry: Geometry, kernels: Kernels) -> bool:
    """Say whether a convolution with constant weights is one of single channels."""
    if geometry.channels != 1 or geometry.divide != (1, 1) or min(geometry.between) < 1:
        return False
    if is_channels_last(geometry):
        return geometry.filters == 1 and geometry.groups >= vector_of(kernels)
    reach = [(geometry.taps[i] - 1) * geometry.between[i] for i in range(2)]
    rows = (_ROWS - 1) * geometry.stride[0] + reach[0] + 1
    if rows * (geometry.out_size[1] * geometry.stride[1] + reach[1]) > _MAX_PACKED:
        return False
    return geometry.in_at[3] == geometry.out_at[3] == 1 and geometry.stride[1] <= _MAX_STRIDE and max(reach) <= _MAX_REACHED


def create(layer: Layer, geometry: Geometry, kernels: Kernels, epilogue: Epilogue) -> Work:
    """Return the work of a convolution that `takes` says yes to."""
    weights, bias = reals(layer, 1), reals(layer, 2)
    assert weights is not None
    matrix = geometry.matrix(weights).reshape(geometry.groups * geometry.filters, -1)
    added = np.zeros(len(matrix), np.float32) if bias is None else bias.astype(np.float32)
    epilogue = vector_epilogue(geometry, epilogue)
    if is_channels_last(geometry):
        return _along_channels(layer, geometry, kernels, epilogue, np.ascontiguousarray(matrix.T), added)
    return _along_pixels(layer, geometry, kernels, epilogue, matrix, added)


def _along_channels(layer: Layer, geometry: Geometry, kernels: Kernels, epilogue: Epilogue, weights: Any, bias: Any) -> Work:
    vector = vector_of(kernels)
    rows, parts = geometry.batch * geometry.out_size[0], -(-geometry.groups // vector)
    wanted = -(-UNITS_EACH * kernels.compute_units // rows)
    given = np.zeros((), _LAST)
    given["seen"], given["out_size"], given["out_at"] = windows_of(geometry), geometry.out_size, geometry.out_at
    given["chunk"] = max(1, parts // wanted) * vector
    given["chunks"] = -(-geometry.groups // int(given["chunk"]))
    given["units"] = rows * given["chunks"]
    items = min(int(given["units"]), UNITS_EACH * kernels.compute_units)
    arguments = (Input(), ConstantArray(weights), ConstantArray(bias), Output(), given, *epilogue.arguments)
    kernel = _kernel(layer, kernels, epilogue, "convolution/windows.cl ", CHANNELS_LAST=1, **windows_defined(geometry))
    return Work((Launch(kernel, arguments, (items,), (1,)),))


def _along_pixels(layer: Layer, geometry: Geometry, kernels: Kernels, epilogue: Epilogue, weights: Any, bias: Any) -> Work:
    vector, (height, width), (rows, columns) = vector_of(kernels), geometry.taps, geometry.out_size
    given = np.zeros((), _STRUCT)
    for name in ("in_at", "out_at", "groups", "filters", *_PAIRS):
        given[name] = getattr(geometry, name)
    given["in_elements"] = input_info(layer, 0).elements
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
    return Work(
        (Launch(_kernel(layer, kernels, epilogue, "", CHANNELS_LAST=0), arguments, (items,), (1,)),), items * floats * 4
    )


def _kernel(layer: Layer, kernels: Kernels, epilogue: Epilogue, files: str, **defined: int) -> Any:
    return kernels.get(
        f"{vector_files(kernels, epilogue)} {files}convolution/depthwise.cl",
        "convolve",
        T=TYPES[input_info(layer, 0).dtype],
        VECTOR=vector_of(kernels),
        **defined,
        **epilogue.defined(vector_of(kernels)),
    )
