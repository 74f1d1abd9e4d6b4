"""Convolutions of single channels on a GPU."""

from __future__ import annotations

import numpy as np

from dovetail import Layer

from ..driver.arguments import ConstantArray, Input, Launch, Output
from ..elementwise import input_info, reals
from ..elementwise.epilogue import Epilogue
from ..kernels import TYPES, Kernels, Work
from .geometry import Geometry
from .tiles import is_channels_last

_ROWS = (4, 2, 1)
"""Of a work item."""
_BUSY = 512
"""Work items that a compute unit should get, at least."""
_MAX_FILTERS = 8
"""Of a channel: more are worth tiles."""
_UNROLLED = ((3, 3), (5, 5))
"""Taps that have programs of their own, with strides of 1 and 2."""
_PAIRS = ("in_size", "out_size", "taps", "stride", "start", "between")
_STRUCT = np.dtype(
    [(name, np.int32, 2) for name in _PAIRS]
    + [("in_at", np.uint32, 4), ("out_at", np.uint32, 4)]
    + [(name, np.uint32) for name in ("count", "filters", "blocks")]
    + [("weight_at", np.uint32, 2)]
)


def takes(geometry: Geometry) -> bool:
    """Say whether a convolution with constant weights is one of single channels, of few filters."""
    return geometry.channels == 1 and geometry.filters <= _MAX_FILTERS and geometry.divide == (1, 1)


def create(layer: Layer, geometry: Geometry, kernels: Kernels, epilogue: Epilogue) -> Work:
    """Return the work of a convolution that `takes` says yes to."""
    rows = next((rows for rows in _ROWS if geometry.results >= rows * _BUSY * kernels.compute_units), 1)
    blocks = -(-geometry.out_size[0] // rows)
    weights, bias = reals(layer, 1), reals(layer, 2)
    assert weights is not None
    matrix = geometry.matrix(weights).reshape(geometry.groups * geometry.filters, -1)
    added = np.zeros(len(matrix), np.float32) if bias is None else bias.astype(np.float32)
    is_last = is_channels_last(geometry)
    given = np.zeros((), _STRUCT)
    for name in ("in_at", "out_at", "filters", *_PAIRS):
        given[name] = getattr(geometry, name)
    given["count"], given["blocks"] = len(matrix), blocks
    given["weight_at"] = (1, len(matrix)) if is_last else (matrix.shape[1], 1)
    (down, across), (stride, other) = geometry.taps, geometry.stride
    is_known = geometry.taps in _UNROLLED and geometry.between == (1, 1) and stride == other and stride <= 2
    kernel = kernels.get(
        f"{epilogue.source()} convolution/planes.cl",
        "convolve",
        T=TYPES[input_info(layer, 0).dtype],
        ROWS=rows,
        CHANNELS_LAST=int(is_last),
        TAPS_DOWN=down if is_known else 0,
        TAPS_ACROSS=across if is_known else 0,
        STRIDE=stride if is_known else 0,
        **epilogue.defined(),
    )
    items = geometry.batch * len(matrix) * blocks * geometry.out_size[1]
    constants = (ConstantArray(np.ascontiguousarray(matrix.T) if is_last else matrix), ConstantArray(added))
    arguments = (Input(), *constants, Output(), given, np.uint32(items), *epilogue.arguments)
    return Work((Launch(kernel, arguments, *kernels.each(items)),))
