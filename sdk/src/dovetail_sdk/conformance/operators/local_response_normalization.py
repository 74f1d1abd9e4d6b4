"""LocalResponseNormalization: by the squares of neighbouring channels."""

from __future__ import annotations

import math

import numpy as np

from dovetail import DataLayout, DType
from dovetail.layers import LocalResponseNormalization

from ..cases import Array, Case, Feed, Operator, Parameters
from ..references import samples
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import layer_case
from ..references.tolerances import proportional
from .batch_normalization import channel_axis

_REASON = (
    "sum of squares: gamma of their count, times beta; the power from an exponential of beta * logarithm, at most 16 "
    "roundings per unit of it, and a quotient"
)


def normalized_by_neighbours(x: Array, axis: int, size: int, alpha: float, beta: float, k: float) -> Array:
    """Sum, as ONNX, channels c - floor((size - 1) / 2) to c + ceil((size - 1) / 2), inclusive."""
    planes = np.moveaxis(x, axis, 0)
    result = np.empty_like(planes)
    before, after = (size - 1) // 2, size // 2
    for c, plane in enumerate(planes):
        near = planes[max(0, c - before) : c + after + 1]
        result[c] = plane / (k + alpha / size * np.sum(near * near, 0)) ** beta
    return np.moveaxis(result, 0, axis)


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, layout, size = shape_of(parameters), DataLayout(parameters["layout"]), parameters["size"]
    if shape is None or size < 1:
        return None
    axis = channel_axis(layout, len(shape))
    if axis is None:
        return None
    alpha, beta, k = parameters["alpha"], parameters["beta"], parameters["k"]
    x = samples.uniform(dtype, shape, rng)
    expected = normalized_by_neighbours(samples.reals(x, dtype), axis, size, alpha, beta, k)
    descriptor = LocalResponseNormalization(size=size, alpha=alpha, beta=beta, k=k, layout=layout)
    tolerance = proportional(dtype, math.ceil(beta * (size + 4) + 16 * (1 + 4 * beta)), _REASON)
    return layer_case(descriptor, [Feed(x, dtype=dtype)], expected, tolerance=tolerance)


OPERATOR = Operator(
    kind="dovetail.LocalResponseNormalization",
    dtypes=samples.FLOATS,
    parameters={
        "size": (3, 1, 2, 4, 5, 9),
        **SIZES,
        "layout": ("NCHW", "NHWC"),
        "alpha": (0.5, 1e-4, 1.0),
        "beta": (0.75, 0.5, 1.0),
        "k": (1.0, 2.0),
    },
    make=_make,
    quantities=quantities_of("input", "output"),
    together=[
        *({"layout": "NHWC", "size": size} for size in (1, 2, 4, 5, 9)),
        *({"layout": "NHWC", "rank": rank} for rank in (1, 2, 3, 5)),
        *({"layout": "NHWC", "channels": size} for size in (0, 1, 7, 17)),
        {"rank": 2, "channels": 17, "size": 4},
        {"layout": "NHWC", "channels": 17, "size": 5, "beta": 1.0, "k": 2.0},
    ],
)
