"""Choose a convolution's algorithm by the cost on one core: multiply-adds and bytes moved."""

from __future__ import annotations

import math

import numpy as np

from dovetail.ground.pieces import reduced

from ..arrays import Floats
from ..geometry.layouts import Image, blocks

ADDS_PER_CYCLE = 2.0
"""Multiply-adds of whole vectors."""
CYCLES_PER_ELEMENT = 4.3
"""Cost of transforming a vector to or from one position.

Most of it is a line that is written to the L2 cache.
"""
BYTES_PER_CYCLE = 8.0
"""That arrive from the L3 cache or memory."""
NOT_HIDDEN = 1 / 3
"""Share of the faster of two that counts besides the slower: multiplying, weights arriving."""
HELD_BYTES = 1 << 20
"""Of the weights: so much stays in the L2 cache from run to run."""
CYCLES_PER_LAYER = 500.0
"""Of a loop more, and of bands that are begun."""
FEW_PIXELS = 56
"""For which tiles hold more pixels and fewer filters."""
FEW_POINTS = 200
"""The same where each window is one pixel: a tile's windows lie side by side wherever it begins."""
HELD_WEIGHTS = 32 << 10
"""Bytes of a tile's weights that stay in the L1 cache, however often they are read."""
ONE_TILE = 6
"""Pixels that fit a tile in any case."""
MIN_GAIN = 1.1
"""What is not faster by so much is not worth the memory of larger weights."""


AMPLIFICATION = 4096.0
"""Bound of Winograd's intermediate values, per channel, as a multiple of |weight * element|.

The largest sums of magnitudes in a row of the three matrices are, for tiles of 4 with the points
5/8 and 3/2 of winograd.h, 5.29 for elements, 1.39 for weights and 8.24 for results; both axes
square them: 28 * 1.93 * 68 = 3670. For tiles of 2 they are 2, 1.5 and 3, which makes 81.
"""
LARGEST_ELEMENT = 2.0**63
"""Largest element of an image for which no intermediate value may overflow.

The weights may be as large as `allows_winograd` lets them be.
"""
SMALLEST_WEIGHT = 2.0**-100
"""Least magnitude that the largest weight needs.

If all were smaller, some transformed ones would lose bits, or vanish, where the products with large
elements do not.
"""


def allows_winograd(weights: Floats) -> bool:
    """Tell whether Winograd's transforms stay within float32; weights [filters, taps, channels].

    Weights of 1e37 times elements of 1 are numbers, of which Winograd's sums would be infinite, and
    their differences NaN.
    """
    if not weights.size:
        return True
    largest = float(reduced(np.maximum, weights, range(weights.ndim), np.float32, np.abs).max())  # NaN where there is one
    limit = float(np.finfo(np.float32).max) / (AMPLIFICATION * LARGEST_ELEMENT * weights.shape[2])
    return largest == 0.0 or SMALLEST_WEIGHT <= largest <= limit


def winograd_tile(source: Image, target: Image, lanes: int = 16) -> int:
    """Return the side of the fastest Winograd tiles, 2 or 4; 0 where direct sums are faster.

    The windows are 3 x 3, stride and dilation 1, one group, images blocked by `lanes`. Larger tiles
    multiply less (4 for 9 x 4, against 2.25) but have more weights (4 for each, against 1.8), which
    have to be fetched: that is what decides where images are small; where channels are few it is
    the transforms. Next to a direct sum in float32, the root of the mean squared error was 0.2 to
    0.5 times as large with tiles of 2, and 0.6 to 1.4 times with tiles of 4 (512 and 64 channels).
    """
    best, fastest = 0, _cycles(source, target, lanes, 0)
    for tile in (2, 4):
        cycles = _cycles(source, target, lanes, tile)
        if cycles * MIN_GAIN < fastest:
            best, fastest = tile, cycles
    return best


def tile_vectors(target: Image, lanes: int = 16, channels: int = 0) -> int:
    """Return the most vectors of filters that a convolution tile computes; 0 for no limit.

    With 0 a tile computes as many as the kernel can.

    A tile reads all weights of its filters. Where images are small that is most of what it costs:
    two vectors leave room for 14 pixels with 32 registers, four for 6, so that the weights are read
    half as often. With 49 pixels this took 0.71 to 0.96 of the time, the more the larger the
    weights are; with 196 pixels and windows of one 0.985, but where windows are larger a tile has
    to end with a row of the image or keep 14 addresses: with 64 pixels and windows of 3 x 3 it took
    1.2. With 784 pixels it took 1.01 to 1.17. What lies in between is left to tuning.

    Args:
        target: The result.
        lanes: Elements of a vector.
        channels: Of the image, where windows and steps are of one pixel; else 0.
    """
    streams = 4 * lanes * channels * 4 > HELD_WEIGHTS
    return 2 if ONE_TILE < target.batch * target.pixels <= (FEW_POINTS if streams else FEW_PIXELS) else 0


def _cycles(source: Image, target: Image, lanes: int, tile: int) -> float:
    channels, vectors = source.channels, blocks(target.channels, lanes)
    if tile:
        rows = target.batch * math.ceil(target.height / tile) * math.ceil(target.width / tile)
        positions = (tile + 2) ** 2
        transforms = rows * positions * (blocks(channels, lanes) + vectors) * CYCLES_PER_ELEMENT + CYCLES_PER_LAYER
    else:
        rows, positions, transforms = target.batch * target.pixels, 9, 0.0
    products = rows * positions * channels * vectors / ADDS_PER_CYCLE
    weights = positions * channels * vectors * lanes * 4
    fetching = max(0, weights - HELD_BYTES) / BYTES_PER_CYCLE
    return max(products, fetching) + min(products, fetching) * NOT_HIDDEN + transforms
