"""SpaceToDepth: blocks of pixels become channels."""

from __future__ import annotations

import numpy as np

from dovetail import DataLayout, DType
from dovetail.layers import SpaceToDepth

from ..cases import Case, Feed, Operator, Parameters
from ..references import samples
from ..references.pixels import laid_out, space_to_depth
from ..references.single_layer import carries, layer_case, marked


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    block, layout = parameters["block"], DataLayout(parameters["layout"])
    shape = tuple(parameters[name] for name in ("batch", "height", "width", "channels"))
    height, width = shape[1:3]
    if block < 1 or height % block or width % block:
        return None
    if not carries(parameters["quantization"], dtype):
        return None
    quantization = marked(parameters["quantization"])
    x = samples.anything(dtype, shape, rng)
    feed = Feed(laid_out(x, layout), dtype=dtype, quantization=quantization)
    descriptor = SpaceToDepth(block=block, layout=layout)
    return layer_case(descriptor, [feed], laid_out(space_to_depth(x, block), layout))


OPERATOR = Operator(
    kind="dovetail.SpaceToDepth",
    dtypes=samples.ALL,
    parameters={
        "batch": (1, 2, 3, 0),
        "height": (4, 2, 6, 12),
        "width": (6, 2, 4, 12),
        "channels": (3, 1, 0, 5, 8),
        "block": (2, 1, 3),
        "layout": tuple(DataLayout),
        "quantization": (None, "kept"),
    },
    make=_make,
    quantities={f"input.{name}": name for name in ("batch", "channels", "height", "width")},
    together=[
        {"batch": 2, "layout": DataLayout.NHWC},
        {"block": 3, "height": 6},
        {"block": 3, "height": 3, "width": 3},
        {"block": 4, "height": 4, "width": 12},
    ],
)
