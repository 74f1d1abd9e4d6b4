"""Convolutions of 3 x 3 taps on a CPU, by Winograd's F(2 x 2, 3 x 3): as exact as direct sums."""

from __future__ import annotations

import numpy as np

from dovetail import Layer

from ..driver.arguments import ConstantArray, Input, Launch, Output, Scratch
from ..elementwise import input_info
from ..elementwise.epilogue import Epilogue
from ..kernels import TYPES, Kernels, Work
from .geometry import Geometry
from .tiles import UNITS_EACH, is_channels_last, rows_of, vector_files, vector_of
from .winograd import is_within_range, packed

_SIDE = 2
_NUMBERS_OF = (_SIDE + 2) ** 2
_MIN_CHANNELS = 16
"""For which the transforms pay, and filters likewise."""
_MIN_SQUARES = 8
"""For which the larger weights pay."""
_LARGE_WEIGHTS = 1 << 18
"""Floats of all filters, which are read for more squares at once so as to be read less often."""
_POINTS = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
_PAIRS = ("in_size", "out_size", "start")
_NUMBERS = (
    *("channels", "filters", "rows", "columns", "squares"),
    *("at_once", "blocks", "line", "each", "splits", "units", "scratch"),
)
_STRUCT = np.dtype(
    [(name, np.int32, 2) for name in _PAIRS]
    + [("in_at", np.uint32, 4), ("out_at", np.uint32, 4)]
    + [(name, np.uint32) for name in _NUMBERS]
)


def takes(layer: Layer, geometry: Geometry, kernels: Kernels) -> bool:
    """Say whether a convolution with constant weights is done so, and faster."""
    vector = vector_of(kernels)
    rows, columns = _squares(geometry)
    return (
        (geometry.taps, geometry.stride, geometry.between) == ((3, 3), (1, 1), (1, 1))
        and (geometry.groups, geometry.divide) == (1, (1, 1))
        and min(geometry.channels, geometry.filters) >= _MIN_CHANNELS
        and geometry.channels % vector == geometry.filters % vector == 0
        and geometry.batch * rows * columns >= _MIN_SQUARES
        and is_channels_last(geometry)
        and is_within_range(layer, geometry)
    )


def create(layer: Layer, geometry: Geometry, kernels: Kernels, epilogue: Epilogue) -> Work:
    """Return the work of a convolution that `takes` says yes to."""
    vector = vector_of(kernels)
    panel, tile = 2 * vector, rows_of(vector)
    rows, columns = _squares(geometry)
    squares, panels = geometry.batch * rows * columns, -(-geometry.filters // panel)
    wanted = UNITS_EACH * kernels.compute_units
    is_large = geometry.channels * geometry.filters * _NUMBERS_OF > _LARGE_WEIGHTS
    tiles = kernels.choose("squares", 2 if is_large else 1, 2, 1, 4)
    at_once = -(-squares // max(1, squares // (tiles * tile))) if tiles > 1 else tile
    blocks = -(-squares // at_once)
    each = max(1, panels // -(-wanted // blocks))
    splits = -(-panels // each)
    line = geometry.channels + vector  # off the powers of two, at which lines push each other out of the cache
    given = np.zeros((), _STRUCT)
    for name in ("in_at", "out_at", "channels", "filters", *_PAIRS):
        given[name] = getattr(geometry, name)
    given["rows"], given["columns"], given["squares"] = rows, columns, squares
    given["at_once"], given["blocks"], given["line"] = at_once, blocks, line
    given["each"], given["splits"], given["units"] = each, splits, blocks * splits
    given["scratch"] = _NUMBERS_OF * at_once * line
    weights, bias = packed(layer, geometry, _POINTS, panel)
    kernel = kernels.get(
        f"{vector_files(kernels, epilogue)} convolution/registers.cl convolution/winograd_small.cl",
        "convolve",
        T=TYPES[input_info(layer, 0).dtype],
        VECTOR=vector,
        BY_LINES=1,
        **epilogue.defined(vector),
    )
    items = min(blocks * splits, wanted)
    arguments = (Input(), ConstantArray(weights), ConstantArray(bias), Scratch(), Output(), given, *epilogue.arguments)
    return Work((Launch(kernel, arguments, (items,), (1,)),), items * int(given["scratch"]) * 4)


def _squares(geometry: Geometry) -> tuple[int, int]:
    """Return rows and columns of the squares of results of an image."""
    return -(-geometry.out_size[0] // _SIDE), -(-geometry.out_size[1] // _SIDE)
