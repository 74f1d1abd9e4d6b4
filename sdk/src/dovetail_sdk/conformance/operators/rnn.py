"""Rnn: one product of the input and one of the hidden state, and a function."""

from __future__ import annotations

import numpy as np

from dovetail import DType
from dovetail.layers import Rnn

from ..cases import Case, Operator, Parameters
from ..references import samples
from ..references.recurrent_cases import QUANTITIES, SEQUENCES, TOGETHER, functions, recurrent_case


def _make(parameters: Parameters, dtype: DType, rng: np.random.Generator) -> Case | None:
    plain = {name: parameters[name] for name in ("reverse", "batch_first", "gate_clip")}
    return recurrent_case(Rnn(**plain, **functions(parameters, "hidden")), {}, parameters, dtype, rng)


OPERATOR = Operator(
    kind="dovetail.Rnn",
    dtypes=samples.FLOATS,
    parameters=SEQUENCES,
    make=_make,
    quantities=QUANTITIES,
    together=TOGETHER,
)
