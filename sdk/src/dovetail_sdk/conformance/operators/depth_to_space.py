"""DepthToSpace: channels become blocks of pixels."""

from __future__ import annotations

import numpy as np

from dovetail import DataLayout, DType
from dovetail.layers import DepthToSpace

from ..cases import Case, Feed, Operator, Parameters
from ..references import samples
from ..references.pixels import depth_to_space, laid_out
from ..references.single_layer import carries, layer_case, marked


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    block, layout = parameters["block"], DataLayout(parameters["layout"])
    shape = tuple(parameters[name] for name in ("batch", "height", "width", "channels"))
    channels = shape[3]
    if block < 1 or channels % block**2:
        return None
    if not carries(parameters["quantization"], dtype):
        return None
    quantization = marked(parameters["quantization"])
    x = samples.anything(dtype, shape, rng)
    feed = Feed(laid_out(x, layout), dtype=dtype, quantization=quantization)
    descriptor = DepthToSpace(block=block, column_first=parameters["column_first"], layout=layout)
    return layer_case(descriptor, [feed], laid_out(depth_to_space(x, block, parameters["column_first"]), layout))


OPERATOR = Operator(
    kind="dovetail.DepthToSpace",
    dtypes=samples.ALL,
    parameters={
        "batch": (1, 2, 3, 0),
        "height": (2, 1, 3),
        "width": (3, 1, 2),
        "channels": (12, 4, 0, 16, 36),
        "block": (2, 1, 3),
        "column_first": (False, True),
        "layout": tuple(DataLayout),
        "quantization": (None, "kept"),
    },
    make=_make,
    quantities={f"input.{name}": name for name in ("batch", "channels", "height", "width")},
    together=[
        {"batch": 2, "layout": DataLayout.NHWC},
        {"block": 3, "channels": 18},
        {"block": 3, "channels": 18, "column_first": True},
        {"block": 4, "channels": 16, "column_first": True},
        {"column_first": True, "layout": DataLayout.NHWC},
        {"block": 1, "channels": 5},
        {"block": 3, "channels": 9, "layout": DataLayout.NHWC},
    ],
)
