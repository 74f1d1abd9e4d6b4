"""Reshape: the same elements in row-major order under another shape."""

from __future__ import annotations

import math

import numpy as np

from dovetail import DType
from dovetail.layers import Reshape

from ..cases import Case, Feed, Operator, Parameters
from ..references import samples
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import carries, layer_case, marked


def target(shape: tuple[int, ...], how: str) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the target shape as written and the shape that it means; None if it makes no sense."""
    count = math.prod(shape)
    if how == "flat":
        return (count,), (count,)
    if how == "inferred":
        return (-1,), (count,)
    if how == "ones":
        return (1, *shape, 1), (1, *shape, 1)
    if how == "scalar":
        return ((), ()) if count == 1 else None
    if len(shape) < 2:
        return None
    first, rest = shape[0], math.prod(shape[1:])
    ways: dict[str, tuple[tuple[int, ...], tuple[int, ...]] | None] = {
        "backward": (shape[::-1], shape[::-1]),
        "two": (((first, -1), (first, rest)) if first else None),
        "merged": ((*shape[:-2], shape[-2] * shape[-1]),) * 2,
        "zero copies": (((0, -1), (first, rest)) if first else None),
    }
    return ways[how]


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape = shape_of(parameters)
    given = None if shape is None else target(shape, parameters["target"])
    if shape is None or given is None:
        return None
    if not carries(parameters["quantization"], dtype):
        return None
    quantization = marked(parameters["quantization"])
    written, meant = given
    x = samples.anything(dtype, shape, rng)
    descriptor = Reshape(shape=written, zero_copies=parameters["target"] == "zero copies")
    return layer_case(descriptor, [Feed(x, dtype=dtype, quantization=quantization)], x.reshape(meant))


OPERATOR = Operator(
    kind="dovetail.Reshape",
    dtypes=samples.ALL,
    parameters={
        **SIZES,
        "target": ("flat", "inferred", "ones", "scalar", "backward", "two", "merged", "zero copies"),
        "quantization": (None, "kept"),
    },
    make=_make,
    quantities=quantities_of("input"),
    reaching={"outputs.rank": lambda rank: {"rank": max(rank - 2, 0), "target": "ones"}},
    together=[
        {"rank": 0, "target": "scalar"},
        {"rank": 0, "target": "ones"},
        {"rank": 1, "channels": 1, "target": "scalar"},
        {"rank": 2, "target": "backward"},
        {"rank": 6, "target": "backward"},
        {"channels": 0, "target": "backward"},
        {"channels": 0, "target": "two"},
    ],
)
