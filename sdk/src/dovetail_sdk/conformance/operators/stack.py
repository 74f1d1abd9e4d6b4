"""Stack: tensors of one shape along a new axis."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import Stack

from ..cases import Case, Feed, Parameters
from ..references import samples
from ..references.moving import KEPT, any_type_operator
from ..references.shapes import quantities_of, shape_of
from ..references.single_layer import carries, layer_case, marked


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, axis, how = shape_of(parameters), parameters["axis"], parameters["quantization"]
    if shape is None or not -len(shape) - 1 <= axis <= len(shape) or not carries(how, dtype):
        return None
    feeds = [
        Feed(samples.anything(dtype, shape, rng), parameters["constant"] == index, dtype, marked(how))
        for index in range(parameters["count"])
    ]
    return layer_case(Stack(axis=axis), feeds, np.stack([feed.value for feed in feeds], axis))


OPERATOR = any_type_operator(
    "Stack",
    _make,
    {
        "axis": (0, 1, 2, 4, -1, -2, -5),
        "count": (2, 1, 3, 7),
        "constant": (None, 0, 1),
        **KEPT,
    },
    quantities={**quantities_of("inputs"), "inputs.count": "count"},
    reaching={"output.rank": lambda rank: {"rank": rank - 1}},
    together=[
        {"rank": 0, "axis": -1, "count": 5},
        {"rank": 1, "axis": 1, "count": 3},
        {"rank": 6, "axis": 3},
        {"channels": 0, "axis": -1},
    ],
)
