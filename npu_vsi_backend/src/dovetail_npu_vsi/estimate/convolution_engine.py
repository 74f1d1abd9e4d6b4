"""What the convolution engine takes at the tile that costs least."""

from __future__ import annotations

import numpy as np

from ..chips import Chip
from ..engines import NN
from .costs import Cost, Flow
from .tiles import Array, Shape, Tiles, tiles_of

_HEADER_BYTES = 128
"""Read by each operation."""
_OVERLAP = 6
"""Power by whose mean cycles of work and of memory, which overlap, are joined. Fitted."""
_ROW_WRITES = 1.2
"""Bytes that are written for each result of a single row of a product. Fitted."""


def by_convolution_engine(chip: Chip, flow: Flow, shape: Shape, kernel_bytes: float) -> Cost:
    """Return the cost of a convolution with a stride of one.

    Args:
        chip: Where.
        flow: How.
        shape: Sizes.
        kernel_bytes: Packed weights of all filters.
    """
    tiles = tiles_of(chip, shape)
    kernel, image = _reads(chip, shape, tiles, kernel_bytes, flow.read)
    written = tiles.written * flow.written
    memory = (kernel + image + _HEADER_BYTES + written) / flow.bytes_per_cycle
    cycles = chip.nn.overhead_cycles + _overlapped(tiles.busy, memory)
    best = int(np.argmin(cycles))
    reads = float(kernel[best] + image[best]) + _HEADER_BYTES
    return Cost(float(cycles[best]), reads, float(written[best]), (NN,))


def by_row(chip: Chip, flow: Flow, inputs: int, outputs: int, kernel_bytes: float) -> Cost:
    """Return the cost of a product of one row, which decodes each weight for one result."""
    per_core = -(-outputs // chip.nn_cores)
    passes = 1 if inputs <= chip.sram_bytes else -(-per_core // chip.nn.filters_per_core)
    reads = kernel_bytes + inputs * passes * flow.read + _HEADER_BYTES
    written = outputs * _ROW_WRITES * flow.written
    work = np.asarray(per_core * inputs / chip.nn.weights_per_cycle)
    cycles = chip.nn.overhead_cycles + _overlapped(work, np.asarray((reads + written) / flow.bytes_per_cycle))
    return Cost(float(cycles), reads, written, (NN,))


def flattened(chip: Chip, rows: int, columns: int) -> tuple[int, int]:
    """Return the rows and columns that the driver gives to an image that is read pixel by pixel."""
    pixels = rows * columns
    if not chip.nn.flattens_images:
        return rows, columns
    if pixels <= 64:
        return 1, pixels
    for width in (64, 32, 16):
        if pixels % width == 0:
            return pixels // width, width
    return (2, pixels // 2) if pixels % 2 == 0 else (1, pixels)


def _overlapped(work: Array, memory: Array) -> Array:
    large, small = np.maximum(work, memory), np.minimum(work, memory)
    joined: Array = large * (1 + (small / np.maximum(large, 1)) ** _OVERLAP) ** (1 / _OVERLAP)
    return joined


def _reads(chip: Chip, shape: Shape, tiles: Tiles, kernel_bytes: float, outside: float) -> tuple[Array, Array]:
    """Return what is read of the kernel and of the image with each tile.

    Both are read once if they fit the memory on the chip together, or if there is one pass. Else
    either the image is kept for all passes and the kernel is read for each tile, less what there is
    room for, or the kernel is kept and the image read in each pass, whichever is less.
    """
    room, passes = chip.sram_bytes, tiles.passes
    fits = (kernel_bytes <= room) & ((passes == 1) | (tiles.held <= room - kernel_bytes))
    rest = np.where(passes > 1, np.maximum(room - tiles.held, 0.0), room)
    again = kernel_bytes * (1 + (tiles.tiles - 1) * (1 - np.minimum(1.0, rest / kernel_bytes)))
    image_kept = tiles.image * np.where((passes == 1) | (tiles.held <= room), 1, passes)
    image_again = tiles.image * passes
    keeps_kernel = (kernel_bytes <= room) & (kernel_bytes + image_again < again + image_kept)
    kernel = np.where(fits | keeps_kernel, kernel_bytes, again)
    image = np.where(fits, tiles.image, np.where(keeps_kernel, image_again, image_kept))
    return kernel, (tiles.image if shape.is_depthwise else image) * outside
