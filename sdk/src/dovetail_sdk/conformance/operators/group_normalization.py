"""GroupNormalization: groups of channels of each image, [N, C, ...]."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import GroupNormalization

from ..cases import Case, Feed, Operator, Parameters
from ..references import samples
from ..references.moments import largest, normalized, own_or, parameter, tolerance
from ..references.single_layer import layer_case

_DTYPES = ("same", None, "float32", "float64", "float16", "bfloat16")


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    groups, channels, rank = parameters["groups"], parameters["channels"], parameters["rank"]
    if rank < 2 or groups < 1 or channels % groups:
        return None
    sizes = (parameters["height"], parameters["width"], 2, 1)
    shape = (parameters["batch"], channels, *sizes[: rank - 2])
    if len(shape) != rank:
        return None
    epsilon = parameters["epsilon"]
    x = samples.uniform(dtype, shape, rng)
    per_group = channels // groups * int(np.prod(shape[2:]))
    rows = samples.reals(x, dtype).reshape(shape[0], groups, per_group)
    if rows.size and per_group < 2:  # every element is its own mean
        return None
    scale_feed, scale = parameter(own_or(parameters["scale dtype"], dtype), (channels,), 0.5, 2.0, parameters["constant"], rng)
    offset_feed, offset = parameter(
        own_or(parameters["offset dtype"], dtype), (channels,), -2.0, 2.0, parameters["constant"], rng
    )
    column = (-1, *(1,) * (rank - 2))
    expected = normalized(rows, epsilon).reshape(shape) * (1.0 if scale is None else scale.reshape(column))
    expected = expected + (0.0 if offset is None else offset.reshape(column))
    bound = tolerance(rows, epsilon, largest(scale, 1.0), largest(offset, 0.0), dtype)
    descriptor = GroupNormalization(groups=groups, epsilon=epsilon)
    return layer_case(descriptor, [Feed(x, dtype=dtype), scale_feed, offset_feed], expected, tolerance=bound)


OPERATOR = Operator(
    kind="dovetail.GroupNormalization",
    dtypes=samples.FLOATS,
    parameters={
        "groups": (2, 1, 3, 6),
        "rank": (4, 2, 3, 5, 6),
        "batch": (2, 1, 0),
        "channels": (6, 2, 4, 8, 16, 18),
        "height": (3, 1, 0),
        "width": (4, 1),
        "epsilon": (1e-5, 1e-3, 0.5),
        "scale dtype": _DTYPES,
        "offset dtype": _DTYPES,
        "constant": (True, False),
    },
    make=_make,
    quantities={
        "input.rank": "rank",
        "input.0": "batch",
        "input.1": "channels",
        "input.2": "height",
        "input.3": "width",
        "scale.dtype": "scale dtype",
        "offset.dtype": "offset dtype",
        "scale.constant": "constant",
        "offset.constant": "constant",
    },
    together=[
        {"scale dtype": None, "offset dtype": None},
        {"scale dtype": "float32", "offset dtype": "float32"},
        {"groups": 3, "channels": 3},
        {"groups": 1, "channels": 1},
        {"groups": 1, "channels": 7},
        {"groups": 17, "channels": 17},
        {"groups": 1, "rank": 2},
    ],
)
