"""Tiles of the convolution engine: what each takes to compute, to read and to write.

The engine computes a tile of the results at a time, up to 64 pixels wide, for as many filters as
it has room for sums. The driver tries tiles and takes the one that it thinks is the quickest; here
all of them are computed at once, as arrays with an element for each tile.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..chips import Chip

_LANES = 64
_WIDEST = 64
_INTERLEAVED = ((16, 4), (32, 2))
"""Widths of inputs up to which a row of the input's buffer holds so many rows."""
_SRAM_BYTES_PER_CYCLE = 20.0
"""Of images that are loaded from the memory on the chip. Fitted."""
_RESULTS_PER_CYCLE = 7.5
"""Fitted."""
_DEPTHWISE_ROWS = 6
"""Of a tile that the depthwise mode computes at a time, at most. Fitted."""
_DEEP_IN_PASSES = 2.4
"""Products along channels in several passes, of chips with a unit for windows. Fitted."""
_EMPTY_PLANES = (0.37, 0.27, 0.19)
"""Of the cycles of a plane of weights, those of zeros: 3 x 3; others; each weight. Fitted."""
_LONG_BURST = 64
"""Bytes beyond which a burst is long."""
_EXTRA = 0.9
"""Of the bytes that bursts read beyond a run, those that count. Fitted."""
_GAP = 300.0
"""Bytes between the runs of channels beyond which long bursts cost in full. Fitted."""
_CACHED, _HALF_CACHED = 3000, 6200
"""Bytes of results that short bursts write without loss, and with a fifth more. Fitted."""

Array = npt.NDArray[Any]
"""Of integers or floats."""


class Shape(NamedTuple):
    """A convolution with a stride of one, as the engine sees it.

    Attributes:
        image: Channels, rows, columns.
        results: Filters, rows, columns, before results are left out.
        kernel: Rows, columns.
        kept: Rows and columns of results that are written.
        pooling: Rows and columns of results of which one is written.
        is_depthwise: In the depthwise mode.
        empty_planes: Part of the planes of the kernels that only have zeros.
        density: Part of the weights in other planes that are not zeros that were put in.
    """

    image: tuple[int, int, int]
    results: tuple[int, int, int]
    kernel: tuple[int, int]
    kept: tuple[int, int]
    pooling: int = 1
    is_depthwise: bool = False
    empty_planes: float = 0.0
    density: float = 1.0


class Tiles(NamedTuple):
    """What all tiles would cost; an element for each.

    Attributes:
        tiles: Tiles of the results.
        passes: Groups of filters.
        busy: Cycles without external memory.
        image: Bytes that are read of the image in one pass.
        held: Bytes of the image for one tile.
        written: Bytes of results.
    """

    tiles: Array
    passes: Array
    busy: Array
    image: Array
    held: Array
    written: Array


class _Split(NamedTuple):
    """An axis of the results in tiles: the first, those between, and the last; (tiles, 3).

    Attributes:
        results, inputs: Pixels of one.
        number: How many there are.
    """

    results: Array
    inputs: Array
    number: Array


@lru_cache(maxsize=4096)
def tiles_of(chip: Chip, shape: Shape) -> Tiles:
    """Return what the tiles would cost that the buffers of a chip have room for."""
    columns, rows = _sizes(chip, shape)
    per_core = -(-shape.results[0] // chip.nn_cores)
    limit = _filters_at_a_time(chip, shape, columns, rows)
    columns, rows, limit = columns[limit > 0], rows[limit > 0], limit[limit > 0]
    passes = -(-per_core // limit)
    across = _split(columns, shape.results[2], shape.kernel[1], shape.image[2])
    down = _split(rows, shape.results[1], shape.kernel[0], shape.image[1])
    count = _of_both(across.number, down.number)
    is_single = count.sum((1, 2)) == 1
    area = _of_both(across.results, down.results)
    inputs = (across.inputs * across.number).sum(1) * (down.inputs * down.number).sum(1) * shape.image[0]
    compute = (count * _compute(chip, shape, columns, area, down, passes, per_core)).sum((1, 2))
    image = (count * _read(chip, shape, columns, rows, across, down, is_single)).sum((1, 2)) * shape.image[0]
    written = (count * _written(chip, shape, columns, rows, across, down, is_single)).sum((1, 2)) * shape.results[0]
    loads = inputs * (1 if shape.is_depthwise else passes) / _SRAM_BYTES_PER_CYCLE
    results = np.prod(shape.results) / _RESULTS_PER_CYCLE
    held = np.minimum(columns + shape.kernel[1] - 1, shape.image[2]) * np.minimum(rows + shape.kernel[0] - 1, shape.image[1])
    busy = np.maximum(np.maximum(compute, loads), results)
    return Tiles(count.sum((1, 2)), passes, busy, image, held * shape.image[0], written)


def _sizes(chip: Chip, shape: Shape) -> tuple[Array, Array]:
    """Return the columns and rows of each tile for whose input the buffer has room."""
    pairs = []
    for columns in _widths(chip, shape):
        room = chip.nn.input_rows * int(_rows_together(np.asarray(min(columns + shape.kernel[1] - 1, shape.image[2]))))
        most = max(room - shape.kernel[0] + 1, int(shape.kernel[0] <= room))
        rows = np.arange(1, min(most, shape.results[1]) + 1)
        if shape.pooling > 1:
            rows = rows[(rows % shape.pooling == 0) | (rows == shape.results[1])]
        pairs.append((np.full(rows.shape, columns), rows))
    return np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])


