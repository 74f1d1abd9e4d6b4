"""How large weights are in memory after the driver packed them."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

import numpy as np

from ..chips import Chip
from ..program import Weights

_SAMPLE = 1 << 16
"""Weights that are counted of a layer with more: a sample of this size is 0.003 bits off."""
_WINDOWS = 2 * 3 * 5 * 7 * 11 * 13
"""A step that shares no factor with this meets all places of a kernel."""
_CODE_BITS = 0.22
"""What codes take beyond the entropy, in bits a weight. Fitted."""
_COUNT_BITS = range(6)
"""Of the counts of zeros before a weight; a layer has counts of one width."""
_FILLED_BITS = 0.45
"""Of a weight that was put in to fill a kernel. Fitted."""


class Statistics(NamedTuple):
    """What decides how well weights are packed.

    Attributes:
        entropy: In bits, of the values.
        zeros: Part of the values that are the zero point.
    """

    entropy: float
    zeros: float


EQUAL = Statistics(0.05, 0.0)
"""Of weights that all are the same."""


def statistics(weights: Weights) -> Statistics:
    """Return the statistics of weights with one scale; of a sample where there are many."""
    values = weights.values.reshape(-1).view(np.uint8)
    counts = np.bincount(values[:: _step(values.size)], minlength=256)
    shares = counts[counts > 0] / max(counts.sum(), 1)
    entropy = float(-(shares * np.log2(shares)).sum())
    return Statistics(entropy, float(counts[weights.zero_point[0] & 255] / max(counts.sum(), 1)))


def packed_bytes(
    chip: Chip, found: Statistics, weights: int, filters: int, *, filled: int = 0, is_depthwise: bool = False
) -> float:
    """Return the size of packed weights in bytes.

    Args:
        chip: Which packs them.
        found: What the weights are like.
        weights: How many there are.
        filters: How many there are.
        filled: Weights with those that were put in.
        is_depthwise: They are for the depthwise mode, which keeps nothing else of a filter.
    """
    bits = (max(found.entropy, 0.05) + _CODE_BITS) if chip.nn.entropy_coded else _run_length_bits(found.zeros)
    heads = 450 + (0 if is_depthwise else 4 * filters) if chip.nn.entropy_coded else 300 + 4 * filters
    return weights * bits / 8 + heads + max(filled - weights, 0) * _FILLED_BITS / 8


def _run_length_bits(zeros: float) -> float:
    """Return the bits of a weight, where each but zeros has a count of the zeros before it."""
    part = min(max(zeros, 1e-9), 0.9999)
    least: float = min((8 + bits) * (1 - part) / (1 - part**2**bits) for bits in _COUNT_BITS)
    return least + 0.05


def _step(size: int) -> int:
    step = max(size // _SAMPLE, 1)
    while gcd(step, _WINDOWS) > 1:
        step += 1
    return step
