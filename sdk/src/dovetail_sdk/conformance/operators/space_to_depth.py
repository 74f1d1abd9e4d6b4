"""SpaceToDepth: blocks of pixels become channels."""

from __future__ import annotations

import numpy as np

from dovetail import DataLayout, DType
from dovetail.layers import SpaceToDepth

from ..cases import Case, Parameters
from ..references.pixels import moved_case, pixel_operator, space_to_depth


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    block = parameters["block"]
    if block < 1 or parameters["height"] % block or parameters["width"] % block:
        return None
    descriptor = SpaceToDepth(block=block, layout=DataLayout(parameters["layout"]))
    return moved_case(descriptor, lambda x: space_to_depth(x, block), parameters, dtype, rng)


OPERATOR = pixel_operator(
    "SpaceToDepth",
    _make,
    {
        "height": (4, 2, 6, 12),
        "width": (6, 2, 4, 12),
        "channels": (3, 1, 0, 5, 8),
    },
    [
        {"batch": 2, "layout": DataLayout.NHWC},
        {"block": 3, "height": 6},
        {"block": 3, "height": 3, "width": 3},
        {"block": 4, "height": 4, "width": 12},
    ],
)
