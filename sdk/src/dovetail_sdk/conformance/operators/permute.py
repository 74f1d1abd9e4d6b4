"""Permute: axes in another order."""

from __future__ import annotations

import numpy as np

from dovetail import DType, Quantization
from dovetail.layers import Permute

from ..cases import Array, Case, Feed, Parameters
from ..references import samples
from ..references.moving import any_type_operator
from ..references.shapes import shape_of
from ..references.single_layer import carries, layer_case, marked


def permuted(x: Array, order: tuple[int, ...]) -> Array:
    """Place every element by its position.

    The index along axis i of the result is that along axis order[i] of the input.
    """
    result = np.empty([x.shape[axis] for axis in order], x.dtype)
    for position in np.ndindex(x.shape):
        result[tuple(position[axis] for axis in order)] = x[position]
    return result


def _quantization(how: str | None, shape: tuple[int, ...]) -> Quantization | None:
    if how != "per axis":
        return marked(how)
    return Quantization.per_axis([0.25 * (1 + index) for index in range(shape[-1])], axis=len(shape) - 1)


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, permutation = shape_of(parameters), parameters["permutation"]
    if shape is None:
        return None
    order = tuple(range(len(shape)))[::-1] if permutation is None else tuple(axis % max(len(shape), 1) for axis in permutation)
    if sorted(order) != list(range(len(shape))):
        return None
    how = parameters["quantization"]
    if not carries(how, dtype) or (how == "per axis" and (not shape or not shape[-1])):
        return None
    x = samples.anything(dtype, shape, rng)
    feed = Feed(x, dtype=dtype, quantization=_quantization(how, shape))
    return layer_case(Permute(permutation=permutation), [feed], permuted(x, order))


_OF_FOUR = ((0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 2, 3), (1, 0, 2, 3), (0, 1, 3, 2), (0, 2, 1, 3), (3, 2, 1, 0), (-1, 0, -2, 1))

OPERATOR = any_type_operator(
    "Permute",
    _make,
    {"permutation": (None, *_OF_FOUR), "quantization": (None, "kept", "per axis")},
    together=[
        {"rank": 2, "permutation": (1, 0)},
        {"rank": 2, "permutation": (0, 1)},
        *({"rank": 3, "permutation": order} for order in ((0, 2, 1), (2, 0, 1), (1, 2, 0), (1, 0, 2))),
        {"rank": 5, "permutation": (0, 4, 1, 2, 3)},
        {"rank": 6, "permutation": (5, 3, 1, 0, 2, 4)},
        {"rank": 0, "permutation": ()},
        {"permutation": (0, 2, 3, 1), "quantization": "per axis"},
        {"permutation": (0, 2, 3, 1), "channels": 17, "width": 1},
        {"permutation": (0, 3, 1, 2), "channels": 17, "batch": 1},
        {"permutation": (0, 2, 3, 1), "channels": 0},
    ],
)
