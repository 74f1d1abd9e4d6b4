"""ExpandDims: new axes of size one, at positions of the result."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import ExpandDims

from ..cases import Case, Parameters
from ..references.moving import KEPT, any_type_operator, moved_case
from ..references.shapes import shape_of


def expanded(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape with the new axes; None if one is out of range or named twice."""
    rank = len(shape) + len(axes)
    places = {axis % rank for axis in axes if -rank <= axis < rank}
    if len(places) < len(axes):
        return None
    sizes = iter(shape)
    return tuple(1 if axis in places else next(sizes) for axis in range(rank))


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, axes = shape_of(parameters), tuple(parameters["axes"])
    result = None if shape is None else expanded(shape, axes)
    if shape is None or result is None:
        return None
    return moved_case(ExpandDims(axes=axes), shape, lambda x: x.reshape(result), parameters, dtype, rng)


OPERATOR = any_type_operator(
    "ExpandDims",
    _make,
    {
        "axes": ((0,), (-1,), (2,), (4,), (-5,), (), (0, 2), (-1, -3), (3, 0)),
        **KEPT,
    },
    reaching={slot: lambda rank: {"rank": rank, "axes": ()} for slot in ("input.rank", "outputs.rank")},
    together=[{"rank": 0, "axes": (0, 1)}, {"rank": 0, "axes": (-1,)}, {"rank": 1, "axes": (1,)}, {"rank": 2, "axes": (0, 3)}],
)
