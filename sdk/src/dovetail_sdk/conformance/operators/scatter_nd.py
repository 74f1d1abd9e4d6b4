"""ScatterNd: slices placed by positions over several axes."""

from __future__ import annotations

import math

import numpy as np

from dovetail import DType
from dovetail.layers import ScatterNd, ScatterReduction

from ..cases import Array, Case, Feed, Operator, Parameters
from ..references import samples
from ..references.positions import INDEX_DTYPES, indices, places
from ..references.scattering import operands, scattered
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import carries, layer_case, marked

_MAX_TIMES = {ScatterReduction.NONE: 0, ScatterReduction.MUL: 3}
"""How often a slice may be met: which of several plain updates wins is not said, and products must not overflow."""


def _positions(parameters: Parameters, sizes: tuple[int, ...], rng: np.random.Generator) -> Array | None:
    """Return positions over axes of these sizes: [*leading, axes]."""
    lead, label, negative = tuple(parameters["leading"]), parameters["index_dtype"], parameters["negative"]
    count = math.prod(lead)
    if not parameters["repeated"]:
        chosen = places(label, count, sizes, negative, rng)
        return None if chosen is None else chosen.reshape(*lead, len(sizes))
    if count > _MAX_TIMES.get(ScatterReduction(parameters["reduction"]), 8):
        return None
    columns = [indices(label, lead, size, negative, rng) for size in sizes]
    given = [column for column in columns if column is not None]
    return np.stack(given, -1) if len(given) == len(sizes) else None


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, depth, how = shape_of(parameters), parameters["depth"], parameters["quantization"]
    reduction = ScatterReduction(parameters["reduction"])
    if shape is None or not 1 <= depth <= len(shape) or not carries(how, dtype):
        return None
    if how is not None and reduction in (ScatterReduction.ADD, ScatterReduction.MUL):
        return None  # sums and products of integers with a zero point mean nothing
    index = _positions(parameters, shape[:depth], rng)
    values = None if index is None else operands(dtype, shape, (*index.shape[:-1], *shape[depth:]), reduction, rng)
    if index is None or values is None:
        return None
    x, updates = values
    met = [(tuple(int(i) for i in index[at]), updates[at]) for at in np.ndindex(index.shape[:-1])]
    feeds = [
        Feed(x, dtype=dtype, quantization=marked(how)),
        Feed(index, parameters["constant_indices"]),
        Feed(updates, dtype=dtype, quantization=marked(how)),
    ]
    return layer_case(ScatterNd(reduction=reduction), feeds, scattered(x, met, reduction, dtype))


OPERATOR = Operator(
    kind="dovetail.ScatterNd",
    dtypes=samples.ALL,
    parameters={
        **SIZES,
        "depth": (2, 1, 3, 4),
        "leading": ((3,), (), (1,), (0,), (2, 2)),
        "reduction": tuple(ScatterReduction),
        "repeated": (False, True),
        "index_dtype": INDEX_DTYPES,
        "negative": (False, True),
        "constant_indices": (False, True),
        "quantization": (None, "kept"),
    },
    make=_make,
    quantities={
        **quantities_of("input"),
        "indices.-1": "depth",
        "indices.dtype": "index_dtype",
        "indices.constant": "constant_indices",
    },
    together=[
        *({"reduction": reduction, "repeated": True} for reduction in tuple(ScatterReduction)[1:]),
        *({"reduction": reduction, "repeated": True, "depth": 4} for reduction in tuple(ScatterReduction)[1:]),
        {"reduction": ScatterReduction.ADD, "repeated": True, "depth": 1, "leading": (2, 4)},
        {"rank": 1, "depth": 1},
        {"rank": 1, "depth": 1, "leading": ()},
        {"rank": 6, "depth": 5},
        {"depth": 4, "leading": (2, 3, 1), "negative": True, "index_dtype": "int32"},
        {"depth": 1, "leading": (2,)},
        {"channels": 0, "depth": 2},
        {"reduction": ScatterReduction.MIN, "quantization": "kept"},
    ],
)
