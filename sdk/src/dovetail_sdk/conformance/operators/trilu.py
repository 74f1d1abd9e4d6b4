"""Trilu: one triangle of each matrix, zeros elsewhere."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import Trilu

from ..cases import Array, Case, Feed, Operator, Parameters
from ..references import samples
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import layer_case


def triangle(x: Array, upper: bool, k: int) -> Array:
    """Keep row i, column j if j - i >= k (upper) or j - i <= k (lower)."""
    rows, columns = np.indices(x.shape[-2:])
    kept = columns - rows >= k if upper else columns - rows <= k
    return np.where(kept, x, x.dtype.type(0))


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, upper, k = shape_of(parameters), parameters["upper"], parameters["k"]
    if shape is None or len(shape) < 2:
        return None
    x = samples.anything(dtype, shape, rng)
    return layer_case(Trilu(upper=upper, k=k), [Feed(x, dtype=dtype)], triangle(x, upper, k))


OPERATOR = Operator(
    kind="dovetail.Trilu",
    dtypes=samples.ALL,
    parameters={**SIZES, "upper": (True, False), "k": (0, 1, -1, 3, -3, 100, -100)},
    make=_make,
    quantities=quantities_of("input", "output"),
    together=[
        *({"upper": False, "k": k} for k in (1, -1, 3, -3, 100, -100)),
        *({"upper": upper, "rank": 2, "width": 5} for upper in (True, False)),
        *({"upper": upper, "rank": 2, "width": 7, "channels": 3, "k": k} for upper in (True, False) for k in (-2, 2)),
        {"upper": False, "rank": 6},
        {"upper": False, "channels": 0},
    ],
)
