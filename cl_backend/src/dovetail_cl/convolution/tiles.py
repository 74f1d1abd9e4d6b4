"""Convolutions on a CPU, by tiles of sums that registers hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import DType, Layer

from ..driver.arguments import ConstantArray, Input, Launch, Output, Scratch
from ..elementwise import input_info, reals
from ..elementwise.epilogue import Epilogue
from ..kernels import TYPES, Kernels, Work
from .geometry import Geometry

_PAIRS = ("in_size", "out_size", "taps", "stride", "start", "between")
_NUMBERS = (
    *("out_from", "in_elements", "channels", "filters", "pixels", "depth", "line"),
    *("at_once", "blocks", "each", "splits", "units", "scratch", "is_dense"),
)
_STRUCT = np.dtype(
    [(name, np.int32, 2) for name in _PAIRS]
    + [("in_at", np.uint32, 4), ("out_at", np.uint32, 4)]
    + [(name, np.uint32) for name in _NUMBERS]
)
_PACKED_FLOATS = 1 << 16
"""Packed pixels that stay in the nearer caches while weights pass by."""
UNITS_EACH = 4
"""Work units that each compute unit should get, at least."""


def vector_of(kernels: Kernels) -> int:
    """Return the floats of a vector of a CPU."""
    width = kernels.device.facts["vector_width"]
    return width if width in (4, 8, 16) else 4


def rows_of(vector: int) -> int:
    """Return the rows of the largest tile that registers hold."""
    return 12 if vector == 16 else 6


def vector_files(kernels: Kernels, epilogue: Epilogue) -> str:
    """Return the sources that come before those of a kernel for a CPU."""
    return f"{epilogue.source(vector_of(kernels))} convolution/vectors.cl convolution/results.cl"


def vector_epilogue(geometry: Geometry, epilogue: Epilogue) -> Epilogue:
    """Return an epilogue for vectors along channels, or else along the pixels of one channel."""
    if is_channels_last(geometry):
        return epilogue
    operands = tuple(one._replace(way="each") if one.way == "line" else one for one in epilogue.operands)
    return epilogue._replace(operands=operands)


def is_channels_last(geometry: Geometry) -> bool:
    """Say whether the channels of a pixel are neighbours."""
    return geometry.in_at[1] == geometry.out_at[1] == 1


def create(layer: Layer, geometry: Geometry, kernels: Kernels, epilogue: Epilogue) -> Work:
    """Return the work of a convolution whose weights and bias are constant."""
    parts = [_launch(layer, phase, kernels, vector_epilogue(geometry, epilogue)) for phase in geometry.phases()]
    return Work(tuple(launch for launch, _ in parts), max(scratch for _, scratch in parts))


def _launch(layer: Layer, geometry: Geometry, kernels: Kernels, epilogue: Epilogue) -> tuple[Launch, int]:
    """Return the launch for a phase of a convolution, and the bytes of its scratch memory."""
    dtype = input_info(layer, 0).dtype
    vector = vector_of(kernels)
    panel, rows = 2 * vector, rows_of(vector)
    is_last = is_channels_last(geometry)
    given = np.zeros((), _STRUCT)
    for name in ("in_at", "out_at", "out_from", "channels", "filters", "depth", *_PAIRS):
        given[name] = getattr(geometry, name)
    given["in_elements"] = input_info(layer, 0).elements
    line = -(-geometry.depth // vector) * vector + vector
    wanted = kernels.choose("units", UNITS_EACH, 8, 2, 1, 16) * kernels.compute_units
    if is_last:
        pixels, parts = geometry.batch * geometry.pixels, -(-geometry.filters // panel)
        share = -(-pixels * geometry.groups // wanted)
        together = max(1, min(_PACKED_FLOATS // (rows * line), -(-share // rows)))
        at_once = kernels.choose("rows", together, together // 2, 2 * together) * rows
        blocks, floats = -(-pixels // at_once), at_once * line
    else:
        pixels, parts, at_once = geometry.pixels, -(-geometry.filters // rows), panel
        blocks, floats = geometry.batch * -(-pixels // panel), geometry.depth * panel + panel
    each = max(1, parts // -(-wanted // max(1, blocks * geometry.groups)))
    splits = -(-parts // each)
    units = blocks * geometry.groups * splits
    given["pixels"], given["line"], given["at_once"], given["blocks"] = pixels, line, at_once, blocks
    given["each"], given["splits"], given["units"], given["scratch"] = each, splits, units, floats
    filters, (rows_out, columns) = geometry.groups * geometry.filters, geometry.out_size
    given["is_dense"] = geometry.out_at == (rows_out * columns * filters, 1, columns * filters, filters)
    kernel = kernels.get(
        f"{vector_files(kernels, epilogue)} convolution/registers.cl convolution/runs.cl convolution/tiles.cl",
        "convolve",
        T=TYPES[dtype],
        VECTOR=vector,
        BY_LINES=int(is_last),
        CHANNELS_LAST=int(is_last),
        IN_PLACE=int(geometry.is_pointwise and dtype is DType.FLOAT32),
        **epilogue.defined(vector),
    )
    weights, bias = _packed(layer, geometry, parts, panel if is_last else rows)
    items = min(units, wanted)
    arguments = (Input(), ConstantArray(weights), ConstantArray(bias), Scratch(), Output(), given, *epilogue.arguments)
    return Launch(kernel, arguments, (items,), (1,)), items * floats * 4


def _packed(layer: Layer, geometry: Geometry, parts: int, width: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return weights [group, part, depth, filter] and bias [group, part, filter], padded."""
    weights, bias = reals(layer, 1), reals(layer, 2)
    assert weights is not None
    padded = np.zeros((geometry.groups, parts * width, geometry.depth), np.float32)
    padded[:, : geometry.filters] = geometry.matrix(weights).reshape(geometry.groups, geometry.filters, geometry.depth)
    packed = np.ascontiguousarray(padded.reshape(geometry.groups, parts, width, geometry.depth).swapaxes(2, 3))
    added = np.zeros((geometry.groups, parts * width), np.float32)
    if bias is not None:
        added[:, : geometry.filters] = bias.reshape(geometry.groups, geometry.filters)
    return packed, added
