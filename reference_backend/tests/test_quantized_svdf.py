"""Quantized SVDF against LiteRT, bit for bit."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from dovetail import Quantization
from dovetail.layers import QuantizedSvdf

LITERT = Path(__file__).with_name("data") / "litert_quantized_svdf.npz"
"""Layers and what LiteRT 2.3.0 made of them; `data/make_litert_quantized_svdf.py` wrote it."""
RUNS = 6


def litert_cases():
    """Return (facts, inputs, operands by name, outputs) of each case."""
    with np.load(LITERT, allow_pickle=False) as archive:
        facts, data = json.loads(archive["facts"].tobytes()), archive["bytes"].tobytes()
    found, at = [], 0

    def taken(dtype, *shape):
        nonlocal at
        array = np.frombuffer(data, dtype, math.prod(shape), at).reshape(shape)
        at += array.nbytes
        return array

    for number, case in enumerate(facts):
        (filters, inputs, steps), batch, units = case["sizes"], case["batch"], case["sizes"][0] // case["rank"]
        runs = [taken(np.int8, batch, inputs) for _ in range(RUNS)]
        operands = {"feature_weights": taken(np.int8, filters, inputs), "time_weights": taken(np.int16, filters, steps)}
        if case["bias"]:
            operands["bias"] = taken(np.int32, units)
        results = [taken(np.int8, batch, units) for _ in range(RUNS)]
        found.append(pytest.param(case, runs, operands, results, id=str(number)))
    assert at == len(data)
    return found


def quantizations_of(case):
    """Return what operands mean, by name, and the result."""
    per_tensor = Quantization.per_tensor
    meanings = {
        "input": per_tensor(*case["input"]),
        "initial_state": per_tensor(case["state"]),
        "feature_weights": per_tensor(case["features"]),
        "time_weights": per_tensor(case["times"]),
    }
    return meanings, per_tensor(*case["result"])


@pytest.mark.parametrize(("case", "runs", "operands", "wanted"), litert_cases())
def test_same_bits_as_litert(run_layer, case, runs, operands, wanted):
    meanings, result = quantizations_of(case)
    filters, _, steps = case["sizes"]
    state = np.zeros((case["batch"], filters * steps), np.int16)

    def build(net, *slots):
        return net.add(QuantizedSvdf(rank=case["rank"]), *slots, quantization=result)

    for x, expected in zip(runs, wanted, strict=True):
        together = {"input": x, "initial_state": state, **operands}
        quantizations = [meanings.get(name) for name in together]
        got, state = run_layer(build, *together.values(), quantizations=quantizations)
        np.testing.assert_array_equal(got, expected)
