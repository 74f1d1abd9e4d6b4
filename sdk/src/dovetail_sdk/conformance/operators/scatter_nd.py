"""ScatterNd: slices placed by positions over several axes."""

from __future__ import annotations

import math

import numpy as np

from dovetail import DType
from dovetail.layers import ScatterNd, ScatterReduction

from ..cases import Array, Case, Parameters
from ..references.moving import any_type_operator
from ..references.positions import INDEX_QUANTITIES, INDEXED, LEADING, coordinates, places
from ..references.scattering import may_meet, meaningful, scatter_case
from ..references.shapes import quantities_of, shape_of


def _positions(parameters: Parameters, sizes: tuple[int, ...], rng: np.random.Generator) -> Array | None:
    """Return positions over axes of these sizes: [*leading, axes]."""
    lead, label, negative = tuple(parameters["leading"]), parameters["index_dtype"], parameters["negative"]
    count = math.prod(lead)
    if not parameters["repeated"]:
        chosen = places(label, count, sizes, negative, rng)
        return None if chosen is None else chosen.reshape(*lead, len(sizes))
    return coordinates(label, lead, sizes, negative, rng) if may_meet(parameters, count) else None


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, depth = shape_of(parameters), parameters["depth"]
    if shape is None or not 1 <= depth <= len(shape) or not meaningful(parameters, dtype):
        return None
    index = _positions(parameters, shape[:depth], rng)
    if index is None:
        return None
    met = {at: tuple(int(i) for i in index[at]) for at in np.ndindex(index.shape[:-1])}
    descriptor = ScatterNd(reduction=ScatterReduction(parameters["reduction"]))
    return scatter_case(descriptor, shape, index, met, (*index.shape[:-1], *shape[depth:]), parameters, dtype, rng)


OPERATOR = any_type_operator(
    "ScatterNd",
    _make,
    {
        "depth": (2, 1, 3, 4),
        "leading": LEADING,
        "reduction": tuple(ScatterReduction),
        "repeated": (False, True),
        **INDEXED,
    },
    quantities={**quantities_of("input"), "indices.-1": "depth", **INDEX_QUANTITIES},
    together=[
        *({"reduction": reduction, "repeated": True} for reduction in tuple(ScatterReduction)[1:]),
        *({"reduction": reduction, "repeated": True, "depth": 4} for reduction in tuple(ScatterReduction)[1:]),
        {"reduction": ScatterReduction.ADD, "repeated": True, "depth": 1, "leading": (2, 4)},
        {"rank": 1, "depth": 1},
        {"rank": 1, "depth": 1, "leading": ()},
        {"rank": 6, "depth": 5},
        {"rank": 8, "leading": (1,)},
        {"rank": 9, "leading": (1,)},
        {"depth": 4, "leading": (2, 3, 1), "negative": True, "index_dtype": "int32"},
        {"depth": 1, "leading": (2,)},
        {"channels": 0, "depth": 2},
        {"reduction": ScatterReduction.MIN, "quantization": "kept"},
    ],
)
