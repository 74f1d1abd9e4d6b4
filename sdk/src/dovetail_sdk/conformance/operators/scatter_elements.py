"""ScatterElements: single elements placed along an axis, by index."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import ScatterElements, ScatterReduction

from ..cases import Array, Case, Feed, Operator, Parameters
from ..references import samples
from ..references.positions import INDEX_DTYPES, indices
from ..references.scattering import operands, scattered
from ..references.shapes import SIZES, quantities_of, shape_of
from ..references.single_layer import carries, layer_case, marked

_MAX_TIMES = {ScatterReduction.NONE: 0, ScatterReduction.MUL: 3}
"""How often an element may be met: which of several plain updates wins is not said, and products must not overflow."""


def _indices(parameters: Parameters, shape: tuple[int, ...], axis: int, rng: np.random.Generator) -> Array | None:
    count, size = parameters["count"], shape[axis]
    own = tuple(count if at == axis else max(one - parameters["shorter"], 0) for at, one in enumerate(shape))
    if parameters["repeated"]:
        if count > _MAX_TIMES.get(ScatterReduction(parameters["reduction"]), 8):
            return None
        return indices(parameters["index_dtype"], own, size, parameters["negative"], rng)
    if count > size:
        return None
    lines = rng.permuted(np.broadcast_to(np.arange(size), (*own[:axis], *own[axis + 1 :], size)), axis=-1)[..., :count]
    if parameters["negative"]:
        lines = np.where(rng.random(lines.shape) < 0.5, lines - size, lines)
    return np.ascontiguousarray(np.moveaxis(lines, -1, axis)).astype(DType.of(parameters["index_dtype"]).numpy)


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    shape, axis, how = shape_of(parameters), parameters["axis"], parameters["quantization"]
    reduction = ScatterReduction(parameters["reduction"])
    if shape is None or not -len(shape) <= axis < len(shape) or not carries(how, dtype):
        return None
    if how is not None and reduction in (ScatterReduction.ADD, ScatterReduction.MUL):
        return None  # sums and products of integers with a zero point mean nothing
    place = axis % len(shape)
    index = _indices(parameters, shape, place, rng)
    values = None if index is None else operands(dtype, shape, index.shape, reduction, rng)
    if index is None or values is None:
        return None
    x, updates = values
    met = [((*at[:place], int(index[at]), *at[place + 1 :]), updates[at]) for at in np.ndindex(index.shape)]
    feeds = [
        Feed(x, dtype=dtype, quantization=marked(how)),
        Feed(index, parameters["constant_indices"]),
        Feed(updates, dtype=dtype, quantization=marked(how)),
    ]
    return layer_case(ScatterElements(axis=axis, reduction=reduction), feeds, scattered(x, met, reduction, dtype))


OPERATOR = Operator(
    kind="dovetail.ScatterElements",
    dtypes=samples.ALL,
    parameters={
        **SIZES,
        "axis": (1, 0, 2, 3, -1, -3),
        "reduction": tuple(ScatterReduction),
        "count": (2, 1, 0, 3),
        "shorter": (False, True),
        "repeated": (False, True),
        "index_dtype": INDEX_DTYPES,
        "negative": (False, True),
        "constant_indices": (False, True),
        "quantization": (None, "kept"),
    },
    make=_make,
    quantities={**quantities_of("input"), "indices.dtype": "index_dtype", "indices.constant": "constant_indices"},
    together=[
        *({"reduction": reduction, "repeated": True} for reduction in tuple(ScatterReduction)[1:]),
        *({"reduction": reduction, "repeated": True, "axis": 3, "count": 3} for reduction in tuple(ScatterReduction)[1:]),
        {"reduction": ScatterReduction.ADD, "repeated": True, "rank": 1, "axis": 0, "count": 8},
        {"rank": 1, "axis": 0},
        {"rank": 2, "axis": -1, "count": 4},
        {"rank": 6, "axis": 3, "shorter": True},
        {"axis": 3, "count": 5, "negative": True, "index_dtype": "int32"},
        {"channels": 0, "axis": 3, "count": 0},
        {"reduction": ScatterReduction.MAX, "quantization": "kept"},
    ],
)
