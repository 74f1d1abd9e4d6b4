"""BroadcastTo: axes of size one are repeated."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import BroadcastTo

from ..cases import Case, Feed, Operator, Parameters
from ..references import samples
from ..references.shapes import BROADCASTS, SIZES, narrowed, quantities_of, shape_of
from ..references.single_layer import carries, layer_case, marked


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    result = shape_of(parameters)
    if result is None:
        return None
    shape, written = narrowed(result, parameters["broadcast"]), narrowed(result, parameters["written"])
    if shape is None or written is None or np.broadcast_shapes(shape, written) != result:
        return None
    if not carries(parameters["quantization"], dtype):
        return None
    quantization = marked(parameters["quantization"])
    x = samples.anything(dtype, shape, rng)
    feed = Feed(x, dtype=dtype, quantization=quantization)
    return layer_case(BroadcastTo(shape=written), [feed], np.ascontiguousarray(np.broadcast_to(x, result)).reshape(result))


OPERATOR = Operator(
    kind="dovetail.BroadcastTo",
    dtypes=samples.ALL,
    parameters={
        **SIZES,
        "broadcast": ("column", *(how for how in BROADCASTS if how != "column")),
        "written": ("none", "leading", "row", "one"),
        "quantization": (None, "kept"),
    },
    make=_make,
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
