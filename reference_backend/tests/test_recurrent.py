"""Recurrent layers against NumPy, one sequence, one step at a time; LSTMs against LiteRT, too."""

import itertools
import json
import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from dovetail.layers import GateCoupling, Gru, Lstm, Rnn

FLOATS = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]
SIZES = [(4, 2, 3, 5), (1, 1, 1, 1), (3, 5, 17, 4), (2, 1, 33, 17), (70, 2, 3, 2), (0, 2, 3, 4), (3, 0, 3, 4), (3, 2, 0, 4)]
"""Steps, batch, elements of a step, units: those of a layer with inputs ahead, and empty ones."""


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Draws:
    """Random operands of one type, by name, and their float64 values."""

    def __init__(self, dtype, seed=0):
        self.random = np.random.default_rng(seed)
        self.dtype = dtype
        self.arrays = {}

    def add(self, **shapes):
        for name, shape in shapes.items():
            self.arrays[name] = self.random.uniform(-0.7, 0.7, shape).astype(self.dtype)
        return self

    def __getitem__(self, name):
        return self.arrays[name].astype(np.float64)

    def run(self, run_layer, descriptor):
        given = [name for name in descriptor.input_names if name in self.arrays]
        assert len(given) == len(self.arrays)

        def build(net, *slots):
            by_name = dict(zip(given, slots, strict=True))
            return net.add(descriptor, *(by_name.get(name) for name in descriptor.input_names))

        return run_layer(build, *(self.arrays[name] for name in given))


def drawn(dtype, sizes, gates, hidden=None):
    steps, batch, inputs, units = sizes
    rows, hidden = gates * units, units if hidden is None else hidden
    return Draws(dtype).add(
        input=(steps, batch, inputs), weights=(rows, inputs), recurrent_weights=(rows, hidden), bias=(rows,),
        initial_hidden=(batch, hidden),
    )  # fmt: skip


def over(draws, step, units, lengths=None, reverse=False):
    """Go through each sequence by `step(x, h, c)`; return the sequence and the last states."""
    x, first = draws["input"], draws["initial_hidden"]
    result, last, cells = np.zeros((*x.shape[:2], first.shape[1])), first.copy(), np.zeros((x.shape[1], units))
    if "initial_cell" in draws.arrays:
        cells = draws["initial_cell"].copy()
    for b in range(x.shape[1]):
        order = list(range(len(x) if lengths is None else lengths[b]))
        for t in order[::-1] if reverse else order:
            last[b], cells[b] = step(x[t, b], last[b], cells[b])
            result[t, b] = last[b]
    return result, last, cells


def assert_close(found, wanted, dtype):
    unit = {2: 2.0**-7 if dtype == ml_dtypes.bfloat16 else 2.0**-10, 4: 2.0**-23, 8: 2.0**-52}[np.dtype(dtype).itemsize]
    assert found.dtype == dtype
    assert found.shape == wanted.shape
    # Half a unit for storing; sums and functions in double err by some of its own.
    assert (np.abs(found.astype(np.float64) - wanted) <= 0.51 * unit * np.abs(wanted) + 1e-12 + unit * 2.0**-8).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_rnn(run_layer, sizes, dtype):
    draws = drawn(dtype, sizes, 1)

    def step(x, h, c):
        return np.tanh(draws["weights"] @ x + draws["recurrent_weights"] @ h + draws["bias"]), c

    found = draws.run(run_layer, Rnn())
    for one, wanted in zip(found, over(draws, step, sizes[3]), strict=False):
        assert_close(one, wanted, dtype)
    assert len(found) == 2


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("after", [False, True])
def test_gru(run_layer, after, sizes, dtype):
    units = sizes[3]
    draws = drawn(dtype, sizes, 3).add(recurrent_bias=(3 * units,))

    def step(x, h, c):
        seen, own = draws["weights"] @ x + draws["bias"], draws["recurrent_weights"] @ h + draws["recurrent_bias"]
        z, r = sigmoid(seen[:units] + own[:units]), sigmoid(seen[units : 2 * units] + own[units : 2 * units])
        if not after:
            own = draws["recurrent_weights"] @ (r * h) + draws["recurrent_bias"]
        made = np.tanh(seen[2 * units :] + (r * own[2 * units :] if after else own[2 * units :]))
        return (1 - z) * made + z * h, c

    for one, wanted in zip(draws.run(run_layer, Gru(reset_after=after)), over(draws, step, units), strict=False):
        assert_close(one, wanted, dtype)


