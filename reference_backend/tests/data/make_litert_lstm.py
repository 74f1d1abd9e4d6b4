#!/usr/bin/env python3
"""Make litert_lstm.npz for test_recurrent.py: LiteRT's outputs of random LSTMs of every form.

    pip install ai-edge-litert==2.3.0
    python make_litert_lstm.py [--seed 0] [-o litert_lstm.npz]

Each case is one UNIDIRECTIONAL_SEQUENCE_LSTM in float32, computed by LiteRT's reference kernels.
The file holds the cases' facts, with the shapes of their operands by the number of the operator's
input, and behind one another the input, the operands and the output of each.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

STEPS, BATCH, INPUTS, UNITS, PROJECTED = 4, 2, 3, 5, 4
_OPERATOR = schema.BuiltinOperator.UNIDIRECTIONAL_SEQUENCE_LSTM
_GATES = range(4)  # input, forget, cell, output
_ACTIVATIONS = {"tanh": schema.ActivationFunctionType.TANH, "relu": schema.ActivationFunctionType.RELU}


class Writer:
    """A model of one operator that is being made."""

    def __init__(self) -> None:
        self.model, self.graph = schema.ModelT(), schema.SubGraphT()
        self.model.version, self.model.buffers, self.model.subgraphs = 3, [schema.BufferT()], [self.graph]
        self.graph.tensors = []

    def tensor(self, shape, value=None, *, variable=False) -> int:
        made = schema.TensorT()
        made.shape, made.type, made.isVariable, made.buffer = list(shape), schema.TensorType.FLOAT32, variable, 0
        made.name = f"t{len(self.graph.tensors)}".encode()
        if value is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(value.tobytes(), np.uint8)
            self.model.buffers.append(buffer)
            made.buffer = len(self.model.buffers) - 1
        self.graph.tensors.append(made)
        return len(self.graph.tensors) - 1

    def finish(self, inputs, output, options) -> bytes:
        code, operator = schema.OperatorCodeT(), schema.OperatorT()
        code.builtinCode = code.deprecatedBuiltinCode = _OPERATOR
        code.version, operator.opcodeIndex = 1, 0
        operator.inputs, operator.outputs, operator.builtinOptions = inputs, [output], options
        operator.builtinOptionsType = schema.BuiltinOptions.UnidirectionalSequenceLSTMOptions
        self.model.operatorCodes, self.graph.operators = [code], [operator]
        self.graph.inputs, self.graph.outputs = [inputs[0]], [output]
        return self.packed()

    def packed(self) -> bytes:
        """Return the file."""
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def operands(case, random):
    """Return the constant operands by the number of the operator's input."""
    hidden, found = PROJECTED if case["projection"] else UNITS, {}
    for gate in _GATES:
        if case["coupled"] and gate == 0:
            continue
        found |= {1 + gate: (UNITS, INPUTS), 5 + gate: (UNITS, hidden), 12 + gate: (UNITS,)}
        if case["normalization"]:
            found[20 + gate] = (UNITS,)
        if case["peepholes"] and gate != 2:
            found[{0: 9, 1: 10, 3: 11}[gate]] = (UNITS,)
    if case["projection"]:
        found[16] = (hidden, UNITS)
    if case["projection"] == "with bias":
        found[17] = (hidden,)
    return {number: random.uniform(-0.8, 0.8, shape).astype(np.float32) for number, shape in sorted(found.items())}


def computed(case, x, given):
    """Return what LiteRT makes of a case."""
    writer, hidden = Writer(), PROJECTED if case["projection"] else UNITS
    numbers = [-1] * 24
    numbers[0] = writer.tensor(x.shape)
    for number, value in given.items():
        numbers[number] = writer.tensor(value.shape, value)
    numbers[18] = writer.tensor((BATCH, hidden), variable=True)
    numbers[19] = writer.tensor((BATCH, UNITS), variable=True)
    output = writer.tensor((*x.shape[:2], hidden))
    options = schema.UnidirectionalSequenceLSTMOptionsT()
    options.fusedActivationFunction, options.timeMajor = _ACTIVATIONS[case["activation"]], case["time_major"]
    options.cellClip, options.projClip = case["cell_clip"], case["projection_clip"]
    data = writer.finish(numbers, output, options)
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).with_name("litert_lstm.npz"))
    arguments = parser.parse_args()
    random, facts, data = np.random.default_rng(arguments.seed), [], b""
    projections = (None, "without bias", "with bias")
    forms = itertools.product((False, True), (False, True), (False, True), projections, (False, True))
    for number, (coupled, peepholes, normalization, projection, clips) in enumerate(forms):
        case = {"coupled": coupled, "peepholes": peepholes, "normalization": normalization, "projection": projection}
        case |= {"cell_clip": 0.25 if clips else 0.0, "projection_clip": 0.125 if clips else 0.0}
        case |= {"time_major": bool(number % 2), "activation": "relu" if number % 3 == 2 else "tanh"}
        x = random.uniform(-0.8, 0.8, (STEPS, BATCH, INPUTS) if case["time_major"] else (BATCH, STEPS, INPUTS)).astype(
            np.float32
        )
        given = operands(case, random)
        y = computed(case, x, given)
        shapes = {str(index): value.shape for index, value in given.items()}
        facts.append({**case, "input": x.shape, "operands": shapes, "output": y.shape})
        data += b"".join(array.tobytes() for array in (x, *given.values(), y))
    text = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    np.savez_compressed(arguments.output, facts=text, bytes=np.frombuffer(data, np.uint8))


if __name__ == "__main__":
    main()