def _widths(chip: Chip, shape: Shape) -> list[int]:
    """Return the columns of tiles that are tried: parts of a row, and what the buffer holds."""
    _, _, columns = shape.results
    parts: list[int] = []
    for count in range(1, columns + 1):
        width = -(-columns // count)
        if width <= _WIDEST and width not in parts:
            parts.append(width)
        if (width < 8 and len(parts) > 1) or len(parts) > 10:
            break
    if columns > _WIDEST:
        parts.append(_WIDEST)
    if shape.kernel[0] > chip.nn.input_rows:  # only tiles with narrow inputs have room for the rows of a window
        parts += [width - shape.kernel[1] + 1 for width, _ in _INTERLEAVED]
    return sorted({width for width in parts if 0 < width <= columns} | {1})


def _rows_together(widths: Array) -> Array:
    """Return how many rows of inputs of some widths share a row of the buffer."""
    (narrow, most), (wide, some) = _INTERLEAVED
    together: Array = np.where(widths <= narrow, most, np.where(widths <= wide, some, 1))
    return together


def _filters_at_a_time(chip: Chip, shape: Shape, columns: Array, rows: Array) -> Array:
    """Return how many filters of a core there is room for."""
    if chip.nn.window_products[0]:
        together = _rows_together(np.minimum(columns + shape.kernel[1] - 1, shape.image[2]))
        most = np.where(columns * rows == 1, chip.nn.filters_per_core, chip.nn.accumulators)
        found: Array = np.minimum(most, chip.nn.accumulators // -(-rows // together))
    else:
        found = np.minimum(chip.nn.filters_per_core, chip.nn.accumulators // -(-(columns * rows) // _LANES))
    return found


def _split(sizes: Array, total: int, kernel: int, limit: int) -> _Split:
    """Split an axis of the results into tiles; what is beyond the `limit` pixels is not read."""
    before = max(0, total - 1 + kernel - limit) // 2
    tiles = -(-total // sizes)
    starts = np.stack((np.zeros_like(sizes), sizes, (tiles - 1) * sizes), 1)
    ends = np.minimum(starts + sizes[:, None], total)
    inputs = np.minimum(limit, ends + kernel - 1 - before) - np.maximum(0, starts - before)
    inputs[:, 1] = np.minimum(sizes + kernel - 1, limit)
    count = np.stack((np.ones_like(sizes), np.maximum(tiles - 2, 0), tiles > 1), 1)
    return _Split(ends - starts, np.maximum(inputs, 1), count)


def _of_both(across: Array, down: Array) -> Array:
    """Return products of values for columns and rows; (tiles, 3, 3)."""
    product: Array = across[:, :, None] * down[:, None, :]
    return product


def _compute(chip: Chip, shape: Shape, columns: Array, area: Array, down: _Split, passes: Array, per_core: int) -> Array:
    """Return the cycles of each tile for all filters."""
    taps = shape.kernel[0] * shape.kernel[1]
    if shape.is_depthwise:
        at_a_time = np.minimum(_LANES // columns, _DEPTHWISE_ROWS)[:, None, None]
        cycles: Array = shape.results[0] * taps * np.maximum(down.results[:, None, :] / at_a_time, 1)
        return cycles
    groups = -(-area // _LANES)
    if chip.nn.window_products[0]:
        plane = _plane_by_windows(chip, shape, groups, passes)
    else:
        # A core that has one filter only takes two products at a time.
        deep = chip.nn.deep_products if per_core > 1 else 2
        plane = taps * _share(chip, shape) * np.maximum(groups / deep, 1 / chip.nn.weights_per_cycle)
    return per_core * shape.image[0] * plane


def _plane_by_windows(chip: Chip, shape: Shape, groups: Array, passes: Array) -> Array:
    """Return the cycles of a plane of a kernel on chips with a unit for windows of one channel."""
    (rows, columns), (across, down) = shape.kernel, chip.nn.window_products
    taps, windows = rows * columns, -(-columns // across) * -(-rows // down)
    deep = np.where(passes > 1, _DEEP_IN_PASSES, chip.nn.deep_products)[:, None, None]
    plane = np.maximum(np.minimum(windows * groups, groups * taps / deep), taps / chip.nn.weights_per_cycle)
    small, other, weight = _EMPTY_PLANES
    empty = np.minimum(plane, np.maximum((small if taps == 9 else other) * windows * groups, weight * taps))
    mixed: Array = (1 - shape.empty_planes) * plane * _share(chip, shape) + shape.empty_planes * empty
    return mixed


def _share(chip: Chip, shape: Shape) -> float:
    """Return the part of the cycles that is left where zeros were put into kernels."""
    first, slope, least = chip.nn.dense_share
    return min(1.0, max(least, first + slope * shape.density))


def _run(length: Array, step: Array, burst: Array | int, extra: Array | float = 1.0) -> Array:
    """Return the bytes that bursts move for runs of some bytes, which begin at multiples of a step.

    Bursts are powers of two: the lowest bit of several numbers together is their common factor.
    """
    together = length | step | burst
    moved: Array = length + extra * (burst - (together & -together))
    return moved


def _read(chip: Chip, shape: Shape, columns: Array, rows: Array, across: _Split, down: _Split, is_single: Array) -> Array:
    """Return the bytes that bursts read for one channel of a tile."""
    wide, high = across.inputs[:, :, None], down.inputs[:, None, :]
    step = (columns | shape.image[2])[:, None, None]
    if shape.kernel == (1, 1) and not shape.is_depthwise:
        return _read_pixels(chip, shape, columns, wide, high, step, is_single)
    burst = chip.nn.burst_bytes
    by_rows = high * _run(wide, step, burst, _EXTRA)
    at_once = _run((high - 1) * shape.image[2] + wide, step, burst, _EXTRA)
    return np.where(wide == shape.image[2], _read_bands(chip, shape, rows, high), np.minimum(by_rows, at_once))


def _read_bands(chip: Chip, shape: Shape, rows: Array, high: Array) -> Array:
    """Return the bytes that bursts read for one channel of tiles as wide as the image."""
    burst, image = chip.nn.burst_bytes, shape.image
    step = (rows * image[2])[:, None, None]
    if burst <= _LONG_BURST:
        return _run(high * image[2], step, burst, np.where(high < image[1], _EXTRA, 1.0))
    gap = image[2] * (image[1] - high)
    return _run(high * image[2], step, burst, np.minimum(1.0, (gap / _GAP) ** 2) * _EXTRA)


def _read_pixels(chip: Chip, shape: Shape, columns: Array, wide: Array, high: Array, step: Array, is_single: Array) -> Array:
    """Return the bytes that bursts read for one channel where windows are pixels: row by row."""
    burst, (_, rows, width) = chip.nn.burst_bytes, shape.image
    together = _rows_together(np.minimum(columns, width))[:, None, None]
    fine = np.where(wide == width, np.maximum(burst // together, 1), burst)
    line = _run(wide, step, fine)
    is_row = is_single[:, None, None] & (shape.results[1] == 1)
    if burst <= _LONG_BURST:
        line = np.where((wide <= 8) | is_row, np.minimum(line, wide + burst / 6), line)
        return high * line
    is_tiny = is_row | (is_single[:, None, None] & (width * rows <= 36))
    line = np.where(is_tiny, wide + burst / 9 / high, line)
    return high * np.minimum(line, (2 * width * rows + wide + burst) / 3)


def _written(chip: Chip, shape: Shape, columns: Array, rows: Array, across: _Split, down: _Split, is_single: Array) -> Array:
    """Return the bytes that bursts write for one filter of a tile."""
    burst, (kept_rows, kept_columns) = chip.nn.burst_bytes, shape.kept
    wide = np.maximum(across.results // shape.pooling, 1)[:, :, None]
    high = np.maximum(down.results // shape.pooling, 1)[:, None, :]
    tile_columns, tile_rows = np.maximum(columns // shape.pooling, 1), np.maximum(rows // shape.pooling, 1)
    held = (tile_columns * tile_rows * shape.results[0])[:, None, None]
    step = (tile_columns | kept_columns)[:, None, None]
    all_of_it = kept_rows * kept_columns + 8
    by_rows = high * _run(wide, step, burst)
    at_once = _run((high - 1) * kept_columns + wide, step, burst)
    bands = _run(high * kept_columns, (tile_rows * kept_columns)[:, None, None], burst)
    is_wide = across.results[:, :, None] == shape.results[2]
    moved = np.minimum(np.where(is_wide, bands, np.minimum(by_rows, at_once)), all_of_it)
    exact = wide * high
    if burst <= _LONG_BURST:
        moved = np.where(held <= _HALF_CACHED, np.minimum(moved, 1.2 * exact), moved)
        moved = np.where(held <= _CACHED, exact, moved)
    return np.where(is_single[:, None, None], exact, moved)
