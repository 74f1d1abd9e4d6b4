"""How a reduction over any axes is done, one group of neighbouring axes at a time."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

_LONG = 1 << 16


def stages_of(sizes: Sequence[int], reduced: Collection[int]) -> list[tuple[int, int, int]]:
    """Return (outer, size, inner) of each stage, those of the last axes first.

    A stage makes [outer, inner] of [outer, size, inner]. There is one for each run of reduced axes,
    and at least one.

    >>> stages_of((2, 3, 4, 5), (0, 2, 3))
    [(6, 20, 1), (1, 2, 3)]
    """
    if 0 in sizes:  # nothing to read: what is left of no elements
        kept = math.prod(size for axis, size in enumerate(sizes) if axis not in reduced)
        return [(kept, 0, 1)]
    runs: list[tuple[int, bool]] = []
    for axis, size in enumerate(sizes):
        if size == 1:
            continue
        if runs and runs[-1][1] == (axis in reduced):
            runs[-1] = (runs[-1][0] * size, runs[-1][1])
        else:
            runs.append((size, axis in reduced))
    if len(runs) == 1 and runs[0][1]:
        return _in_parts(runs[0][0])
    stages, inner = [], 1
    while runs:
        size, is_reduced = runs.pop()
        if is_reduced:
            stages.append((math.prod(before for before, _ in runs), size, inner))
        else:
            inner *= size
    return stages or [(1, 1, inner)]


def _in_parts(size: int) -> list[tuple[int, int, int]]:
    """One long row as several, so that threads can share it, if it divides."""
    if size >= _LONG:
        for parts in (32, 24, 16, 9, 5, 4, 7, 3, 2):
            if size % parts == 0:
                return [(parts, size // parts, 1), (1, parts, 1)]
    return [(1, size, 1)]
