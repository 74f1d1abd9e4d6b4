"""Convolutions in groups, and depthwise ones with several filters per channel.

Groups of whole blocks are as good as convolutions of their own, each over its blocks. Of others, a
vector holds filters of several groups: each lane reads the channels of its own group. Where these
lie in too many vectors, as with many channels for each of few filters, the image is taken with its
channels innermost, and the general tile computes group by group, only as full as a group has
filters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dovetail import DataLayout
from dovetail.graph.layer import OutputSlot
from dovetail.ground.limits import budget

from ..arrays import Ints
from ..fusion.chains import Chain
from ..fusion.lowering import Lowering
from ..geometry.layouts import blocked_info, blocks, filled, plain_info
from .kinds import Convolve, ConvolveGrouped

MAX_VECTORS = 3
"""From which the lanes of one vector are put together, as parameters.h has it."""
FLOAT16_LANES = 8
"""Filters that fill a vector of float16: a group of them is multiplied so, where that is wanted."""
MIN_FILLED = 0.6
"""Least filled share of factors in bfloat16 of groups whose lanes could be given their channels.

With AVX-512's products of bfloat16 that took 0.73 of the time at 0.52 (groups of 40 channels), 1.27
times as long at 0.77 (groups of 56).
"""
PIECE = 1 << 16
"""Elements of tables that are made at once."""


def lower_grouped(lowering: Lowering, chain: Chain, convolve: Convolve, source: OutputSlot, layout: DataLayout) -> bool:
    """A convolution of several groups."""
    if convolve.groups == 1:
        return False
    fills_blocks, spreads = _fills_blocks(convolve, lowering.lanes), _spreads(convolve, lowering)
    is_blocked = fills_blocks or spreads
    bring = lowering.blocked if is_blocked else lowering.last
    inputs = [bring(slot, layout) for slot in (source, chain.adds) if slot is not None]
    if spreads:
        given = ConvolveGrouped(**convolve.as_filters(), groups=convolve.groups)
        made = lowering.emit(given, inputs, chain.layers).output
    else:
        target = convolve.target
        info = blocked_info(target, lowering.lanes) if is_blocked else plain_info(target.shape(DataLayout.NHWC))
        made = lowering.emit(replace(convolve, infos=(info,)), inputs, chain.layers).output
    if is_blocked:
        lowering.define(chain.output, made, "blocked", layout)
    else:
        lowering.define_last(chain.output, made, layout)
    return True


def _fills_blocks(convolve: Convolve, lanes: int) -> bool:
    return all(image.channels // convolve.groups % lanes == 0 for image in (convolve.source, convolve.target))


def _spreads(convolve: Convolve, lowering: Lowering) -> bool:
    """Whether the lanes of a vector are better given the channels of their groups.

    Of whole blocks, where a group has a single one: then the direct tile would load an element for
    each vector of products, unless the machine multiplies by a lane, as NEON with its 4 lanes does.
    """
    groups, lanes = convolve.groups, lowering.lanes
    channels, filters = convolve.source.channels // groups, convolve.target.channels // groups
    if lowering.precision == "bfloat16" and filled(filters, channels) >= MIN_FILLED:
        return False
    if lowering.precision == "float16" and filters >= FLOAT16_LANES:
        return False
    if _fills_blocks(convolve, lanes):
        kernel, _, dilation, _ = convolve.geometry
        return filters == lanes > 4 and kernel[1] == 3 and dilation[1] == 1
    return min(channels, filters) > 0 and most_vectors(groups, channels, filters, lanes) <= MAX_VECTORS


def most_vectors(groups: int, channels: int, filters: int, lanes: int) -> int:
    """Return from how many vectors the lanes of a block read in a step, at most.

    Args:
        groups: Groups of the convolution.
        channels: Channels of one group.
        filters: Filters of one group.
        lanes: Lanes of a vector.
    """
    within = (
        lanes // filters if filters and lanes % filters == 0 else 1 if filters % lanes == 0 else -(-(lanes - 1) // filters) + 1
    )
    within = min(within, groups)
    return min(within, ((within - 1) * channels + lanes - 1) // lanes + 1)


class LaneSources(NamedTuple):
    """What the lanes of blocks of filters read, step by step.

    A group has as many steps as channels.

    Attributes:
        groups: Of each block, how many its lanes belong to.
        vectors: Of each block, from how many its lanes read in a step, at most.
        offsets: [block, step, vector]: where each vector lies. Of one group, and of two that read
            from several vectors, instead where the element of the first lane lies, and of the last.
        lanes: [block, step, vector, lane]: which lane of the vector, or 0 of the element, is read;
            -1 where it is none of this vector's.
    """

    groups: Ints
    vectors: Ints
    offsets: npt.NDArray[np.int64]
    lanes: Ints


def lane_sources(groups: int, channels: int, filters: int, lanes: int, block_step: int) -> LaneSources:
    """Return what the lanes of all blocks read.

    Args:
        groups: Groups of the convolution.
        channels: Channels of one group.
        filters: Filters of one group.
        lanes: Lanes of a vector.
        block_step: Elements of an image from one block of channels to the next.
    """
    count, most = blocks(groups * filters, lanes), max(2, most_vectors(groups, channels, filters, lanes))
    found = LaneSources(
        np.zeros(count, np.int32),
        np.zeros(count, np.int32),
        np.zeros((count, channels, most), np.int64),
        np.full((count, channels, most, lanes), -1, np.int32),
    )
    load, piece = budget(), max(1, PIECE // (channels * lanes))
    for first in range(0, count, piece):
        load.check_time()
        some = slice(first, min(first + piece, count))
        numbers = np.arange(some.start * lanes, some.stop * lanes).reshape(-1, 1, lanes)
        group = np.minimum(numbers, groups * filters - 1) // filters  # lanes beyond the last filter do as that does
        block, lane = np.divmod(group * channels + np.arange(channels)[:, None], lanes)
        vector = np.zeros_like(block)
        np.cumsum(block[..., 1:] != block[..., :-1], axis=-1, out=vector[..., 1:])
        found.groups[some] = group[:, 0, -1] - group[:, 0, 0] + 1
        found.vectors[some] = vector.max((1, 2)) + 1
        for number in range(most):
            of_vector = vector == number
            found.offsets[some, :, number] = np.where(of_vector, block, 0).max(-1) * block_step
            found.lanes[some, :, number] = np.where(of_vector, lane, -1)
        elements = (found.groups[some] == 1) | ((found.groups[some] == 2) & (found.vectors[some] > 1))
        ends = block[elements][..., [0, -1]] * block_step + lane[elements][..., [0, -1]]
        found.offsets[some][elements, :, :2] = ends
        found.lanes[some][elements, :, 1] = np.where(group == group[..., -1:], 0, -1)[elements]
    return found
