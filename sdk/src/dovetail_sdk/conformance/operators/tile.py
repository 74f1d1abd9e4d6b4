"""Tile: the whole tensor, several times along each axis."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import Tile

from ..cases import Array, Case, Parameters
from ..references.moving import KEPT, any_type_operator, moved_case
from ..references.shapes import shape_of


def repetitions(rank: int, pattern: str) -> tuple[int, ...] | None:
    """Return how often each axis is repeated; None if the pattern asks for more axes."""
    if pattern in ("last", "first", "none at all") and not rank:
        return None
    ways = {
        "twice": (2,) * min(rank, 4) + (1,) * (rank - 4),
        "once": (1,) * rank,
        "last": (*(1,) * (rank - 1), 3),
        "first": (3, *(1,) * (rank - 1)),
        "mixed": tuple(1 + axis % 3 for axis in range(rank)),
        "none at all": (*(2,) * (rank - 1), 0),
    }
    return ways[pattern]


def tiled(x: Array, repeats: tuple[int, ...]) -> Array:
    """Take each index modulo the size of its axis."""
    for axis, count in enumerate(repeats):
        x = np.take(x, [index % x.shape[axis] for index in range(count * x.shape[axis])], axis)
    return x


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape = shape_of(parameters)
    repeats = None if shape is None else repetitions(len(shape), parameters["pattern"])
    if shape is None or repeats is None:
        return None
    return moved_case(Tile(repeats=repeats), shape, lambda x: tiled(x, repeats), parameters, dtype, rng)


OPERATOR = any_type_operator(
    "Tile",
    _make,
    {
        "pattern": ("twice", "once", "last", "first", "mixed", "none at all"),
        **KEPT,
    },
    together=[{"pattern": "mixed", "rank": rank} for rank in (1, 2, 3, 6)],
)
