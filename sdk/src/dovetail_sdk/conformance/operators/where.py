"""Where: one of two tensors by a third, all three with NumPy's broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail import DType
from dovetail.layers import Where

from ..cases import Case, Feed, Operator, Parameters
from ..references import samples
from ..references.shapes import BROADCASTS, SIZES, narrowed, quantities_of, shape_of
from ..references.single_layer import carries, layer_case, marked


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape = shape_of(parameters)
    if shape is None:
        return None
    if not carries(parameters["quantization"], dtype):
        return None
    quantization = marked(parameters["quantization"])
    feeds = []
    for name in ("condition", "a", "b"):
        own = narrowed(shape, parameters[f"broadcast_{name}"])
        if own is None:
            return None
        if name == "condition":
            value = samples.truth(own, rng)
            feeds.append(Feed(value, parameters["constant"] == name))
        else:
            value = samples.anything(dtype, own, rng)
            feeds.append(Feed(value, parameters["constant"] == name, dtype, quantization))
    return layer_case(Where(), feeds, np.where(*(feed.value for feed in feeds)))


_TOGETHER: list[dict[str, Any]] = [
    {"broadcast_condition": "column", "broadcast_a": "row", "broadcast_b": "outer"},
    {"broadcast_condition": "scalar", "broadcast_a": "row", "broadcast_b": "column"},
    {"broadcast_a": "scalar", "broadcast_b": "scalar"},
    {"broadcast_b": "scalar", "constant": "b"},
]

OPERATOR = Operator(
    kind="dovetail.Where",
    dtypes=samples.ALL,
    parameters={
        **SIZES,
        "broadcast_condition": BROADCASTS,
        "broadcast_a": BROADCASTS,
        "broadcast_b": BROADCASTS,
        "constant": (None, "condition", "a", "b"),
        "quantization": (None, "alike"),
    },
    make=_make,
    quantities=quantities_of("condition", "a", "b", "output"),
    together=_TOGETHER,
)
