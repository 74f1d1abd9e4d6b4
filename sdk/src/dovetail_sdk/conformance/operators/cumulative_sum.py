"""CumulativeSum: running sums along an axis."""

from __future__ import annotations

import math

import numpy as np

from dovetail import DType
from dovetail.layers import CumulativeSum

from ..cases import EXACT, Array, Case, Feed, Operator, Parameters
from ..references import samples
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import layer_case
from ..references.tolerances import accumulated


def running_sum(x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Sum, separately, what is before (or after) each element; round floats only at the end."""
    lines = np.moveaxis(x, axis, -1)
    result = np.zeros(lines.shape, x.dtype)
    for place in np.ndindex(lines.shape):
        line, at = lines[place[:-1]], place[-1]
        terms = line[at + exclusive :] if reverse else line[: at + 1 - exclusive]
        result[place] = math.fsum(terms) if x.dtype.kind == "f" else sum(terms.tolist())
    return np.moveaxis(result, -1, axis)


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, axis = shape_of(parameters), parameters["axis"]
    if shape is None or not -len(shape) <= axis < len(shape):
        return None
    length, tolerance = shape[axis], EXACT
    descriptor = CumulativeSum(axis=axis, exclusive=parameters["exclusive"], reverse=parameters["reverse"])
    if dtype.is_float:
        x = samples.uniform(dtype, shape, rng)
        reals = samples.reals(x, dtype)
        tolerance = accumulated(dtype, length, float(np.abs(reals).sum(axis).max(initial=0.0)), what="a running sum")
    else:
        maximum = max(samples.limits(dtype)[1] // max(length, 1), 1)  # so that no sum overflows
        x = reals = samples.whole(dtype, shape, rng, -maximum, maximum)
    expected = running_sum(reals, axis, descriptor.exclusive, descriptor.reverse)
    return layer_case(descriptor, [Feed(x, dtype=dtype)], expected, tolerance=tolerance)


OPERATOR = Operator(
    kind="dovetail.CumulativeSum",
    dtypes=samples.NUMBERS,
    parameters={
        **SIZES,
        "axis": (0, 1, 2, 3, -1, -2, -4),
        "exclusive": (False, True),
        "reverse": (False, True),
    },
    make=_make,
    quantities=quantities_of("input", "output"),
    together=[
        {"exclusive": True, "reverse": True},
        *({"axis": -1, "exclusive": a, "reverse": b} for a in (False, True) for b in (False, True)),
        *({"axis": -1, "channels": size, "exclusive": True} for size in (0, 1, 17)),
        {"axis": 2, "width": 1, "reverse": True},
        {"rank": 1, "channels": 33},
        {"rank": 1, "channels": 17, "exclusive": True, "reverse": True},
    ],
)
