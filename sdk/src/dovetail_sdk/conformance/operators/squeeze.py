"""Squeeze: axes of size one go."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import Squeeze

from ..cases import Case, Parameters
from ..references.moving import KEPT, any_type_operator, moved_case
from ..references.shapes import shape_of


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, ones = shape_of(parameters), tuple(parameters["ones"])
    if shape is None or any(not -len(shape) <= axis < len(shape) for axis in ones):
        return None
    places = {axis % len(shape) for axis in ones}
    shape = tuple(1 if axis in places else size for axis, size in enumerate(shape))
    if parameters["named"]:
        axes, gone = ones, places
    else:
        axes, gone = None, {axis for axis, size in enumerate(shape) if size == 1}
    result = [size for axis, size in enumerate(shape) if axis not in gone]
    return moved_case(Squeeze(axes=axes), shape, lambda x: x.reshape(result), parameters, dtype, rng)


OPERATOR = any_type_operator(
    "Squeeze",
    _make,
    {
        "ones": ((0,), (-1,), (1,), (-4,), (), (1, 2), (-1, 0), (0, 1, 2, 3)),
        "named": (True, False),
        **KEPT,
    },
    reaching={"outputs.rank": lambda rank: {"rank": rank, "ones": (), "named": True}},
    together=[
        {"ones": (1, 2), "named": False},
        {"ones": (0, 1, 2, 3), "named": False},
        {"ones": (), "named": False},
        {"rank": 0, "ones": (), "named": False},
        {"rank": 0, "ones": ()},
        {"rank": 6, "ones": (0, 4), "named": False},
    ],
)
