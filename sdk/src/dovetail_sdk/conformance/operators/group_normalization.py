"""GroupNormalization: groups of channels of each image, [N, C, ...]."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import GroupNormalization

from ..cases import Case, Operator, Parameters
from ..references import samples
from ..references.moments import SCALED, SCALED_QUANTITIES, normalized_case


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    groups, channels, rank = parameters["groups"], parameters["channels"], parameters["rank"]
    if rank < 2 or groups < 1 or channels % groups:
        return None
    sizes = (parameters["height"], parameters["width"], 2, *(1,) * max(rank - 5, 0))
    shape = (parameters["batch"], channels, *sizes[: rank - 2])
    if len(shape) != rank:
        return None
    x = samples.uniform(dtype, shape, rng)
    per_group = channels // groups * int(np.prod(shape[2:]))
    rows = samples.reals(x, dtype).reshape(shape[0], groups, per_group)
    if rows.size and per_group < 2:  # every element is its own mean
        return None
    operand = (channels,), (channels, *(1,) * (rank - 2))
    descriptor = GroupNormalization(groups=groups, epsilon=parameters["epsilon"])
    return normalized_case(descriptor, x, rows, lambda result: result.reshape(shape), operand, parameters, dtype, rng)


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
        **SCALED,
    },
    make=_make,
    quantities={
        "input.rank": "rank",
        "input.0": "batch",
        "input.1": "channels",
        "input.2": "height",
        "input.3": "width",
        **SCALED_QUANTITIES,
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
