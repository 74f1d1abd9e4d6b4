"""Quantized convolutions of single channels on a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import Layer

from ..convolution.depthwise import takes
from ..convolution.geometry import Geometry
from ..convolution.tiles import UNITS_EACH, is_channels_last, vector_of
from ..driver.arguments import ConstantArray, Input, Launch, Output, Scratch
from ..elementwise import input_info
from ..kernels import TYPES, Kernels, Work
from .arithmetic import SOURCE
from .scaling import Scaling, whole_weights

__all__ = ["create", "takes"]

_ROWS = 4
"""Pixels, or rows of them, that are summed up together."""
_PACKED_TERMS = 1 << 13
"""Of a packed plane, to stay in the nearest cache."""
_PAIRS = ("in_size", "out_size", "taps", "stride", "start", "between")
_NUMBERS = ("in_elements", "groups", "filters", "pairs", "band", "bands", "residue", "chunk", "chunks", "units", "scratch")
_STRUCT = np.dtype(
    [(name, np.int32, 2) for name in _PAIRS]
    + [("in_at", np.uint32, 4), ("out_at", np.uint32, 4)]
    + [(name, np.uint32) for name in _NUMBERS]
    + [(name, np.int32) for name in ("zero", "out_zero", "low", "high")]
)


def create(layer: Layer, geometry: Geometry, scaling: Scaling, kernels: Kernels) -> Work:
    """Return the work of a convolution with constant weights that `takes` says yes to."""
    given = np.zeros((), _STRUCT)
    for name in ("in_at", "out_at", "groups", "filters", *_PAIRS):
        given[name] = getattr(geometry, name)
    given["in_elements"] = input_info(layer, 0).elements
    (given["zero"], given["out_zero"]), (given["low"], given["high"]) = scaling.zeros, scaling.bounds
    (height, width), pairs = geometry.taps, -(-geometry.taps[0] // 2)
    given["pairs"] = pairs
    weights = whole_weights(layer, geometry, scaling).reshape(-1, height, width)
    terms = np.zeros((len(weights), 2 * pairs, width), np.int16)
    terms[:, :height] = weights
    # [filter, pair, column, 2]
    terms = np.ascontiguousarray(terms.reshape(-1, pairs, 2, width).swapaxes(2, 3)).reshape(len(weights), -1, 2)
    bias, seen = layer.constant(2), weights.sum((1, 2), dtype=np.int64) * scaling.zeros[0]
    added = ((0 if bias is None else bias.astype(np.int64)) - seen).astype(np.int32)
    is_last = is_channels_last(geometry)
    if is_last:
        terms = np.ascontiguousarray(terms.swapaxes(0, 1))
    constants = [ConstantArray(one) for one in (terms, added, scaling.factors)]
    kernel = kernels.get(
        f"{SOURCE} quantized/vectors.cl quantized/depthwise.cl",
        "convolve",
        T=TYPES[input_info(layer, 0).dtype],
        VECTOR=vector_of(kernels),
        CHANNELS_LAST=int(is_last),
    )
    if is_last:
        return _along_channels(kernel, geometry, kernels, given, constants)
    return _along_pixels(kernel, geometry, kernels, given, constants)


def _along_channels(kernel: Any, geometry: Geometry, kernels: Kernels, given: Any, constants: list[ConstantArray]) -> Work:
    vector = vector_of(kernels)
    rows, parts = geometry.batch * geometry.out_size[0], -(-geometry.groups // vector)
    wanted = -(-UNITS_EACH * kernels.compute_units // rows)
    given["chunk"] = max(1, parts // wanted) * vector
    given["chunks"] = -(-geometry.groups // int(given["chunk"]))
    given["units"] = rows * given["chunks"]
    items = min(int(given["units"]), UNITS_EACH * kernels.compute_units)
    return Work((Launch(kernel, (Input(), *constants, Output(), given), (items,), (1,)),))


def _along_pixels(kernel: Any, geometry: Geometry, kernels: Kernels, given: Any, constants: list[ConstantArray]) -> Work:
    vector, (height, width), (rows, columns) = vector_of(kernels), geometry.taps, geometry.out_size
    stride, between = geometry.stride, geometry.between
    residue = columns + (width - 1) * between[1] // stride[1] + 1
    line = residue * stride[1]
    reach = (height - 1) * between[0] + 1
    band = min(-(-rows // _ROWS), max(1, (_PACKED_TERMS // line - reach) // stride[0] // _ROWS)) * _ROWS
    room = ((band - 1) * stride[0] + reach) * line + 2 * vector
    given["band"], given["bands"], given["residue"], given["scratch"] = band, -(-rows // band), residue, room
    given["units"] = geometry.batch * geometry.groups * given["bands"]
    places: npt.NDArray[np.uint32] = np.array(
        [
            row * between[0] * line + column * between[1] % stride[1] * residue + column * between[1] // stride[1]
            for row in range(0, height, 2)
            for column in range(width)
        ],
        np.uint32,
    )
    items = min(int(given["units"]), UNITS_EACH * kernels.compute_units)
    arguments = (Input(), *constants, ConstantArray(places), Scratch(), Output(), given)
    return Work((Launch(kernel, arguments, (items,), (1,)),), items * room * 4)
