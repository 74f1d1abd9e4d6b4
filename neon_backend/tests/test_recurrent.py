"""Recurrent layers of float32 against their definitions in float64, as CpuRef's tests have them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dovetail.layers import GateCoupling, Gru, Lstm, RecurrentFunction, Rnn

STATES = ("input", "initial_hidden", "initial_cell")
SIZES = [
    *((4, 2, 3, 5), (1, 1, 1, 1), (3, 5, 17, 4), (2, 1, 33, 17), (70, 2, 3, 2), (0, 2, 3, 4), (3, 0, 3, 4), (3, 2, 0, 4)),
    *((5, 7, 130, 70), (2, 130, 9, 16)),
]
"""Steps, batch, elements of a step, units: with inputs ahead, empty ones, several panels."""


@pytest.fixture(scope="session")
def of_cpuref(of_cpuref):
    """The module of CpuRef's tests of the same layers."""
    return of_cpuref("test_recurrent")


def run(run_layer, draws, descriptor, **how):
    """Return the outputs of a layer whose operands, but for input and states, are constant."""
    given = [name for name in STATES if name in draws.arrays]

    def build(net, *slots):
        by_name = dict(zip(given, slots, strict=True))
        by_name |= {name: net.constant(value) for name, value in draws.arrays.items() if name not in STATES}
        return net.add(descriptor, *(by_name.get(name) for name in descriptor.input_names))

    return run_layer(build, *(draws.arrays[name] for name in given), **how)


