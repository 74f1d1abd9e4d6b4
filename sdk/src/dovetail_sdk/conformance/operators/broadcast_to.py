"""BroadcastTo: axes of size one are repeated."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import BroadcastTo

from ..cases import Array, Case, Parameters
from ..references.moving import KEPT, any_type_operator, moved_case
from ..references.shapes import BROADCASTS, narrowed, quantities_of, shape_of


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    result = shape_of(parameters)
    if result is None:
        return None
    shape, written = narrowed(result, parameters["broadcast"]), narrowed(result, parameters["written"])
    if shape is None or written is None or np.broadcast_shapes(shape, written) != result:
        return None

    def repeated(x: Array) -> Array:
        return np.ascontiguousarray(np.broadcast_to(x, result)).reshape(result)

    return moved_case(BroadcastTo(shape=written), shape, repeated, parameters, dtype, rng)


OPERATOR = any_type_operator(
    "BroadcastTo",
    _make,
    {
        "broadcast": ("column", *(how for how in BROADCASTS if how != "column")),
        "written": ("none", "leading", "row", "one"),
        **KEPT,
    },
    quantities={**quantities_of("output"), "outputs.rank": "rank", "input.rank": "rank"},
    together=[
        {"broadcast": "none", "written": "scalar"},
        {"broadcast": "none", "written": "one"},
        {"broadcast": "column", "written": "row"},
        *({"broadcast": "scalar", "rank": rank} for rank in (0, 1, 2, 6)),
        *({"broadcast": "row", "channels": size} for size in (0, 1, 17)),
        *({"broadcast": "outer", "rank": rank} for rank in (2, 3, 5, 6)),
    ],
)
