"""Shape: the sizes of a tensor, or of some of its axes, as int64."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import Shape

from ..cases import Case, Feed, Operator, Parameters
from ..references import samples
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import layer_case


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, start, end = shape_of(parameters), parameters["start"], parameters["end"]
    if shape is None:
        return None
    x = samples.anything(dtype, shape, rng)
    # ONNX: an end or start beyond the rank is clamped, as Python does in slices.
    sizes = np.asarray([*shape][slice(start, end)], np.int64)
    return layer_case(Shape(start=start, end=end), [Feed(x, dtype=dtype)], sizes)


OPERATOR = Operator(
    kind="dovetail.Shape",
    dtypes=samples.ALL,
    parameters={**SIZES, "start": (0, 1, -1, -2, 4), "end": (None, 1, 3, -1, 0, 9)},
    make=_make,
    quantities=quantities_of("input"),
    together=[{"start": 1, "end": 3}, {"start": -3, "end": -1}],
)
