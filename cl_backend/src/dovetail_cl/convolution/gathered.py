"""Convolutions on a GPU, by slices of weights and of pixels in local memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import Layer

from ..driver.arguments import ConstantArray, Input, Launch, Output, Scratch
from ..elementwise import input_info
from ..elementwise.epilogue import Epilogue
from ..kernels import TYPES, Kernels, Work
from .geometry import LARGEST_POSITION, Geometry
from .tiles import is_channels_last

_DEPTH = 16
_GROUP = (16, 16, 1)
_MOST_SPLITS = 16
_LEAST_SLICES = 4
"""Slices of the depth that are worth a split."""
_LEAST_FILTERS = 16
"""Of a group, for which a tile pays where there are many groups."""
_PAIRS = ("in_size", "out_size", "stride", "start")
_NUMBERS = ("out_from", "groups", "channels", "filters", "pixels", "padded", "depth", "slices", "splits")
_STRUCT = np.dtype(
    [(name, np.int32, 2) for name in _PAIRS]
    + [("in_at", np.uint32, 4), ("out_at", np.uint32, 4)]
    + [(name, np.uint32) for name in _NUMBERS]
)


def takes(geometry: Geometry, kernels: Kernels) -> bool:
    """Say whether a convolution with constant weights is worth tiles."""
    return (geometry.groups == 1 or geometry.filters >= _LEAST_FILTERS) and kernels.device.facts["max_group"] >= 256


def create(layer: Layer, geometry: Geometry, kernels: Kernels, epilogue: Epilogue) -> Work:
    """Return the work of a convolution whose weights and bias are constant."""
    launches: list[Launch] = []
    scratch = 0
    for phase in geometry.phases():
        more, floats = _launches(layer, phase, kernels, epilogue)
        launches += more
        scratch = max(scratch, floats * 4)
    return Work(tuple(launches), scratch)


def _launches(layer: Layer, geometry: Geometry, kernels: Kernels, epilogue: Epilogue) -> tuple[list[Launch], int]:
    """Return the launches for a phase of a convolution, and the floats of their scratch memory."""
    pixels = geometry.batch * geometry.pixels
    quads = 2 if _groups(geometry, 128) >= 2 * kernels.compute_units else 1
    tile = 64 * quads
    depth = -(-max(geometry.depth, 1) // _DEPTH) * _DEPTH
    splits = _splits(_groups(geometry, tile), depth, kernels)
    slices = -(-depth // _DEPTH // splits) * _DEPTH
    splits = -(-depth // slices)
    given = np.zeros((), _STRUCT)
    for name in ("in_at", "out_at", "out_from", "groups", "channels", "filters", *_PAIRS):
        given[name] = getattr(geometry, name)
    given["pixels"], given["padded"] = pixels, -(-geometry.filters // tile) * tile
    given["depth"], given["slices"], given["splits"] = depth, slices, splits
    defined = {
        "T": TYPES[input_info(layer, 0).dtype],
        "QUADS": quads,
        "CHANNELS_LAST": int(is_channels_last(geometry)),
        **epilogue.defined(),
    }
    files = f"{epilogue.source()} convolution/gathered.cl"
    weights, bias = _packed(layer, geometry, depth, int(given["padded"]))
    constants = (ConstantArray(weights), ConstantArray(bias), ConstantArray(_table(geometry, depth)))
    sizes = (-(-pixels // tile) * 16, -(-geometry.filters // tile) * 16, geometry.groups * splits)
    arguments = (Input(), *constants, Scratch(), Output(), given, *epilogue.arguments)
    launches = [Launch(kernels.get(files, "convolve", **defined), arguments, sizes, _GROUP)]
    if splits > 1:
        items, group = kernels.each(geometry.results)
        finishing = (Scratch(), ConstantArray(bias), Output(), given, np.uint32(geometry.results), *epilogue.arguments)
        launches.append(Launch(kernels.get(files, "finish", **defined), finishing, items, group))
    return launches, splits * geometry.results if splits > 1 else 1


def _groups(geometry: Geometry, tile: int) -> int:
    """Return how many work groups compute all tiles of some size."""
    return -(-geometry.batch * geometry.pixels // tile) * -(-geometry.filters // tile) * geometry.groups


def _splits(groups: int, depth: int, kernels: Kernels) -> int:
    """Return into how many parts sums are split, so that each compute unit gets work."""
    wanted: int = 2 * kernels.compute_units // groups
    return max(1, min(wanted, _MOST_SPLITS, depth // _DEPTH // _LEAST_SLICES))


def _packed(layer: Layer, geometry: Geometry, depth: int, padded: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return weights [group, depth, filter], padded, and bias [group * filter]."""
    weights, bias = layer.constant(1), layer.constant(2)
    assert weights is not None
    packed = np.zeros((geometry.groups, depth, padded), np.float32)
    matrix = geometry.matrix(weights).reshape(geometry.groups, geometry.filters, geometry.depth)
    packed[:, : geometry.depth, : geometry.filters] = matrix.swapaxes(1, 2)
    return packed, np.zeros(geometry.groups * geometry.filters, np.float32) if bias is None else bias.astype(np.float32)


def _table(geometry: Geometry, depth: int) -> npt.NDArray[np.int32]:
    """Return rows, columns and elements of the input from the first term of a sum to each."""
    table = np.zeros((depth, 4), np.int64)
    table[geometry.depth :, 0] = -LARGEST_POSITION  # outside of every image
    shape = (*geometry.taps, geometry.channels)
    row, column, channel = (one.reshape(-1) for one in np.indices(shape))
    row, column = row * geometry.between[0], column * geometry.between[1]
    table[: geometry.depth, 0], table[: geometry.depth, 1] = row, column
    table[: geometry.depth, 2] = row * geometry.in_at[2] + column * geometry.in_at[3] + channel * geometry.in_at[1]
    return (table & 0xFFFFFFFF).astype(np.uint32).view(np.int32)  # sums of these wrap around to the right place
