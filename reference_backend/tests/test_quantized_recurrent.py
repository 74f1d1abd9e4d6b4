"""Quantized LSTMs against LiteRT, bit for bit."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from dovetail import Quantization
from dovetail.layers import QuantizedLstm

LITERT = Path(__file__).with_name("data") / "litert_quantized_lstm.npz"
"""LSTMs and what LiteRT 2.3.0 made of them; `data/make_litert_quantized_lstm.py` wrote it."""
GATES = ("input", "forget", "cell", "output")
NAMES = {
    **{1 + place: f"{gate}_weights" for place, gate in enumerate(GATES)},
    **{5 + place: f"{gate}_recurrent_weights" for place, gate in enumerate(GATES)},
    **{9 + place: f"{gate}_peepholes" for place, gate in enumerate(("input", "forget", "output"))},
    **{12 + place: f"{gate}_bias" for place, gate in enumerate(GATES)},
    16: "projection_weights",
    17: "projection_bias",
    **{20 + place: f"{gate}_normalization" for place, gate in enumerate(GATES)},
}
"""Inputs of LiteRT's operator."""


def litert_cases():
    """Return (facts, two inputs, operands by name, two outputs) of each case."""
    with np.load(LITERT, allow_pickle=False) as archive:
        facts, data = json.loads(archive["facts"].tobytes()), archive["bytes"].tobytes()
    found, at = [], 0

    def taken(dtype, shape):
        nonlocal at
        array = np.frombuffer(data, dtype, math.prod(shape), at).reshape(shape)
        at += array.nbytes
        return array

    for number, case in enumerate(facts):
        steps, batch, inputs, _, hidden = case["sizes"]
        sequence = (steps, batch) if case["time_major"] else (batch, steps)
        runs = [taken(np.int8, (*sequence, inputs)) for _ in range(2)]
        operands = {NAMES[int(index)]: taken(one["dtype"], one["shape"]) for index, one in case["operands"].items()}
        results = [taken(np.int8, (*sequence, hidden)) for _ in range(2)]
        found.append(pytest.param(case, runs, operands, results, id=str(number)))
    assert at == len(data)
    return found


def run(run_layer, descriptor, operands, quantizations):
    """Return the outputs of a layer of operands by name."""
    given = [name for name in descriptor.input_names if name in operands]
    assert len(given) == len(operands)

    def build(net, *slots):
        by_name = dict(zip(given, slots, strict=True))
        return net.add(descriptor, *(by_name.get(name) for name in descriptor.input_names))

    return run_layer(build, *(operands[name] for name in given), quantizations=[quantizations.get(name) for name in given])


def described(case):
    """Return the layer of a case, and the quantizations of its operands by name."""
    descriptor = QuantizedLstm(
        batch_first=not case["time_major"],
        cell_clip=case["cell_clip"] or None,
        projection_clip=case["projection_clip"] or None,
        gate_scales=None if case["gate scales"] is None else tuple(case["gate scales"]),
        hidden_scale=case["made"][0],
        hidden_zero_point=case["made"][1],
    )
    quantizations = {
        "input": Quantization.per_tensor(*case["input"]),
        "initial_hidden": Quantization.per_tensor(*case["hidden"]),
    }
    quantizations["initial_cell"] = Quantization.per_tensor(case["cell scale"])
    for index, one in case["operands"].items():
        if one["scale"] is not None:
            quantizations[NAMES[int(index)]] = Quantization.per_tensor(one["scale"])
    return descriptor, quantizations


@pytest.mark.parametrize(("case", "runs", "operands", "wanted"), litert_cases())
def test_same_bits_as_litert(run_layer, case, runs, operands, wanted):
    descriptor, quantizations = described(case)
    _, batch, _, units, hidden = case["sizes"]
    states = [np.full((batch, hidden), case["hidden"][1], np.int8), np.zeros((batch, units), np.int16)]
    for x, result in zip(runs, wanted, strict=True):
        together = {"input": x, "initial_hidden": states[0], "initial_cell": states[1], **operands}
        got, *states = run(run_layer, descriptor, together, quantizations)
        np.testing.assert_array_equal(got, result)