def lstm_step(draws, descriptor, units):
    """A step of an LSTM with whatever is among the operands."""
    order = {GateCoupling.NONE: "iofg", GateCoupling.FORGET: "iog", GateCoupling.INPUT: "ofg"}[descriptor.coupling]
    there = draws.arrays
    zeros = np.zeros(len(order) * units)
    bias = draws["bias"] if "bias" in there else zeros
    peepholes = np.append(draws["peepholes"], np.zeros(units)) if "peepholes" in there else zeros

    def step(x, h, c):
        sums = draws["weights"] @ x + draws["recurrent_weights"] @ h

        def gate(name, cell):
            at = slice(order.index(name) * units, (order.index(name) + 1) * units)
            value = sums[at] + peepholes[at] * cell
            if "normalization" in there:
                value = (value - value.mean()) / np.sqrt(value.var() + descriptor.epsilon) * draws["normalization"][at]
            value = value + bias[at]
            if descriptor.gate_clip is not None:
                value = np.clip(value, -descriptor.gate_clip, descriptor.gate_clip)
            return np.tanh(value) if name == "g" else sigmoid(value)

        forget = gate("f", c) if "f" in order else 1 - gate("i", c)
        given = gate("i", c) if "i" in order else 1 - forget
        c = forget * c + given * gate("g", c)
        if descriptor.cell_clip is not None:
            c = np.clip(c, -descriptor.cell_clip, descriptor.cell_clip)
        h = gate("o", c) * np.tanh(c)
        if "projection_weights" in there:
            h = draws["projection_weights"] @ h + (draws["projection_bias"] if "projection_bias" in there else 0)
            h = h if descriptor.projection_clip is None else np.clip(h, -descriptor.projection_clip, descriptor.projection_clip)
        return h, c

    return step


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("coupling", list(GateCoupling), ids=lambda one: one.value)
def test_lstm(run_layer, coupling, sizes, dtype):
    units, descriptor = sizes[3], Lstm(coupling=coupling)
    draws = drawn(dtype, sizes, descriptor.gates).add(
        initial_cell=(sizes[1], units), peepholes=((descriptor.gates - 1) * units,)
    )
    wanted = over(draws, lstm_step(draws, descriptor, units), units)
    for one, expected in zip(draws.run(run_layer, descriptor), wanted, strict=True):
        assert_close(one, expected, dtype)


OPTIONS = ("normalization", "projection", "projection_bias", "gate_clip", "cell_clip", "projection_clip")


@pytest.mark.parametrize("chosen", list(itertools.product([False, True], repeat=len(OPTIONS))), ids=str)
def test_lstm_of_every_kind(run_layer, chosen):
    has = dict(zip(OPTIONS, chosen, strict=True))
    has["projection_bias"] &= has["projection"]
    sizes, units, hidden = (4, 3, 5, 6), 6, 4 if has["projection"] else 6
    limits = {"gate_clip": 0.4, "cell_clip": 0.3, "projection_clip": 0.2}
    descriptor = Lstm(**{name: limit for name, limit in limits.items() if has[name]}, epsilon=1e-3)
    draws = drawn(np.float64, sizes, 4, hidden).add(initial_cell=(3, units))
    if has["normalization"]:
        draws.add(normalization=(4 * units,))
    if has["projection"]:
        draws.add(projection_weights=(hidden, units))
    if has["projection_bias"]:
        draws.add(projection_bias=(hidden,))
    wanted = over(draws, lstm_step(draws, descriptor, units), units)
    for one, expected in zip(draws.run(run_layer, descriptor), wanted, strict=True):
        assert_close(one, expected, np.float64)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("lengths", [(5, 0, 2, 5), (0, 0, 0, 0), (5, 5, 5, 5), (1, 2, 3, 4)], ids=str)
def test_lengths_and_directions(run_layer, lengths, reverse, batch_first, index):
    draws = drawn(np.float64, (5, 4, 3, 6), 4)
    step = lstm_step(draws, Lstm(), 6)
    wanted = over(draws, step, 6, lengths, reverse)
    draws.arrays["lengths"] = np.asarray(lengths, index)
    if batch_first:
        draws.arrays["input"] = np.swapaxes(draws.arrays["input"], 0, 1)
        wanted = (np.swapaxes(wanted[0], 0, 1), *wanted[1:])
    for one, expected in zip(draws.run(run_layer, Lstm(reverse=reverse, batch_first=batch_first)), wanted, strict=True):
        assert_close(one, expected, np.float64)


