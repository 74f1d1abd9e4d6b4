"""LpNormalization: over the 1-norm or 2-norm of a line."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import LpNormalization

from ..cases import Array, Case, Feed, Operator, Parameters
from ..references import samples
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import layer_case
from ..references.tolerances import proportional

_REASON = "the norm sums terms of one sign: gamma of their count, a square and a root; a quotient"


def divided_by_norm(x: Array, axis: int, p: int, epsilon: float) -> Array:
    """Divide each line by its norm, which is at least epsilon."""
    magnitudes = np.abs(x)
    norm = magnitudes.sum(axis, keepdims=True) if p == 1 else np.sqrt((magnitudes * magnitudes).sum(axis, keepdims=True))
    return np.asarray(x / np.maximum(norm, epsilon))


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, axis, p, epsilon = shape_of(parameters), parameters["axis"], parameters["p"], parameters["epsilon"]
    if shape is None or not -len(shape) <= axis < len(shape) or p not in (1, 2):
        return None
    # Away from zero: what 0 / 0 gives is open.
    signs = rng.choice([-1.0, 1.0], shape)
    x = samples.stored(signs * rng.uniform(0.25, 4.0, shape), dtype)
    expected = divided_by_norm(samples.reals(x, dtype), axis, p, epsilon)
    descriptor = LpNormalization(axis=axis, p=p, epsilon=epsilon)
    return layer_case(descriptor, [Feed(x, dtype=dtype)], expected, tolerance=proportional(dtype, shape[axis] + 8, _REASON))


OPERATOR = Operator(
    kind="dovetail.LpNormalization",
    dtypes=samples.FLOATS,
    parameters={
        **SIZES,
        "axis": (-1, 0, 1, 2, 3, -2, -4),
        "p": (2, 1),
        "epsilon": (0.0, 1e-6, 8.0),  # at 8, some norms are below it and some above
    },
    make=_make,
    quantities=quantities_of("input", "output"),
    together=[
        *({"p": 1, "axis": axis} for axis in (0, 1, -2)),
        *({"p": 1, "epsilon": epsilon} for epsilon in (1e-6, 8.0)),
        {"p": 1, "rank": 1, "channels": 17},
        {"axis": 1, "epsilon": 8.0},
    ],
)