def assert_close(found, wanted):
    """Sums of float32 and functions within a few units, step for step."""
    assert [one.dtype for one in found] == [np.float32] * len(found)
    for one, expected in zip(found, wanted, strict=False):
        np.testing.assert_allclose(one, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_rnn(run_layer, of_cpuref, sizes):
    draws = of_cpuref.drawn(np.float32, sizes, 1)

    def step(x, h, c):
        return np.tanh(draws["weights"] @ x + draws["recurrent_weights"] @ h / sizes[3] + draws["bias"]), c

    wanted = of_cpuref.over(draws, step, sizes[3])
    draws.arrays["recurrent_weights"] = draws.arrays["recurrent_weights"] / np.float32(sizes[3])
    assert_close(run(run_layer, draws, Rnn()), wanted)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("after", [False, True])
def test_gru(run_layer, of_cpuref, after, sizes):
    units = sizes[3]
    draws = of_cpuref.drawn(np.float32, sizes, 3).add(recurrent_bias=(3 * units,))
    draws.arrays["recurrent_weights"] = draws.arrays["recurrent_weights"] / np.float32(units)

    def step(x, h, c):
        seen, own = draws["weights"] @ x + draws["bias"], draws["recurrent_weights"] @ h + draws["recurrent_bias"]
        z = of_cpuref.sigmoid(seen[:units] + own[:units])
        r = of_cpuref.sigmoid(seen[units : 2 * units] + own[units : 2 * units])
        if not after:
            own = draws["recurrent_weights"] @ (r * h) + draws["recurrent_bias"]
        made = np.tanh(seen[2 * units :] + (r * own[2 * units :] if after else own[2 * units :]))
        return (1 - z) * made + z * h, c

    assert_close(run(run_layer, draws, Gru(reset_after=after)), of_cpuref.over(draws, step, units))


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("coupling", list(GateCoupling), ids=lambda one: one.value)
@pytest.mark.parametrize("sees", [False, True])
def test_lstm(run_layer, of_cpuref, sees, coupling, sizes):
    units, descriptor = sizes[3], Lstm(coupling=coupling)
    draws = of_cpuref.drawn(np.float32, sizes, descriptor.gates).add(initial_cell=(sizes[1], units))
    draws.arrays["recurrent_weights"] = draws.arrays["recurrent_weights"] / np.float32(units)
    if sees:
        draws.add(peepholes=((descriptor.gates - 1) * units,))
    wanted = of_cpuref.over(draws, of_cpuref.lstm_step(draws, descriptor, units), units)
    assert_close(run(run_layer, draws, descriptor), wanted)


OPTIONS = ("normalization", "projection", "projection_bias", "gate_clip", "cell_clip", "projection_clip", "peepholes")


@pytest.mark.parametrize("chosen", list(itertools.product([False, True], repeat=len(OPTIONS))), ids=str)
def test_lstm_of_every_kind(run_layer, of_cpuref, chosen):
    has = dict(zip(OPTIONS, chosen, strict=True))
    has["projection_bias"] &= has["projection"]
    sizes, units, hidden = (4, 3, 5, 21), 21, 18 if has["projection"] else 21
    limits = {"gate_clip": 0.4, "cell_clip": 0.3, "projection_clip": 0.2}
    descriptor = Lstm(**{name: limit for name, limit in limits.items() if has[name]}, epsilon=1e-3)
    draws = of_cpuref.drawn(np.float32, sizes, 4, hidden).add(initial_cell=(3, units))
    draws.arrays["recurrent_weights"] = draws.arrays["recurrent_weights"] / np.float32(hidden)
    if has["normalization"]:
        draws.add(normalization=(4 * units,))
    if has["projection"]:
        draws.add(projection_weights=(hidden, units))
    if has["projection_bias"]:
        draws.add(projection_bias=(hidden,))
    if has["peepholes"]:
        draws.add(peepholes=(3 * units,))
    wanted = of_cpuref.over(draws, of_cpuref.lstm_step(draws, descriptor, units), units)
    assert_close(run(run_layer, draws, descriptor), wanted)


@pytest.mark.parametrize("units", [1, 21])
def test_a_projection_to_nothing(run_layer, of_cpuref, units):
    """Cells go on alone: each step has a hidden state of no values."""
    draws = of_cpuref.drawn(np.float32, (4, 3, 5, units), 4, 0).add(initial_cell=(3, units), projection_weights=(0, units))
    wanted = of_cpuref.over(draws, of_cpuref.lstm_step(draws, Lstm(), units), units)
    assert_close(run(run_layer, draws, Lstm()), wanted)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_directions(run_layer, of_cpuref, reverse, batch_first):
    draws = of_cpuref.drawn(np.float32, (67, 4, 3, 6), 4)
    draws.arrays["recurrent_weights"] = draws.arrays["recurrent_weights"] / np.float32(6)
    wanted = of_cpuref.over(draws, of_cpuref.lstm_step(draws, Lstm(), 6), 6, reverse=reverse)
    if batch_first:
        draws.arrays["input"] = np.ascontiguousarray(np.swapaxes(draws.arrays["input"], 0, 1))
        wanted = (np.swapaxes(wanted[0], 0, 1), *wanted[1:])
    assert_close(run(run_layer, draws, Lstm(reverse=reverse, batch_first=batch_first)), wanted)


FUNCTIONS = {
    RecurrentFunction.LINEAR: lambda x: 0.7 * x + 0.2,
    RecurrentFunction.RELU: lambda x: np.maximum(x, 0),
    RecurrentFunction.BOUNDED_RELU: lambda x: np.minimum(0.7, np.maximum(0.2, x)),
    RecurrentFunction.LEAKY_RELU: lambda x: np.where(x >= 0, x, 0.7 * x),
    RecurrentFunction.THRESHOLDED_RELU: lambda x: np.where(x > 0.7, x, 0),
    RecurrentFunction.ELU: lambda x: np.where(x >= 0, x, 0.7 * np.expm1(x)),
    RecurrentFunction.HARD_SIGMOID: lambda x: np.clip(0.7 * x + 0.2, 0, 1),
    RecurrentFunction.SOFTPLUS: lambda x: np.log1p(np.exp(x)),
    RecurrentFunction.SOFTSIGN: lambda x: x / (1 + np.abs(x)),
}


@pytest.mark.parametrize("function", list(FUNCTIONS), ids=lambda one: one.value)
def test_functions(run_layer, of_cpuref, function):
    draws = of_cpuref.drawn(np.float32, (1, 3, 4, 37), 1)

    def step(x, h, c):
        return FUNCTIONS[function](draws["weights"] @ x + draws["recurrent_weights"] @ h + draws["bias"]), c

    descriptor = Rnn(hidden_activation=function, hidden_alpha=0.7, hidden_beta=0.2)
    assert_close(run(run_layer, draws, descriptor), of_cpuref.over(draws, step, 37))


def test_states_that_are_left_out_are_zeros(run_layer, of_cpuref):
    draws = of_cpuref.drawn(np.float32, (3, 2, 4, 5), 4)
    draws.arrays["initial_hidden"][:] = 0
    wanted = of_cpuref.over(draws, of_cpuref.lstm_step(draws, Lstm(), 5), 5)
    del draws.arrays["initial_hidden"]
    assert_close(run(run_layer, draws, Lstm()), wanted)


def test_a_run_stops_between_steps(run_layer, of_cpuref):
    draws = of_cpuref.drawn(np.float32, (3, 1, 4, 4), 4)
    with pytest.raises(run_layer.Cancelled):
        run(run_layer, draws, Lstm(), cancel=2)


@pytest.mark.parametrize(("descriptor", "gates"), [(Lstm(), 4), (Gru(), 3), (Gru(reset_after=True), 3), (Rnn(), 1)], ids=str)
def test_threads_share_out_a_wide_layer(run_layer, of_cpuref, descriptor, gates):
    draws = of_cpuref.drawn(np.float32, (3, 30, 300, 700), gates)
    alone = run(run_layer, draws, descriptor)
    for one, other in zip(run(run_layer, draws, descriptor, workers=4), alone, strict=True):
        np.testing.assert_array_equal(one, other)


def test_lstm_of_litert(run_layer, of_cpuref):
    """What float LSTMs of LiteRT gave, under the same tolerance as CpuRef's."""
    for parameters in of_cpuref.litert_cases():
        case, x, operands, wanted = parameters.values
        descriptor, draws = of_cpuref.described(case, x, operands)
        found = run(run_layer, draws, descriptor)[0]
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6, strict=True, err_msg=f"case {parameters.id}")
