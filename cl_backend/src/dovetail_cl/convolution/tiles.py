"""Convolutions on a CPU, by tiles of sums that registers hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import DType, Layer
from dovetail.ground.records import NamedTuple

from ..driver.arguments import Argument, ConstantArray, Input, Launch, Output, Scratch
from ..elementwise import input_info, reals
from ..elementwise.epilogue import Epilogue
from ..kernels import TYPES, Kernels, Work
from .geometry import Geometry
from .windows import windows_defined, windows_of

_PAIRS = ("in_size", "out_size", "taps", "stride", "start", "between")
_NUMBERS = (
    *("out_from", "in_elements", "channels", "filters", "pixels", "depth", "terms", "line"),
    *("at_once", "blocks", "each", "splits", "units", "scratch", "is_dense", "outside"),
)
_STRUCT = np.dtype(
    [(name, np.int32, 2) for name in _PAIRS]
    + [("in_at", np.uint32, 4), ("out_at", np.uint32, 4)]
    + [(name, np.uint32) for name in _NUMBERS]
)
_PACKED_BYTES = 1 << 18
"""Packed pixels that stay in the nearer caches while weights pass by."""
_MOST_TILES = 16
"""Of pixels that a work unit takes at once."""
_BYTES_PER_CYCLE = 32.0
"""That arrive from the farther caches."""
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


class Before(NamedTuple):
    """A convolution of single channels that makes what is multiplied.

    Attributes:
        geometry: Its own.
        weights: [tap, channel].
        bias: Of each channel.
        function: What its sums become, in OpenCL C; of `v`.
    """

    geometry: Geometry
    weights: npt.NDArray[Any]
    bias: npt.NDArray[Any]
    function: str


class Sums(NamedTuple):
    """What is multiplied and summed up by tiles, and what becomes of it.

    Attributes:
        files: Sources that define it.
        defined: For them.
        elements: Of the input.
        first: Arguments of the kernel behind its input.
        second: Those behind its output.
        last: Those behind its geometry.
        packed: Returns weights [group, part, term, filter, factor] and bias [group, part, filter],
            for so many parts of so many filters.
        is_in_place: Pixels are multiplied where they lie.
        taps: Products that make each element that is multiplied.
        factors: Elements of a term.
        size: Bytes of an element that is packed.
        chunk: Elements that are packed together.
        outside: A term of what lies outside of images.
    """

    files: str
    defined: dict[str, Any]
    elements: int
    first: tuple[Argument, ...]
    second: tuple[Argument, ...]
    last: tuple[Argument, ...]
    packed: Callable[[int, int], tuple[npt.NDArray[Any], npt.NDArray[Any]]]
    is_in_place: bool
    taps: int
    factors: int
    size: int
    chunk: int
    outside: int = 0


def create(layer: Layer, geometry: Geometry, kernels: Kernels, epilogue: Epilogue, before: Before | None = None) -> Work:
    """Return the work of a convolution whose weights and bias are constant.

    Args:
        layer: The convolution.
        geometry: Its own.
        kernels: Of the device.
        epilogue: What is made of its results.
        before: What makes its image, the first input being that of `before`; see `separable.py`.
    """
    epilogue = vector_epilogue(geometry, epilogue)
    parts = [launched(phase, kernels, _sums(layer, phase, kernels, epilogue, before)) for phase in geometry.phases()]
    return Work(tuple(launch for launch, _ in parts), max(scratch for _, scratch in parts))


def _sums(layer: Layer, geometry: Geometry, kernels: Kernels, epilogue: Epilogue, before: Before | None) -> Sums:
    """Return how floats are summed up."""
    info, vector = input_info(layer, 0), vector_of(kernels)
    return Sums(
        f"{vector_files(kernels, epilogue)} convolution/registers.cl convolution/{'runs' if before is None else 'windows'}.cl",
        {
            "T": TYPES[info.dtype],
            "VECTOR": vector,
            "SEPARABLE": int(before is not None),
            **({} if before is None else {"MIDDLE(v)": before.function, **windows_defined(before.geometry)}),
            **epilogue.defined(vector),
        },
        info.elements,
        () if before is None else (ConstantArray(before.weights), ConstantArray(before.bias)),
        () if before is None else (windows_of(before.geometry),),
        epilogue.arguments,
        partial(_packed, layer, geometry),
        is_in_place=geometry.is_pointwise and info.dtype is DType.FLOAT32 and before is None,
        taps=math.prod(before.geometry.taps) if before else 0,
        factors=1,
        size=4,
        chunk=vector,
    )


def launched(geometry: Geometry, kernels: Kernels, sums: Sums) -> tuple[Launch, int]:
    """Return the launch for a phase of a convolution, and the bytes of its scratch memory."""
    vector = vector_of(kernels)
    panel, rows = 2 * vector, rows_of(vector)
    is_last = is_channels_last(geometry)
    given = np.zeros((), _STRUCT)
    for name in ("in_at", "out_at", "out_from", "channels", "filters", "depth", *_PAIRS):
        given[name] = getattr(geometry, name)
    given["in_elements"], given["outside"] = sums.elements, sums.outside
    given["terms"] = -(-geometry.depth // sums.factors)
    line = -(-geometry.depth // sums.chunk) * sums.chunk + sums.chunk
    wanted = kernels.choose("units", UNITS_EACH, 8, 2, 1, 16) * kernels.compute_units
    if is_last:
        pixels, parts = geometry.batch * geometry.pixels, -(-geometry.filters // panel)
        most = pixels if sums.is_in_place else _PACKED_BYTES // (line * sums.size)
        shares = shared(geometry, pixels, parts, wanted, most, kernels, sums.taps)
        at_once = kernels.choose("rows", shares[0], shares[0] // 2, 2 * shares[0]) * rows
        blocks, room = -(-pixels // at_once), min(at_once, rows if sums.is_in_place else at_once) * line
        each = -(-parts // shares[1])
    else:
        pixels, parts, at_once = geometry.pixels, -(-geometry.filters // rows), panel
        blocks, room = geometry.batch * -(-pixels // panel), geometry.depth * panel + panel
        each = max(1, parts // -(-wanted // max(1, blocks * geometry.groups)))
    splits = -(-parts // each)
    units = blocks * geometry.groups * splits
    given["pixels"], given["line"], given["at_once"], given["blocks"] = pixels, line, at_once, blocks
    given["each"], given["splits"], given["units"], given["scratch"] = each, splits, units, room
    filters, (rows_out, columns) = geometry.groups * geometry.filters, geometry.out_size
    given["is_dense"] = geometry.out_at == (rows_out * columns * filters, 1, columns * filters, filters)
    weights, bias = sums.packed(parts, panel if is_last else rows)
    items = min(units, wanted)
    constants = ConstantArray(weights), ConstantArray(bias)
    arguments = (Input(), *sums.first, *constants, Scratch(), Output(), *sums.second, given, *sums.last)
    kernel = kernels.get(
        f"{sums.files} convolution/tiles.cl",
        "convolve",
        BY_LINES=int(is_last),
        CHANNELS_LAST=int(is_last),
        IN_PLACE=int(sums.is_in_place),
        **sums.defined,
    )
    return Launch(kernel, arguments, (items,), (1,)), items * room * sums.size


def shared(geometry: Geometry, pixels: int, parts: int, wanted: int, most: int, kernels: Kernels, taps: int) -> tuple[int, int]:
    """Return how work is shared out: tiles of pixels at once, and into how many splits filters go.

    Each core takes its share of the sums, and of the bytes that are read: all weights for each
    block of pixels, and all pixels of a block for each split.

    Args:
        geometry: Of the convolution.
        pixels: Of all images.
        parts: Panels of filters.
        wanted: Units, at least, where there is so much work.
        most: Pixels at once.
        kernels: Of the device.
        taps: Products that make each element that is multiplied.
    """
    vector, units = vector_of(kernels), kernels.compute_units
    rows = rows_of(vector)
    read = geometry.channels * (min(math.prod(geometry.taps), 4) if taps == 0 else taps)  # of a pixel
    tiles = max(1, min(most // rows, -(-pixels // rows)))
    best, least = (1, 1), math.inf
    for splits in dict.fromkeys(-(-parts // -(-parts // wish)) for wish in (1, 2, 3, 4, 6, 8, 12, 16) if wish <= parts):
        each = -(-parts // splits)
        for at_once in range(1, min(tiles, _MOST_TILES) + 1):
            blocks = -(-pixels // (at_once * rows))
            count = blocks * splits * geometry.groups
            if count < wanted and (at_once > 1 or splits < parts):
                continue
            whole = pixels // (at_once * rows) * splits * geometry.groups
            left = (pixels % (at_once * rows)) * splits * geometry.groups
            turns = -(-whole // units) * at_once * rows
            turns = max(turns, (whole * at_once * rows + left) / units)
            sums = turns * each * 2 * vector * geometry.depth / (2 * vector)
            filtered = turns * geometry.channels * taps / (2 * vector)
            moved = (blocks * geometry.filters * geometry.depth + splits * pixels * read) * geometry.groups * 4
            cost = sums + filtered + moved / units / _BYTES_PER_CYCLE
            if cost < least * (1 - 1e-9):
                best, least = (at_once, splits), cost
    return best


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
