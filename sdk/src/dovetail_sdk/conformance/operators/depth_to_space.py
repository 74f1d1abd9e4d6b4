"""DepthToSpace: channels become blocks of pixels."""

from __future__ import annotations

import numpy as np

from dovetail import DataLayout, DType
from dovetail.layers import DepthToSpace

from ..cases import Case, Parameters
from ..references.pixels import depth_to_space, moved_case, pixel_operator


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    block, column_first = parameters["block"], parameters["column_first"]
    if block < 1 or parameters["channels"] % block**2:
        return None
    descriptor = DepthToSpace(block=block, column_first=column_first, layout=DataLayout(parameters["layout"]))
    return moved_case(descriptor, lambda x: depth_to_space(x, block, column_first), parameters, dtype, rng)


OPERATOR = pixel_operator(
    "DepthToSpace",
    _make,
    {
        "height": (2, 1, 3),
        "width": (3, 1, 2),
        "channels": (12, 4, 0, 16, 36),
        "column_first": (False, True),
    },
    [
        {"batch": 2, "layout": DataLayout.NHWC},
        {"block": 3, "channels": 18},
        {"block": 3, "channels": 18, "column_first": True},
        {"block": 4, "channels": 16, "column_first": True},
        {"column_first": True, "layout": DataLayout.NHWC},
        {"block": 1, "channels": 5},
        {"block": 3, "channels": 9, "layout": DataLayout.NHWC},
    ],
)
