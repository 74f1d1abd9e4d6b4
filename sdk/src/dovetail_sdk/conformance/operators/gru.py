"""Gru: update and reset gate, and a candidate that the reset gate acts on before or after."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import Gru

from ..cases import Case, Operator, Parameters
from ..references import samples
from ..references.recurrent_cases import GATED, GIVEN, QUANTITIES, SEQUENCES, TOGETHER, functions, recurrent_case


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    plain = {name: parameters[name] for name in ("reverse", "batch_first", "gate_clip", "reset_after")}
    descriptor = Gru(**plain, **functions(parameters, "gate", "hidden"))
    return recurrent_case(descriptor, {"recurrent_bias": (3 * parameters["units"],)}, parameters, dtype, rng)


OPERATOR = Operator(
    kind="dovetail.Gru",
    dtypes=samples.FLOATS,
    parameters={**SEQUENCES, **GATED, "recurrent_bias.dtype": GIVEN, "reset_after": (False, True)},
    make=_make,
    quantities=QUANTITIES,
    together=[
        *TOGETHER,
        *({**one, "reset_after": True} for one in TOGETHER),
        {"reset_after": True, "gate_clip": 0.25},
        {"reset_after": True, "recurrent_bias.dtype": None},
        {"bias.dtype": None, "recurrent_bias.dtype": None},
    ],
)
