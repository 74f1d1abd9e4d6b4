"""ScatterElements: single elements placed along an axis, by index."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import ScatterElements, ScatterReduction

from ..cases import Array, Case, Parameters
from ..references.moving import any_type_operator
from ..references.positions import INDEX_QUANTITIES, INDEXED, indices
from ..references.scattering import may_meet, meaningful, scatter_case
from ..references.shapes import quantities_of, shape_of


def _indices(parameters: Parameters, shape: tuple[int, ...], axis: int, rng: np.random.Generator) -> Array | None:
    count, size = parameters["count"], shape[axis]
    own = tuple(count if at == axis else max(one - parameters["shorter"], 0) for at, one in enumerate(shape))
    if parameters["repeated"]:
        if not may_meet(parameters, count):
            return None
        return indices(parameters["index_dtype"], own, size, parameters["negative"], rng)
    if count > size:
        return None
    lines = rng.permuted(np.broadcast_to(np.arange(size), (*own[:axis], *own[axis + 1 :], size)), axis=-1)[..., :count]
    if parameters["negative"]:
        lines = np.where(rng.random(lines.shape) < 0.5, lines - size, lines)
    return np.ascontiguousarray(np.moveaxis(lines, -1, axis)).astype(DType.of(parameters["index_dtype"]).numpy)


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, axis = shape_of(parameters), parameters["axis"]
    if shape is None or not -len(shape) <= axis < len(shape) or not meaningful(parameters, dtype):
        return None
    place = axis % len(shape)
    index = _indices(parameters, shape, place, rng)
    if index is None:
        return None
    met = {at: (*at[:place], int(index[at]), *at[place + 1 :]) for at in np.ndindex(index.shape)}
    descriptor = ScatterElements(axis=axis, reduction=ScatterReduction(parameters["reduction"]))
    return scatter_case(descriptor, shape, index, met, index.shape, parameters, dtype, rng)


OPERATOR = any_type_operator(
    "ScatterElements",
    _make,
    {
        "axis": (1, 0, 2, 3, -1, -3),
        "reduction": tuple(ScatterReduction),
        "count": (2, 1, 0, 3),
        "shorter": (False, True),
        "repeated": (False, True),
        **INDEXED,
    },
    quantities={**quantities_of("input"), **INDEX_QUANTITIES},
    together=[
        *({"reduction": reduction, "repeated": True} for reduction in tuple(ScatterReduction)[1:]),
        *({"reduction": reduction, "repeated": True, "axis": 3, "count": 3} for reduction in tuple(ScatterReduction)[1:]),
        {"reduction": ScatterReduction.ADD, "repeated": True, "rank": 1, "axis": 0, "count": 8},
        {"rank": 1, "axis": 0},
        {"rank": 2, "axis": -1, "count": 4},
        {"rank": 6, "axis": 3, "shorter": True},
        {"rank": 8, "axis": -1},
        {"rank": 9, "axis": -1},
        {"axis": 3, "count": 5, "negative": True, "index_dtype": "int32"},
        {"channels": 0, "axis": 3, "count": 0},
        {"reduction": ScatterReduction.MAX, "quantization": "kept"},
    ],
)
