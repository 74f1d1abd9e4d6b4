"""Reshape: the same elements in row-major order under another shape."""

from __future__ import annotations

import math

import numpy as np

from dovetail import DType
from dovetail.layers import Reshape

from ..cases import Case, Parameters
from ..references.moving import KEPT, any_type_operator, moved_case
from ..references.shapes import shape_of


def target(shape: tuple[int, ...], how: str) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the target shape as written and the shape that it means; None if it makes no sense."""
    count = math.prod(shape)
    if how == "flat":
        return (count,), (count,)
    if how == "inferred":
        return (-1,), (count,)
    if how == "ones":
        return (1, *shape, 1), (1, *shape, 1)
    if how == "scalar":
        return ((), ()) if count == 1 else None
    if len(shape) < 2:
        return None
    first, rest = shape[0], math.prod(shape[1:])
    ways: dict[str, tuple[tuple[int, ...], tuple[int, ...]] | None] = {
        "backward": (shape[::-1], shape[::-1]),
        "two": (((first, -1), (first, rest)) if first else None),
        "merged": ((*shape[:-2], shape[-2] * shape[-1]),) * 2,
        "zero copies": (((0, -1), (first, rest)) if first else None),
    }
    return ways[how]


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape = shape_of(parameters)
    given = None if shape is None else target(shape, parameters["target"])
    if shape is None or given is None:
        return None
    written, meant = given
    descriptor = Reshape(shape=written, zero_copies=parameters["target"] == "zero copies")
    return moved_case(descriptor, shape, lambda x: x.reshape(meant), parameters, dtype, rng)


OPERATOR = any_type_operator(
    "Reshape",
    _make,
    {
        "target": ("flat", "inferred", "ones", "scalar", "backward", "two", "merged", "zero copies"),
        **KEPT,
    },
    reaching={"outputs.rank": lambda rank: {"rank": max(rank - 2, 0), "target": "ones"}},
    together=[
        {"rank": 0, "target": "scalar"},
        {"rank": 0, "target": "ones"},
        {"rank": 1, "channels": 1, "target": "scalar"},
        {"rank": 2, "target": "backward"},
        {"rank": 6, "target": "backward"},
        {"channels": 0, "target": "backward"},
        {"channels": 0, "target": "two"},
    ],
)
