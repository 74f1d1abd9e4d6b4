"""Recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from dovetail.graph.element_types import DType
from dovetail.layers import GateCoupling, Gru, Lstm, Rnn

from ...operators.recurrent import FUNCTIONS
from ..rules import Saying, says
from ..unexportable import Unexportable

_OPERATORS = {entry.function: (operator, entry) for operator, entry in FUNCTIONS.items()}


@says(Rnn)
def rnn(say: Saying) -> list[str]:
    """Say Elman's recurrent layer."""
    return _said(say, "RNN", ("hidden",), _biases(say, "bias"))


@says(Gru)
def gru(say: Saying) -> list[str]:
    """Say gated recurrent units."""
    biases = _biases(say, "bias", "recurrent_bias")
    return _said(say, "GRU", ("gate", "hidden"), biases, linear_before_reset=int(say.descriptor.reset_after))


@says(Lstm)
def lstm(say: Saying) -> list[str]:
    """Say long short-term memory."""
    if say.descriptor.coupling is not GateCoupling.NONE:
        raise Unexportable("ONNX does not say which gate input_forget makes of which")
    for name in ("normalization", "projection_weights"):
        if say.has(_place(say, name)):
            raise Unexportable(f"ONNX's LSTM has no {name}")
    if say.descriptor.cell_clip is not None:
        raise Unexportable("ONNX's LSTM does not limit its cells")
    return _said(say, "LSTM", ("gate", "cell", "hidden"), _biases(say, "bias"))


def _place(say: Saying, name: str) -> int:
    names: tuple[str, ...] = say.descriptor.input_names
    return names.index(name)


def _said(say: Saying, operator: str, functions: tuple[str, ...], biases: str, **attributes: Any) -> list[str]:
    descriptor, zero = say.descriptor, say.integers([0])

    def alone(name: str) -> str:
        place = _place(say, name)
        return say.op("Unsqueeze", say.input(place), zero) if say.has(place) else ""

    states = [alone(f"initial_{name}") for name in ("hidden", "cell") if f"initial_{name}" in descriptor.input_names]
    peepholes = [alone("peepholes")] if "peepholes" in descriptor.input_names else []
    made = say.ops(
        operator,
        say.permuted_input(0, (1, 0, 2)) if descriptor.batch_first else say.input(),
        *(alone("weights"), alone("recurrent_weights"), biases, _lengths(say), *states, *peepholes),
        outputs=len(say.layer.outputs),
        hidden_size=say.info(2).sizes[1],
        direction="reverse" if descriptor.reverse else "forward",
        clip=descriptor.gate_clip,
        **_named_functions(say, functions),
        **attributes,
    )
    sequence = say.op("Squeeze", made[0], say.integers([1]))
    sequence = say.permuted(sequence, (1, 0, 2)) if descriptor.batch_first else sequence
    return [sequence, *(say.op("Squeeze", state, zero) for state in made[1:])]


def _biases(say: Saying, *names: str) -> str:
    """Return the name of both halves of the biases; zeros stand for what is not there."""
    places = [_place(say, name) for name in names]
    if not any(map(say.has, places)):
        return ""
    zeros = say.constant(np.zeros(say.info(1).sizes[0]), say.dtype)
    halves = [say.input(place) if say.has(place) else zeros for place in places]
    both = say.op("Concat", *halves, *[zeros] * (2 - len(halves)), axis=0)
    return say.op("Unsqueeze", both, say.integers([0]))


def _lengths(say: Saying) -> str:
    """Return the name of the lengths in ONNX's type.

    Raises:
        Unexportable: Some sequence may have no steps and begin with a state.
    """
    place, names = _place(say, "lengths"), say.descriptor.input_names
    if not say.has(place):
        return ""
    known = say.value_of(place)
    begins = any(say.has(names.index(name)) for name in ("initial_hidden", "initial_cell") if name in names)
    if begins and not (known is not None and bool(np.all(known > 0))):
        raise Unexportable("ONNX does not say what the last state of no steps is")
    return say.cast(say.input(place), DType.INT32)


def _named_functions(say: Saying, functions: tuple[str, ...]) -> dict[str, Any]:
    """Return the attributes that name functions and their parameters."""
    operators, alphas, betas = [], [], []
    for name in functions:
        function, alpha, beta = (getattr(say.descriptor, f"{name}_{what}") for what in ("activation", "alpha", "beta"))
        if function not in _OPERATORS:
            raise Unexportable(f"ONNX's recurrent layers have no {function}")
        operator, entry = _OPERATORS[function]
        operators.append(operator)
        alphas += [] if entry.alpha is None else [float(alpha)]
        betas += [] if entry.beta is None else [float(beta)]
    for value in (*alphas, *betas):
        if say.dtype is DType.FLOAT64 and float(np.float32(value)) != value:
            raise Unexportable(f"a function has the parameter {value!r}, of which ONNX keeps 32 bits: too few for float64")
    return {"activations": operators, "activation_alpha": alphas or None, "activation_beta": betas or None}
