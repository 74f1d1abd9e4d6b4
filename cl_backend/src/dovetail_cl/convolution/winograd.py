"""Convolutions of 3 x 3 taps on a CPU, by Winograd's F(4 x 4, 3 x 3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import Layer

from ..driver.arguments import ConstantArray, Input, Launch, Output, Scratch
from ..elementwise import input_info, reals
from ..elementwise.epilogue import Epilogue
from ..kernels import TYPES, Kernels, Work
from .geometry import Geometry
from .tiles import UNITS_EACH, is_channels_last, rows_of, vector_files, vector_of

_SIDE = 4
_POINTS = (_SIDE + 2) ** 2
_MIN_CHANNELS = 16
"""For which the transforms pay, and filters likewise."""
_MIN_SQUARES = 8
"""For which the larger weights pay."""
_MAX_NUMBERS = 1 << 24
"""Of all squares of an image, which scratch memory holds."""
_MAX_SUMS = 4096.0
"""Bound of all values in between, per channel, as a multiple of |weight * element|."""
_LARGEST_ELEMENT = 2.0**63
_SMALLEST_WEIGHT = 2.0**-100
_PAIRS = ("in_size", "out_size", "start")
_NUMBERS = (
    *("channels", "filters", "rows", "columns", "squares"),
    *("at_once", "blocks", "line", "units", "scratch"),
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
        and _MIN_SQUARES <= geometry.batch * rows * columns <= _MAX_NUMBERS // _POINTS // geometry.channels
        and is_channels_last(geometry)
        and is_within_range(layer, geometry)
    )


def create(layer: Layer, geometry: Geometry, kernels: Kernels, epilogue: Epilogue) -> Work:
    """Return the work of a convolution that `takes` says yes to."""
    vector = vector_of(kernels)
    panel, tile = 2 * vector, rows_of(vector)
    rows, columns = _squares(geometry)
    squares = geometry.batch * rows * columns
    panels = -(-geometry.filters // panel)
    at_once = 2 * tile  # so that weights are brought from afar half as often; unless there is no other work
    if squares <= at_once and panels < 2 * kernels.compute_units:
        at_once = tile
    at_once = kernels.choose("squares", at_once // tile, 2, 1, 4) * tile
    blocks = -(-squares // at_once)
    given = np.zeros((), _STRUCT)
    for name in ("in_at", "out_at", "channels", "filters", *_PAIRS):
        given[name] = getattr(geometry, name)
    line = geometry.channels + vector  # off the powers of two, at which lines push each other out of the cache
    given["rows"], given["columns"], given["squares"] = rows, columns, squares
    given["at_once"], given["blocks"], given["line"] = at_once, blocks, line
    numbers = blocks * at_once * _POINTS * line
    most = UNITS_EACH * kernels.compute_units
    transforming, multiplying = given.copy(), given.copy()
    transforming["units"] = geometry.batch * rows * (geometry.channels // vector)
    transforming["scratch"] = (_SIDE + 2) * (columns * _SIDE + 2) * vector
    multiplying["units"] = panels * blocks
    multiplying["scratch"] = at_once * _POINTS * panel
    weights, bias = packed(layer, geometry, _points(), panel)
    kernel = _Kernels(layer, kernels, epilogue)
    first, second = min(int(transforming["units"]), most), min(int(multiplying["units"]), most)
    own = Scratch(numbers * 4)
    launches = (
        Launch(kernel.get("transform"), (Input(), own, Scratch(), transforming), (first,), (1,)),
        Launch(
            kernel.get("multiply"),
            (Scratch(), ConstantArray(weights), ConstantArray(bias), own, Output(), multiplying, *epilogue.arguments),
            (second,),
            (1,),
        ),
    )
    each = max(first * int(transforming["scratch"]), second * int(multiplying["scratch"]))
    return Work(launches, (numbers + each) * 4)


class _Kernels:
    """The two kernels of a layer."""

    def __init__(self, layer: Layer, kernels: Kernels, epilogue: Epilogue) -> None:
        self._kernels, self._epilogue = kernels, epilogue
        self._defined = {
            "T": TYPES[input_info(layer, 0).dtype],
            "VECTOR": vector_of(kernels),
            "BY_LINES": 1,
            **self._epilogue.defined(vector_of(kernels)),
        }

    def get(self, name: str) -> Any:
        files = f"{vector_files(self._kernels, self._epilogue)} convolution/registers.cl convolution/winograd.cl"
        return self._kernels.get(files, name, **self._defined)


def _squares(geometry: Geometry) -> tuple[int, int]:
    """Return rows and columns of the squares of results of an image."""
    return -(-geometry.out_size[0] // _SIDE), -(-geometry.out_size[1] // _SIDE)


def is_within_range(layer: Layer, geometry: Geometry) -> bool:
    """Say whether no value in between overflows, or vanishes, where the results would not."""
    weights = geometry.matrix(_weights(layer))
    largest = float(np.abs(weights).max())  # NaN where there is one
    limit = float(np.finfo(np.float32).max) / (_MAX_SUMS * _LARGEST_ELEMENT * weights.shape[-1])
    return largest == 0.0 or _SMALLEST_WEIGHT <= largest <= limit


def packed(layer: Layer, geometry: Geometry, points: npt.NDArray[Any], panel: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return transformed weights [panel, point, channel, filter] and the bias, both padded.

    Args:
        layer: The convolution.
        geometry: Its own.
        points: What makes the numbers of a line of three weights.
        panel: Filters that lie side by side.
    """
    panels = -(-geometry.filters // panel)
    padded = np.zeros((panels * panel, 3, 3, geometry.channels))
    padded[: geometry.filters] = geometry.matrix(_weights(layer))[0]
    by_column = np.tensordot(points, padded, ([1], [2]))  # point, filter, row, channel
    numbers = np.tensordot(points, by_column, ([1], [2])).astype(np.float32)  # point, point, filter, channel
    numbers = numbers.reshape(len(points) ** 2, panels, panel, geometry.channels)
    bias = reals(layer, 2)
    added = np.zeros(panels * panel, np.float32)
    if bias is not None:
        added[: geometry.filters] = bias
    return np.ascontiguousarray(numbers.transpose(1, 0, 3, 2)), added


def _weights(layer: Layer) -> npt.NDArray[Any]:
    weights = reals(layer, 1)
    assert weights is not None
    return weights


def _points() -> npt.NDArray[Any]:
    """Return what makes the numbers of a line of three weights."""
    a, b = 0.625, 1.5
    of_a, of_b = 1 / (2 * a * a * (a * a - b * b)), 1 / (2 * b * b * (b * b - a * a))
    return np.array(
        [
            [1 / (a * a * b * b), 0, 0],
            [of_a, of_a * a, of_a * a * a],
            [of_a, -of_a * a, of_a * a * a],
            [of_b, of_b * b, of_b * b * b],
            [of_b, -of_b * b, of_b * b * b],
            [0, 0, 1],
        ]
    )
