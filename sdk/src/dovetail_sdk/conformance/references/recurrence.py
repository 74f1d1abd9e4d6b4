"""Recurrent layers, one sequence and one step after the other, with bounds on their errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dovetail import Descriptor, DType
from dovetail.layers import GateCoupling, Gru, Lstm, Rnn

from ..cases import Array
from .measured import Arithmetic, Measured, stacked

Operands: TypeAlias = Mapping[str, Array]
_States: TypeAlias = tuple[Measured, Measured]

GATES = {GateCoupling.NONE: "iofc", GateCoupling.FORGET: "ioc", GateCoupling.INPUT: "ofc"}
"""Blocks of rows of an LSTM, in order: input, output, forget and cell gate."""


def recurred(descriptor: Descriptor, operands: Operands, dtype: DType) -> list[Measured]:
    """Return what a recurrent layer gives.

    Args:
        descriptor: An `Rnn`, a `Gru` or an `Lstm`.
        operands: Those that are there by name, floats in float64.
        dtype: In which kernels store states, bounds allow for that.
    """
    layer: Any = descriptor
    x = np.swapaxes(operands["input"], 0, 1) if layer.batch_first else operands["input"]
    steps, batch = x.shape[:2]
    hidden, units = operands["recurrent_weights"].shape[1], operands["weights"].shape[0] // layer.gates
    lengths = operands.get("lengths", np.full(batch, steps))
    sequence = Measured.exact(np.zeros((steps, batch, hidden)))
    lasts: list[_States] = []
    for b in range(batch):
        first = [operands.get(name) for name in ("initial_hidden", "initial_cell")]
        h, c = (Measured.exact(np.zeros(n) if one is None else one[b]) for one, n in zip(first, (hidden, units), strict=True))
        order = range(int(lengths[b]))
        for t in reversed(order) if layer.reverse else order:
            h, c = _step(layer, operands, Measured.exact(x[t, b]), (h, c), Arithmetic(dtype))
            sequence.value[t, b], sequence.error[t, b] = h.value, h.error
        lasts.append((h, c))
    if layer.batch_first:
        sequence = Measured(np.swapaxes(sequence.value, 0, 1), np.swapaxes(sequence.error, 0, 1))
    results = [sequence, stacked([h for h, _ in lasts], hidden), stacked([c for _, c in lasts], units)]
    return results if isinstance(layer, Lstm) else results[:2]


def _step(layer: Any, operands: Operands, x: Measured, states: _States, of: Arithmetic) -> _States:
    h, c = states
    if isinstance(layer, Lstm):
        h, c = _lstm(layer, operands, x, states, of)
    elif isinstance(layer, Gru):
        h = _gru(layer, operands, x, h, of)
    else:
        h = _rnn(layer, operands, x, h, of)
    return of.stored(h), of.stored(c)


def _column(operands: Operands, name: str, block: slice) -> list[tuple[Array, Measured]]:
    """Return a vector's part as a term of a sum; no term if the vector is not there."""
    vector = operands.get(name)
    return [] if vector is None else [(vector[block, None], Measured.exact(np.ones(1)))]


def _rnn(layer: Rnn, operands: Operands, x: Measured, h: Measured, of: Arithmetic) -> Measured:
    bias = _column(operands, "bias", slice(None))
    inner = of.sums((operands["weights"], x), (operands["recurrent_weights"], h), *bias)
    return of.applied(of.clipped(inner, layer.gate_clip), layer.hidden_activation, layer.hidden_alpha, layer.hidden_beta)


def _gru(layer: Gru, operands: Operands, x: Measured, h: Measured, of: Arithmetic) -> Measured:
    units = h.value.size
    update, reset, candidate = (slice(block * units, (block + 1) * units) for block in range(3))
    weights, recurrent = operands["weights"], operands["recurrent_weights"]

    def gate(block: slice) -> Measured:
        biases = [*_column(operands, "bias", block), *_column(operands, "recurrent_bias", block)]
        inner = of.clipped(of.sums((weights[block], x), (recurrent[block], h), *biases), layer.gate_clip)
        return of.applied(inner, layer.gate_activation, layer.gate_alpha, layer.gate_beta)

    z, r = gate(update), gate(reset)
    seen = [(weights[candidate], x), *_column(operands, "bias", candidate)]
    own = _column(operands, "recurrent_bias", candidate)
    if layer.reset_after:
        inner = of.sums(*seen, (np.eye(units), of.product(r, of.sums((recurrent[candidate], h), *own))))
    else:
        inner = of.sums(*seen, (recurrent[candidate], of.product(r, h)), *own)
    inner = of.clipped(inner, layer.gate_clip)
    made = of.applied(inner, layer.hidden_activation, layer.hidden_alpha, layer.hidden_beta)
    return of.total(of.product(of.rest_to_one(z), made), of.product(z, h))


def _lstm(layer: Lstm, operands: Operands, x: Measured, states: _States, of: Arithmetic) -> _States:
    (h, c), gates = states, GATES[layer.coupling]
    units = c.value.size

    def inner(gate: str, cell: Measured) -> Measured:
        at = gates.index(gate)
        block = slice(at * units, (at + 1) * units)
        terms = [(operands["weights"][block], x), (operands["recurrent_weights"][block], h)]
        if gate != "c" and "peepholes" in operands:
            terms.append((np.diag(operands["peepholes"][block]), cell))
        bias = _column(operands, "bias", block)
        if "normalization" not in operands:
            return of.clipped(of.sums(*terms, *bias), layer.gate_clip)
        normal = of.normalized(of.sums(*terms), operands["normalization"][block], layer.epsilon)
        return of.clipped(of.sums((np.eye(units), normal), *bias), layer.gate_clip)

    def gate(name: str, cell: Measured) -> Measured:
        return of.applied(inner(name, cell), layer.gate_activation, layer.gate_alpha, layer.gate_beta)

    forget = gate("f", c) if "f" in gates else of.rest_to_one(gate("i", c))
    given = gate("i", c) if "i" in gates else of.rest_to_one(forget)
    fresh = of.applied(inner("c", c), layer.cell_activation, layer.cell_alpha, layer.cell_beta)
    cell = of.clipped(of.total(of.product(forget, c), of.product(given, fresh)), layer.cell_clip)
    shown = of.applied(cell, layer.hidden_activation, layer.hidden_alpha, layer.hidden_beta)
    made = of.product(gate("o", cell), shown)
    if "projection_weights" in operands:
        bias = _column(operands, "projection_bias", slice(None))
        made = of.clipped(of.sums((operands["projection_weights"], made), *bias), layer.projection_clip)
    return made, cell


def named(names: Sequence[str], values: Sequence[Array | None]) -> dict[str, Array]:
    """Return operands that are there by their names."""
    return {name: value for name, value in zip(names, values, strict=True) if value is not None}
