#!/usr/bin/env python3
"""Make litert_quantized_svdf.npz for test_quantized_svdf.py: what LiteRT makes of SVDFs.

    pip install ai-edge-litert==2.3.0
    python make_litert_quantized_svdf.py [--seed 0] [-o litert_quantized_svdf.npz]

Each case is one SVDF of bytes with a state of 16-bit words, computed several times by LiteRT's
reference kernels: each run begins with the state that the last one leaves. The file holds the
cases' facts, and behind one another the inputs, the operands and the outputs of each. Scales are
such that factors of both sums are above and below one, and that some results saturate. Of the last
case, results tell whether factors are made in float32 or in float64.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from make_litert_quantized_lstm import QuantizedWriter, results_of

_RUNS = 6
_REACH = 1000
"""Of weights of steps: no sum with them leaves 32 bits, beyond which C++ has no rule."""


def computed(case, runs, operands):
    """Return what LiteRT makes of a case in runs after one another."""
    features, times, bias = operands
    (filters, inputs), steps, batch = features.shape, times.shape[1], case["batch"]
    writer = QuantizedWriter()
    numbers = [
        writer.quantized("int8", (batch, inputs), *case["input"]),
        writer.quantized("int8", features.shape, case["features"], 0, features),
        writer.quantized("int16", times.shape, case["times"], 0, times),
        -1 if bias is None else writer.quantized("int32", bias.shape, case["state"] * case["times"], 0, bias),
        writer.quantized("int16", (batch, filters * steps), case["state"], variable=True),
    ]
    output = writer.quantized("int8", (batch, filters // case["rank"]), *case["result"])
    options = schema.SVDFOptionsT()
    options.rank, options.fusedActivationFunction = case["rank"], schema.ActivationFunctionType.RELU
    writer.finish(numbers, output, options)
    code, [operator] = writer.model.operatorCodes[0], writer.graph.operators
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.SVDF
    code.version, operator.builtinOptionsType = 3, schema.BuiltinOptions.SVDFOptions
    return results_of(writer.packed(), runs)


def drawn_case(form, random):
    """Return the facts of a case: its form, and sizes and scales at random."""
    rank, with_bias, coarse, wide = form
    units, inputs, steps = (int(one) for one in (random.integers(1, 20), random.integers(1, 40), random.integers(1, 12)))
    x, features, times = (float(np.float32(random.uniform(1, 3) / most)) for most in (64, 128, _REACH))
    # Sums of features are some 4000 x * features per root of an input; those of steps likewise.
    state = x * features * (3.0 if coarse else 0.4)
    held = min(4000 * inputs**0.5 * x * features / state, 20000)
    result = state * times * held * 0.6 * _REACH * (rank * steps) ** 0.5 / (200.0 if wide else 50.0)
    facts = {"rank": rank, "bias": with_bias, "batch": int(random.integers(1, 4)), "sizes": [units * rank, inputs, steps]}
    facts |= {"input": [x, int(random.integers(-128, 128))], "features": features, "times": times}
    facts |= {"state": float(np.float32(state)), "result": [float(np.float32(result)), int(random.integers(-128, 128))]}
    return facts


def drawn_operands(case, random):
    """Return weights of features and of steps, and the bias or None."""
    filters, inputs, steps = case["sizes"]
    features = random.integers(-127, 127, (filters, inputs), np.int8, endpoint=True)
    times = random.integers(-_REACH, _REACH, (filters, steps), np.int16, endpoint=True)
    reach = int(case["result"][0] * 40 / (case["state"] * case["times"]))
    bias = random.integers(-reach, reach, filters // case["rank"], np.int32, endpoint=True)
    return features, times, bias if case["bias"] else None


def finest_case(random):
    """Return a case and its operands, whose results are differences of large states as they are.

    A unit has two filters, which differ by 1 in one weight. The scales are those, of many, whose
    factor in float32 is farthest from the one in float64.
    """

    def error(scales):
        x, features, state = scales
        single = np.float32(x) * np.float32(features) / np.float32(state)
        return abs(float(single) / (x * features / state) - 1)

    drawn = np.float32([1e-2, 1e-2, 2e-4]) * random.uniform(1, 1.4, (1000, 3)).astype(np.float32)
    x, features, state = (float(one) for one in max(drawn.tolist(), key=error))
    times = 2.0**-10
    case = {"rank": 2, "bias": False, "batch": 16, "sizes": [128, 4, 1], "input": [x, 0], "features": features}
    case |= {"times": times, "state": state, "result": [state * times, 0]}
    weights = random.integers(-126, 127, (64, 4), np.int8, endpoint=True)
    pairs = np.stack([weights, weights - np.int8([1, 0, 0, 0])], 1).reshape(128, 4).astype(np.int8)
    return case, (pairs, np.tile(np.int16([[1], [-1]]), (64, 1)), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).with_name("litert_quantized_svdf.npz"))
    arguments = parser.parse_args()
    random, cases, found, data = np.random.default_rng(arguments.seed), [], [], b""
    for form in itertools.product((1, 2, 3), (False, True), (False, True), (False, True)):
        case = drawn_case(form, random)
        cases.append((case, drawn_operands(case, random)))
    cases.append(finest_case(random))
    for case, operands in cases:
        shape = (case["batch"], case["sizes"][1])
        runs = [random.integers(-128, 127, shape, np.int8, endpoint=True) for _ in range(_RUNS)]
        results = computed(case, runs, operands)
        found.append(case)
        data += b"".join(array.tobytes() for array in (*runs, *operands, *results) if array is not None)
    text = np.frombuffer(json.dumps(found).encode(), np.uint8)
    np.savez_compressed(arguments.output, facts=text, bytes=np.frombuffer(data, np.uint8))


if __name__ == "__main__":
    main()
