"""Convolutions on a GPU, by slices of weights and of pixels in local memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import DType, Layer
from dovetail.ground.records import NamedTuple

from ..driver.arguments import Argument, ConstantArray, Input, Launch, Output, Scratch
from ..elementwise import input_info, reals
from ..elementwise.epilogue import Epilogue
from ..kernels import TYPES, Kernels, Work
from .geometry import LARGEST_POSITION, Geometry
from .tiles import is_channels_last

_DEPTH = 8
"""Terms of a slice, as in the source."""
_GROUP = 256
_MAX_SPLITS = 16
_MIN_SLICES = 8
"""Slices of the depth that are worth a split."""
_MIN_FILTERS = 16
"""Of a group, for which a tile pays where there are many groups."""
_PAIRS = ("in_size", "out_size", "stride", "start")
_NUMBERS = (
    *("out_from", "groups", "channels", "filters", "pixels", "padded"),
    *("depth", "slices", "splits", "terms", "in_fours"),
)
_STRUCT = np.dtype(
    [(name, np.int32, 2) for name in _PAIRS]
    + [("in_at", np.uint32, 4), ("out_at", np.uint32, 4)]
    + [(name, np.uint32) for name in _NUMBERS]
    + [("outside", np.int32)]
)


class Tile(NamedTuple):
    """What a work group computes.

    Attributes:
        lanes: Items that share its filters.
        filter_quads, pixel_quads: Filters and pixels of an item, in fours.
        speed: At which it multiplies, of the fastest's: as measured on an NVIDIA H100.
    """

    lanes: int
    filter_quads: int
    pixel_quads: int
    speed: float

    @property
    def filters(self) -> int:
        """Of a group."""
        return 4 * self.filter_quads * self.lanes

    @property
    def pixels(self) -> int:
        """Of a group."""
        return 4 * self.pixel_quads * (_GROUP // self.lanes)


class Sums(NamedTuple):
    """What tiles sum up, and what becomes of it.

    Attributes:
        files: Sources before that of tiles.
        defined: For them.
        arguments: Of kernels, the last ones.
        values: Returns the weights of a phase [group, filter, row, column, channel], as they are
            multiplied, and its bias [group * filter], as sums are.
        factors: Channels of a term, which has 32 bits.
        outside: Bits of the term outside of images.
    """

    files: str
    defined: Mapping[str, Any]
    arguments: tuple[Argument, ...]
    values: Callable[[Geometry], tuple[npt.NDArray[Any], npt.NDArray[Any]]]
    factors: int = 1
    outside: int = 0


TILES = (
    Tile(16, 1, 1, 1.0),  # 64 filters, 64 pixels
    Tile(32, 1, 1, 1.0),  # 128, 32
    Tile(16, 1, 2, 1.0),  # 64, 128
    Tile(8, 1, 1, 0.88),  # 32, 128
    Tile(8, 1, 2, 0.85),  # 32, 256
    Tile(16, 2, 2, 0.75),  # 128, 128
    Tile(4, 1, 1, 0.67),  # 16, 256
)
"""The first of those that are equal is taken."""
_ABREAST = 2
"""Groups that a compute unit computes in the time of one, which waits for memory meanwhile."""

# What a compute unit of a large GPU does meanwhile, in products: for each byte of partial sums that
# is written and read, and for the launch that adds them up.
_PRODUCTS_OF_BYTE = 10
_PRODUCTS_OF_LAUNCH = 400_000


def takes(geometry: Geometry, kernels: Kernels) -> bool:
    """Say whether a convolution with constant weights is worth tiles."""
    return (geometry.groups == 1 or geometry.filters >= _MIN_FILTERS) and kernels.device.facts["max_group"] >= 256


def create(layer: Layer, geometry: Geometry, kernels: Kernels, epilogue: Epilogue) -> Work:
    """Return the work of a convolution whose weights and bias are constant."""
    if not is_channels_last(geometry):
        operands = tuple(one._replace(way="each") if one.way == "line" else one for one in epilogue.operands)
        epilogue = epilogue._replace(operands=operands)
    defined = {"VECTORS": int(input_info(layer, 0).dtype is DType.FLOAT32), **epilogue.defined(4)}
    is_half = kernels.sums_halves and input_info(layer, 0).dtype is input_info(layer, 1).dtype is DType.FLOAT16

    def values(geometry: Geometry) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        weights, bias = reals(layer, 1), reals(layer, 2)
        assert weights is not None
        none = np.zeros(geometry.groups * geometry.filters, np.float32)
        matrix = geometry.matrix(weights).astype(np.float16 if is_half else np.float32)
        return matrix, none if bias is None else bias.astype(np.float32)

    files = f"{epilogue.source(4)} {'matrices/halves.cl convolution/halves.cl' if is_half else ''}"
    return summed(layer, geometry, kernels, Sums(files, defined, epilogue.arguments, values, 2 if is_half else 1))


def summed(layer: Layer, geometry: Geometry, kernels: Kernels, sums: Sums) -> Work:
    """Return the work of sums of products with constant weights."""
    launches: list[Launch] = []
    scratch = 0
    for phase in geometry.phases():
        more, totals = _launches(layer, phase, kernels, sums)
        launches += more
        scratch = max(scratch, totals * 4)
    return Work(tuple(launches), scratch)


def _launches(layer: Layer, geometry: Geometry, kernels: Kernels, sums: Sums) -> tuple[list[Launch], int]:
    """Return the launches for a phase of a convolution, and the sums in their scratch memory."""
    pixels = geometry.batch * geometry.pixels
    terms = geometry.depth // max(geometry.channels, 1) * -(-geometry.channels // sums.factors)
    depth = -(-max(terms, 1) // _DEPTH) * _DEPTH
    tile, splits = choose(geometry, kernels.compute_units, depth)
    tile = TILES[kernels.choose("tile", TILES.index(tile) + 1, *range(1, len(TILES) + 1)) - 1]
    splits = kernels.choose("splits", splits, 2 * splits, splits // 2, 1)
    slices = -(-depth // _DEPTH // splits) * _DEPTH
    splits = -(-depth // slices)
    is_last = is_channels_last(geometry)
    given = np.zeros((), _STRUCT)
    for name in ("in_at", "out_at", "out_from", "groups", "channels", "filters", *_PAIRS):
        given[name] = getattr(geometry, name)
    given["pixels"], given["padded"] = pixels, -(-geometry.filters // tile.filters) * tile.filters
    given["depth"], given["slices"], given["splits"], given["terms"] = depth, slices, splits, terms
    given["in_fours"], given["outside"] = _is_in_fours(geometry, is_last), sums.outside
    defined = {
        "T": TYPES[input_info(layer, 0).dtype],
        "FILTER_LANES": tile.lanes,
        "FILTER_QUADS": tile.filter_quads,
        "PIXEL_QUADS": tile.pixel_quads,
        "CHANNELS_LAST": int(is_last),
        "POINTWISE": int(_is_pointwise(geometry)),
        **sums.defined,
    }
    files = f"{sums.files} convolution/gathered.cl"
    weights, bias = sums.values(geometry)
    packed = ConstantArray(_packed(weights, sums.factors, depth, int(given["padded"])))
    constants = (packed, ConstantArray(bias), ConstantArray(_table(geometry, sums.factors, depth)))
    sizes = (-(-pixels // tile.pixels) * _GROUP, -(-geometry.filters // tile.filters), geometry.groups * splits)
    arguments = (Input(), *constants, Scratch(), Output(), given, *sums.arguments)
    launches = [Launch(kernels.get(files, "convolve", **defined), arguments, sizes, (_GROUP, 1, 1))]
    if splits > 1:
        items, group = kernels.each(geometry.results)
        finishing = (Scratch(), ConstantArray(bias), Output(), given, np.uint32(geometry.results), *sums.arguments)
        launches.append(Launch(kernels.get(files, "finish", **defined), finishing, items, group))
    return launches, splits * geometry.results if splits > 1 else 1


def choose(geometry: Geometry, compute_units: int, terms: int) -> tuple[Tile, int]:
    """Return the tile of a convolution, and into how many parts its sums of terms are split.

    They take the least time by what they multiply, padding included, in as many rounds as it takes
    the compute units.
    """
    slices = -(-terms // _DEPTH)
    best, least = (TILES[0], 1), float("inf")
    for tile in TILES:
        groups = _groups(geometry, tile)
        for splits in range(1, min(_MAX_SPLITS, max(1, slices // _MIN_SLICES)) + 1):
            rounds = max(_ABREAST, -(-groups * splits // compute_units))
            time = rounds * -(-slices // splits) * _DEPTH * tile.filters * tile.pixels / tile.speed
            if splits > 1:
                time += 8 * splits * geometry.results / compute_units * _PRODUCTS_OF_BYTE + _PRODUCTS_OF_LAUNCH
            if time < least:
                best, least = (tile, splits), time
    return best


def _groups(geometry: Geometry, tile: Tile) -> int:
    """Return how many work groups compute all tiles."""
    pixels = geometry.batch * geometry.pixels
    return -(-pixels // tile.pixels) * -(-geometry.filters // tile.filters) * geometry.groups


def _is_pointwise(geometry: Geometry) -> bool:
    """Say whether windows are of one pixel, each within its image."""
    reached = ((geometry.out_size[i] - 1) * geometry.stride[i] for i in range(2))
    is_inside = all(last < size for last, size in zip(reached, geometry.in_size, strict=True))
    return geometry.taps == (1, 1) and geometry.start == (0, 0) and is_inside


def _is_in_fours(geometry: Geometry, is_last: bool) -> bool:
    """Say whether four results that an item holds side by side are neighbours, and aligned."""
    if is_last:
        return geometry.filters % 4 == 0 and all(step % 4 == 0 for step in (*geometry.out_at[2:], geometry.out_from))
    is_joined = geometry.out_at[3] == 1 and geometry.out_at[2] == geometry.out_size[1]
    return is_joined and geometry.pixels % 4 == 0 and geometry.out_from % 4 == 0


def _packed(weights: npt.NDArray[Any], factors: int, depth: int, padded: int) -> npt.NDArray[Any]:
    """Return weights [group, term, filter, factor]; zeros are behind channels, terms, filters."""
    groups, filters, rows, columns, channels = weights.shape
    whole = -(-channels // factors) * factors
    wide = np.zeros((groups, filters, rows * columns, whole), weights.dtype)
    wide[..., :channels] = weights.reshape(groups, filters, rows * columns, channels)
    terms = wide.reshape(groups, filters, rows * columns * (whole // factors), factors)
    packed = np.zeros((groups, depth, padded, factors), weights.dtype)
    packed[:, : terms.shape[2], :filters] = terms.swapaxes(1, 2)
    return packed


def _table(geometry: Geometry, factors: int, depth: int) -> npt.NDArray[np.int32]:
    """Return of each term the row, column and element from those of the first, and its channels."""
    table = np.zeros((depth, 4), np.int64)
    table[:, 0] = -LARGEST_POSITION  # outside of every image
    shape = (*geometry.taps, -(-geometry.channels // factors))
    row, column, channel = (one.reshape(-1) for one in np.indices(shape))
    row, column, channel = row * geometry.between[0], column * geometry.between[1], channel * factors
    element = row * geometry.in_at[2] + column * geometry.in_at[3] + channel * geometry.in_at[1]
    table[: len(row)] = np.stack([row, column, element, geometry.channels - channel], 1)
    return (table & 0xFFFFFFFF).astype(np.uint32).view(np.int32)  # sums of these wrap around to the right place
