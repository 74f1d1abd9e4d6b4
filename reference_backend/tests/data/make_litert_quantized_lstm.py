#!/usr/bin/env python3
"""Make litert_quantized_lstm.npz for test_quantized_recurrent.py: what LiteRT makes of LSTMs.

    pip install ai-edge-litert==2.3.0
    python make_litert_quantized_lstm.py [--seed 0] [-o litert_quantized_lstm.npz]

Each case is one UNIDIRECTIONAL_SEQUENCE_LSTM of bytes with 16-bit cells, computed twice by LiteRT's
reference kernels: the second run begins with the states that the first one leaves. The file holds
the cases' facts, with the shapes, types and scales of their operands by the number of the
operator's input, and behind one another the inputs, the operands and the outputs of each.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from make_litert_lstm import Writer

_TYPES = {"int8": schema.TensorType.INT8, "int16": schema.TensorType.INT16, "int32": schema.TensorType.INT32}
_GATES = range(4)  # input, forget, cell, output
_PEEPHOLES = {0: 9, 1: 10, 3: 11}
_HIDDEN, _CELL = 18, 19


class QuantizedWriter(Writer):
    """A model of one operator of integers."""

    def quantized(self, dtype, shape, scale, zero=0, value=None, *, variable=False) -> int:
        number = self.tensor(shape, value, variable=variable)
        made = self.graph.tensors[number]
        made.type, made.quantization = _TYPES[dtype], schema.QuantizationParametersT()
        if scale is not None:
            made.quantization.scale, made.quantization.zeroPoint = [scale], [zero]
        return number

    def finish_with(self, inputs, output, options, intermediates) -> bytes:
        """Return the file, whose operator has intermediate results."""
        self.finish(inputs, output, options)
        self.graph.operators[0].intermediates = intermediates
        return self.packed()


def drawn(random, number, shape, scale, case):
    """Draw an operand, by the number of the operator's input."""
    if 12 <= number < 16 or number == 17:
        reach = 1 << 24 if case["normalization"] and number != 17 else 1 << 12
        return {"dtype": "int32", "scale": None}, random.integers(-reach, reach, shape, np.int32)
    if number >= 20 or 9 <= number < 12:
        value = random.integers(-32768, 32767, shape, np.int16, endpoint=True)
        return {"dtype": "int16", "scale": scale / 32768}, value
    return {"dtype": "int8", "scale": scale / 128}, random.integers(-127, 127, shape, np.int8, endpoint=True)


def operands(case, random):
    """Return (facts, value) of the constant operands by the number of the operator's input."""
    (_, _, inputs, units, hidden), shapes = case["sizes"], {}
    for gate in _GATES:
        if case["coupled"] and gate == 0:
            continue
        shapes |= {1 + gate: (units, inputs), 5 + gate: (units, hidden), 12 + gate: (units,)}
        if case["normalization"]:
            shapes[20 + gate] = (units,)
        if case["peepholes"] and gate in _PEEPHOLES:
            shapes[_PEEPHOLES[gate]] = (units,)
    if case["projection"]:
        shapes[16] = (hidden, units)
    if case["projection"] == "with bias":
        shapes[17] = (hidden,)
    found = {}
    for number, shape in sorted(shapes.items()):
        terms = shape[1] if len(shape) == 2 else 1
        facts, value = drawn(random, number, shape, random.uniform(1, 3) / terms**0.5, case)
        if facts["scale"] is not None:
            facts["scale"] = float(np.float32(facts["scale"]))
        found[number] = facts | {"shape": shape}, value
    return found


def computed(case, runs, given):
    """Return what LiteRT makes of a case in runs after one another."""
    steps, batch, _, units, hidden = case["sizes"]
    writer, numbers = QuantizedWriter(), [-1] * 24
    numbers[0] = writer.quantized("int8", runs[0].shape, *case["input"])
    for number, (facts, value) in given.items():
        numbers[number] = writer.quantized(facts["dtype"], value.shape, facts["scale"], 0, value)
    numbers[_HIDDEN] = writer.quantized("int8", (batch, hidden), *case["hidden"], variable=True)
    numbers[_CELL] = writer.quantized("int16", (batch, units), case["cell scale"], variable=True)
    shape = (steps, batch, hidden) if case["time_major"] else (batch, steps, hidden)
    output = writer.quantized("int8", shape, *case["hidden"])
    scales = case["gate scales"] or [None] * 4
    intermediates = [writer.quantized("int16", (0,), scale) for scale in scales]
    intermediates.append(writer.quantized("int8", (0,), *case["made"]))
    options = schema.UnidirectionalSequenceLSTMOptionsT()
    options.fusedActivationFunction, options.timeMajor = schema.ActivationFunctionType.TANH, case["time_major"]
    options.cellClip, options.projClip = case["cell_clip"], case["projection_clip"]
    return results_of(writer.finish_with(numbers, output, options, intermediates), runs)


def results_of(data, runs):
    """Return what LiteRT's reference kernels make of inputs, each run after the one before."""
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    results = []
    for x in runs:
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
        interpreter.invoke()
        results.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
    return results


def drawn_case(form, number, random):
    """Return the facts of a case: its form, and sizes and scales at random."""
    coupled, peepholes, normalization, projection, clips = form
    units, hidden = (int(one) for one in random.choice([1, 3, 5, 7, 9, 17], 2))
    if not projection or peepholes:  # LiteRT's peepholes of a cell of another size than the state are not the cell's own
        hidden = units
    sizes = (4, int(random.integers(1, 4)), int(random.choice([1, 3, 7, 19])), units, hidden)
    quantizations = [
        (float(np.float32(random.uniform(*reach) / 128)), int(random.integers(-128, 128)))
        for reach in ((2, 4), (0.6, 1.2), (0.6, 1.2))
    ]
    gates = [float(np.float32(one)) for one in random.uniform(0.0002, 0.0008, 4)] if normalization else None
    case = {"coupled": coupled, "peepholes": peepholes, "normalization": normalization, "projection": projection}
    case |= {"cell_clip": 0.5 if clips else 0.0, "projection_clip": 0.25 if clips else 0.0, "time_major": bool(number % 2)}
    case |= dict(zip(("input", "hidden", "made"), quantizations, strict=True))
    return case | {"sizes": sizes, "gate scales": gates, "cell scale": 2.0 ** int(random.integers(-15, -8))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).with_name("litert_quantized_lstm.npz"))
    arguments = parser.parse_args()
    random, found, data = np.random.default_rng(arguments.seed), [], b""
    projections = (None, "without bias", "with bias")
    forms = itertools.product((False, True), (False, True), (False, True), projections, (False, True))
    for number, form in enumerate(forms):
        case = drawn_case(form, number, random)
        steps, batch, inputs, *_ = case["sizes"]
        shape = (steps, batch, inputs) if case["time_major"] else (batch, steps, inputs)
        runs = [random.integers(-128, 127, shape, np.int8, endpoint=True) for _ in range(2)]
        given = operands(case, random)
        results = computed(case, runs, given)
        found.append({**case, "operands": {str(index): facts for index, (facts, _) in given.items()}})
        data += b"".join(array.tobytes() for array in (*runs, *(value for _, value in given.values()), *results))
    text = np.frombuffer(json.dumps(found).encode(), np.uint8)
    np.savez_compressed(arguments.output, facts=text, bytes=np.frombuffer(data, np.uint8))


if __name__ == "__main__":
    main()
