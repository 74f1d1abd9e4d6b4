"""Lstm: with coupled gates, peepholes, normalized gates, projections and limits."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import GateCoupling, Lstm, RecurrentFunction

from ..cases import Case, Operator, Parameters
from ..references import samples
from ..references.recurrent_cases import GATED, LEFT_OUT, QUANTITIES, SEQUENCES, TOGETHER, functions, recurrent_case

_ATTRIBUTES = ("reverse", "batch_first", "gate_clip", "coupling", "cell_clip", "projection_clip", "epsilon")


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    plain = {name: parameters[name] for name in _ATTRIBUTES}
    descriptor = Lstm(**plain, **functions(parameters, "gate", "cell", "hidden"))
    units, projected = parameters["units"], parameters["projection_weights.dtype"] is not None
    if parameters["projection_bias.dtype"] is not None and not projected:
        return None
    hidden = parameters["projection"] if projected else units
    shapes = {
        "initial_cell": (parameters["batch"], units),
        "peepholes": ((descriptor.gates - 1) * units,),
        "normalization": (descriptor.gates * units,),
        "projection_weights": (hidden, units),
        "projection_bias": (hidden,),
    }
    return recurrent_case(descriptor, shapes, {**parameters, "projection": hidden}, dtype, rng)


_PROJECTED = {"projection_weights.dtype": "own"}

OPERATOR = Operator(
    kind="dovetail.Lstm",
    dtypes=samples.FLOATS,
    parameters={
        **SEQUENCES,
        **GATED,
        "cell_activation": SEQUENCES["hidden_activation"],
        "initial_cell.dtype": LEFT_OUT,
        "peepholes.dtype": LEFT_OUT,
        "normalization.dtype": LEFT_OUT,
        "projection_weights.dtype": LEFT_OUT,
        "projection_bias.dtype": LEFT_OUT,
        "projection": (3, 1, 0, 8, 17),
        "coupling": tuple(GateCoupling),
        "cell_clip": (None, 0.25, 0.0),
        "projection_clip": (None, 0.125),
        "epsilon": (1e-3, 1e-8, 0.5),
    },
    make=_make,
    quantities=QUANTITIES,
    together=[
        *TOGETHER,
        {"initial_hidden.dtype": "own", "initial_cell.dtype": "own"},
        {"initial_hidden.dtype": "own", "initial_cell.dtype": "own", "lengths.dtype": "int64", "reverse": True, "batch": 3},
        *({"coupling": one, "peepholes.dtype": "own"} for one in GateCoupling),
        *({"coupling": one, "normalization.dtype": "own", "bias.dtype": None} for one in GateCoupling),
        {"peepholes.dtype": "own", "normalization.dtype": "own", "units": 16, "initial_cell.dtype": "own"},
        *({**_PROJECTED, "projection": one} for one in (1, 8, 17, 0)),
        {**_PROJECTED, "projection_bias.dtype": "own", "projection_clip": 0.125, "initial_hidden.dtype": "own"},
        {**_PROJECTED, "lengths.dtype": "int32", "batch": 3, "coupling": GateCoupling.INPUT, "peepholes.dtype": "own"},
        {"coupling": GateCoupling.FORGET, "gate_activation": RecurrentFunction.HARD_SIGMOID},
        {"peepholes.dtype": "own", "cell_clip": 0.25, "gate_clip": 0.25},
    ],
)
