"""Join the taps of a resized axis in one table."""

from __future__ import annotations

import numpy as np

from dovetail.layers import Resize, ResizeTaps


def taps(descriptor: Resize, size: int, wanted: int, scale: float) -> ResizeTaps:
    """Return, for every result along an axis, what it is the weighted sum of."""
    every = np.arange(wanted + 1)
    if size == wanted and scale == 1.0:
        return ResizeTaps(every, every[:-1], np.ones(wanted))
    parts = list(descriptor.taps(size, wanted, scale))
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0] + [len(part.position) for part in parts])
    first = [part.first[:-1] + start for part, start in zip(parts, before, strict=False)]
    return ResizeTaps(
        np.concatenate([*first, before[-1:]]),
        np.concatenate([part.position for part in parts]),
        np.concatenate([part.weight for part in parts]),
    )