@pytest.mark.parametrize("length", [-1, 5, 2**40])
def test_a_length_that_there_is_not_fails_the_run(run_layer, direct, length):
    draws = drawn(np.float32, (4, 2, 3, 5), 1)
    draws.arrays["lengths"] = np.asarray([4, length])
    with pytest.raises(direct.Failed, match=f"length {length} of sequence 1 is not within the 4 steps"):
        draws.run(run_layer, Rnn())


def test_a_deep_product_comes_in_parts(run_layer):
    sizes = (2, 3, (1 << 15) + 9, 2)
    draws = drawn(np.float64, sizes, 1)

    def step(x, h, c):
        return np.tanh(draws["weights"] @ x + draws["recurrent_weights"] @ h + draws["bias"]), c

    found = draws.run(run_layer, Rnn())
    np.testing.assert_allclose(found[0], over(draws, step, 2)[0], rtol=1e-10, atol=1e-10)


def test_many_hidden_values_come_in_parts(run_layer):
    hidden = (1 << 15) + 5
    draws = drawn(np.float64, (2, 1, 2, 3), 4, hidden).add(projection_weights=(hidden, 3))
    wanted = over(draws, lstm_step(draws, Lstm(), 3), 3)
    for one, expected in zip(draws.run(run_layer, Lstm()), wanted, strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-10, atol=1e-10)


def test_a_sequence_in_two_parts_gives_the_same_states(run_layer):
    draws = drawn(np.float64, (6, 2, 3, 5), 4).add(initial_cell=(2, 5))
    whole = draws.run(run_layer, Lstm())
    x = draws.arrays["input"]
    draws.arrays["input"] = x[:4]
    first = draws.run(run_layer, Lstm())
    draws.arrays |= {"input": x[4:], "initial_hidden": first[1], "initial_cell": first[2]}
    second = draws.run(run_layer, Lstm())
    np.testing.assert_array_equal(np.concatenate([first[0], second[0]]), whole[0])
    np.testing.assert_array_equal(second[2], whole[2])


LITERT = Path(__file__).with_name("data") / "litert_lstm.npz"
"""Float LSTMs and what LiteRT 2.3.0 made of them; `data/make_litert_lstm.py` wrote it."""


def litert_cases():
    """Return (facts, input, operands by number, output) of each case."""
    with np.load(LITERT, allow_pickle=False) as archive:
        facts, data = json.loads(archive["facts"].tobytes()), archive["bytes"].view(np.float32)
    found, at = [], 0
    for number, case in enumerate(facts):
        arrays = []
        for shape in (case["input"], *case["operands"].values(), case["output"]):
            arrays.append(data[at : at + math.prod(shape)].reshape(shape))
            at += math.prod(shape)
        operands = dict(zip(map(int, case["operands"]), arrays[1:-1], strict=True))
        found.append(pytest.param(case, arrays[0], operands, arrays[-1], id=str(number)))
    assert at == data.size
    return found


def described(case, x, operands):
    """Return the layer of a case, and its operands by our names."""
    # LiteRT's gates are input, forget, cell, output.
    gates = [3, 1, 2] if case["coupled"] else [0, 3, 1, 2]
    descriptor = Lstm(
        batch_first=not case["time_major"],
        coupling=GateCoupling.INPUT if case["coupled"] else GateCoupling.NONE,
        cell_activation=case["activation"],
        hidden_activation=case["activation"],
        cell_clip=case["cell_clip"] or None,
        projection_clip=case["projection_clip"] or None,
    )
    draws = Draws(np.float32)
    draws.arrays["input"] = x
    for name, first in (("weights", 1), ("recurrent_weights", 5), ("bias", 12), ("normalization", 20)):
        if first + 3 in operands:
            draws.arrays[name] = np.concatenate([operands[first + gate] for gate in gates])
    if case["peepholes"]:
        draws.arrays["peepholes"] = np.concatenate([operands[{0: 9, 1: 10, 3: 11}[gate]] for gate in gates[:-1]])
    for name, number in (("projection_weights", 16), ("projection_bias", 17)):
        if number in operands:
            draws.arrays[name] = operands[number]
    return descriptor, draws


@pytest.mark.parametrize(("case", "x", "operands", "wanted"), litert_cases())
def test_lstm_of_litert(run_layer, case, x, operands, wanted):
    descriptor, draws = described(case, x, operands)
    # It sums up in float32, four steps of up to ten products.
    np.testing.assert_allclose(draws.run(run_layer, descriptor)[0], wanted, rtol=2e-6, atol=2e-6, strict=True)
