"""References of recurrent layers, against numbers worked out by hand, and their bounds."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail import DType
from dovetail.layers import GateCoupling, Gru, Lstm, RecurrentFunction, Rnn
from dovetail_sdk.conformance.references.measured import FUNCTIONS, HOPELESS, Arithmetic, Measured, slope
from dovetail_sdk.conformance.references.recurrence import recurred

PLAIN = {"hidden_activation": RecurrentFunction.LINEAR, "hidden_alpha": 1.0}
GATES = {"gate_activation": RecurrentFunction.LINEAR, "gate_alpha": 1.0}
CELL = {"cell_activation": RecurrentFunction.LINEAR, "cell_alpha": 1.0}
"""Functions that change nothing, so that what comes out can be worked out by hand."""


def column(*values):
    return np.array(values, np.float64).reshape(-1, 1)


def values(descriptor, **operands):
    x = np.array(operands.pop("x"), np.float64).reshape(-1, 1, 1)
    given = {name: np.array(value, np.float64) for name, value in operands.items()}
    return [result.value.reshape(-1).tolist() for result in recurred(descriptor, {"input": x, **given}, DType.FLOAT64)]


def test_rnn():
    weights = {"weights": column(2), "recurrent_weights": column(3), "bias": [1]}
    # 2 * 1 + 3 * 0 + 1 = 3; 2 * 5 + 3 * 3 + 1 = 20.
    assert values(Rnn(**PLAIN), x=[1, 5], **weights) == [[3, 20], [20]]
    # From behind: 2 * 5 + 1 = 11; 2 * 1 + 3 * 11 + 1 = 36.
    assert values(Rnn(**PLAIN, reverse=True), x=[1, 5], **weights) == [[36, 11], [36]]
    assert values(Rnn(**PLAIN, gate_clip=4.0), x=[1, 5], **weights) == [[3, 4], [4]]
    assert values(Rnn(**PLAIN), x=[1], initial_hidden=[[2]], **weights) == [[9], [9]]


def test_lengths():
    weights = {"weights": column(2), "recurrent_weights": column(3)}
    lengths = np.array([2])
    assert values(Rnn(**PLAIN), x=[1, 5, 7], lengths=lengths, **weights) == [[2, 16, 0], [16]]
    assert values(Rnn(**PLAIN, reverse=True), x=[1, 5, 7], lengths=lengths, **weights) == [[32, 10, 0], [32]]
    assert values(Rnn(**PLAIN), x=[1, 5, 7], lengths=lengths * 0, initial_hidden=[[4]], **weights) == [[0, 0, 0], [4]]


def test_gru():
    weights = {"weights": column(2, 3, 5), "recurrent_weights": column(1, 2, 3), "initial_hidden": [[2]]}
    # z = 2 + 2, r = 3 + 4; before: c = 5 + 3 * (7 * 2) = 47; (1 - 4) * 47 + 4 * 2.
    assert values(Gru(**PLAIN, **GATES), x=[1], **weights) == [[-133], [-133]]
    # z = 4 + 1, r = 7 + 1; after: c = 5 + 1 + 8 * (3 * 2 + 2) = 70; (1 - 5) * 70 + 5 * 2.
    biases = {"bias": [1, 0, 1], "recurrent_bias": [0, 1, 2]}
    assert values(Gru(**PLAIN, **GATES, reset_after=True), x=[1], **weights, **biases) == [[-270], [-270]]


def test_lstm():
    functions = {**PLAIN, **GATES, **CELL}
    states = {"initial_hidden": [[2]], "initial_cell": [[3]]}
    four = {"weights": column(1, 2, 3, 4), "recurrent_weights": column(1, 0, 0, 1), **states}
    # i = 3, o = 2, f = 3, g = 6: c = 3 * 3 + 3 * 6 = 27.
    assert values(Lstm(**functions), x=[1], **four) == [[54], [54], [27]]
    assert values(Lstm(**functions, cell_clip=10.0), x=[1], **four) == [[20], [20], [10]]
    # i = 3 + 3, o = 2 + 2 * c, f = 3 + 3 * 3: c = 12 * 3 + 6 * 6 = 72.
    assert values(Lstm(**functions), x=[1], **four, peepholes=[1, 2, 3]) == [[146 * 72], [146 * 72], [72]]
    projected = {**four, "projection_weights": column(0.5), "projection_bias": [1]}
    assert values(Lstm(**functions), x=[1], **projected) == [[28], [28], [27]]
    assert values(Lstm(**functions, projection_clip=5.0), x=[1], **projected) == [[5], [5], [27]]


@pytest.mark.parametrize(
    ("coupling", "wanted"),
    # i = 1 + 2, o = 2: f = 1 - 3; or o = 1 + 2, f = 2: i = 1 - 2. In both g = 4.
    [(GateCoupling.FORGET, [[12], [12], [6]]), (GateCoupling.INPUT, [[6], [6], [2]])],
)
def test_coupled_gates(coupling, wanted):
    three = {"weights": column(1, 2, 4), "recurrent_weights": column(1, 0, 0)}
    states = {"initial_hidden": [[2]], "initial_cell": [[3]]}
    assert values(Lstm(**PLAIN, **GATES, **CELL, coupling=coupling), x=[1], **three, **states) == wanted


def test_normalized_gates():
    of = Arithmetic(DType.FLOAT64)
    # Mean 3, variance 8; with epsilon 1 the deviation is 3.
    found = of.normalized(Measured.exact(np.array([-1.0, 1.0, 5.0, 7.0, 3.0, 3.0])), np.arange(6.0), 1.0)
    spread = np.sqrt(40 / 6 + 1)
    assert found.value == pytest.approx(np.array([0, -2, 4, 12, 0, 0]) / spread)
    assert of.normalized(Measured(np.ones(3), np.full(3, 0.5)), np.ones(3), 1e-8).error.max() == HOPELESS


@pytest.mark.parametrize("function", list(RecurrentFunction), ids=str)
def test_slopes_bound_what_functions_do_to_errors(function):
    x = np.linspace(-3, 3, 1201)
    for alpha, beta in ((0.75, 0.5), (1.5, -0.25), (0.25, 0.125)):
        y = FUNCTIONS[function](x, alpha, beta)
        steepest = np.abs(np.diff(y) / np.diff(x))
        if function is RecurrentFunction.THRESHOLDED_RELU:
            steepest = steepest[np.abs(x[:-1] - alpha) > 0.01]
        assert steepest.max() <= slope(function, alpha, beta) + 1e-9


def lstm_in_float32(x, weights, recurrent, bias):
    """Return the hidden states as a plain kernel makes them."""
    h, c = np.zeros((2, x.shape[1], 5), np.float32)
    result = []
    for row in x:
        i, o, f, g = np.split(row @ weights.T + h @ recurrent.T + bias, 4, axis=1)
        i, o, f = (1 / (1 + np.exp(-gate)) for gate in (i, o, f))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        result.append(h)
    assert h.dtype == np.float32
    return np.stack(result)


def test_bounds_hold_for_float32_and_see_a_missing_bias():
    random = np.random.default_rng(5)
    single = [random.uniform(-0.4, 0.4, shape).astype(np.float32) for shape in ((6, 3, 9), (20, 9), (20, 5))]
    single.append(np.full(20, 0.25, np.float32))
    names = ("input", "weights", "recurrent_weights", "bias")
    wide = {name: value.astype(np.float64) for name, value in zip(names, single, strict=True)}
    exact = recurred(Lstm(), wide, DType.FLOAT32)[0]
    assert 0 < exact.error.max() < 1e-4
    assert (np.abs(lstm_in_float32(*single) - exact.value) <= exact.error).all()
    wrong = lstm_in_float32(*single[:3], np.zeros(20, np.float32))
    assert np.abs(wrong - exact.value).max() > 100 * exact.error.max()
