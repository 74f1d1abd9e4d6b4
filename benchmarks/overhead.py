"""Measure what a runtime costs beside the arithmetic: per call, per layer, and to import.

See README.md for how to read it.
"""

import argparse
import gc
import importlib.util
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import dovetail

SHORT, LONG = 10, 210  # layers of the two chains whose difference gives the cost of a layer
BLOCK = 0.02  # seconds that one uninterrupted block of calls takes, about
OURS = "dovetail"
UNFUSED = "CpuRef"  # dovetail on the backend that executes each layer in a step of its own
Call = Callable[[], object]

# Prints the seconds that one import takes once NumPy is there.
IMPORT_TIME = "import time, numpy; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
MODULES = {OURS: "dovetail", "onnxruntime": "onnxruntime", "LiteRT": "ai_edge_litert.interpreter"}
# dovetail's names are lazy: what a program pays before it can load a network is their import, not
# that of the bare package.
READY = {OURS: "from dovetail import Network, Runtime, load, optimize"}


def write_onnx(path: Path, layers: list[str]) -> None:
    """Write a chain on four floats: `Relu`, and `Add` of the second input `y`."""
    nodes, value = [], "x"
    for index, kind in enumerate(layers):
        output = "z" if index == len(layers) - 1 else f"t{index}"
        operands = [value] if kind == "Relu" else [value, "y"]
        nodes.append(helper.make_node(kind, operands, [output], name=f"{kind.lower()}{index}"))
        value = output
    infos = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xyz"}
    graph = helper.make_graph(nodes, "overhead", [infos["x"], infos["y"]], [infos["z"]])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def write_tflite(path: Path, layers: list[str]) -> None:
    """Write the same chain for LiteRT, with the schema that its package ships."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    def tensor(name: str) -> schema.TensorT:
        made = schema.TensorT()
        made.name, made.shape, made.type, made.buffer = name, [4], schema.TensorType.FLOAT32, 0
        return made

    graph, model, codes = schema.SubGraphT(), schema.ModelT(), []
    graph.tensors = [tensor("x"), tensor("y"), *(tensor(f"t{index}") for index in range(len(layers)))]
    graph.inputs, graph.outputs, graph.operators, value = [0, 1], [len(layers) + 1], [], 0
    for kind in (schema.BuiltinOperator.RELU, schema.BuiltinOperator.ADD):
        code = schema.OperatorCodeT()
        code.builtinCode, code.deprecatedBuiltinCode, code.version = kind, kind, 1
        codes.append(code)
    for index, kind in enumerate(layers):
        operator = schema.OperatorT()
        operator.opcodeIndex, operator.inputs, operator.outputs = int(kind == "Add"), [value], [index + 2]
        if kind == "Add":
            operator.inputs = [value, 1]
            operator.builtinOptionsType, operator.builtinOptions = schema.BuiltinOptions.AddOptions, schema.AddOptionsT()
        graph.operators.append(operator)
        value = index + 2
    model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, codes, [graph], [schema.BufferT()]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    path.write_bytes(bytes(builder.Output()))


def open_dovetail(path: Path, feed: dict[str, np.ndarray]) -> Call:
    """Open with default options: NumPy in, a fresh NumPy array out."""
    net = dovetail.load(path.with_suffix(".onnx"))
    return lambda: net.run(feed)["z"]


def open_unfused(path: Path, feed: dict[str, np.ndarray]) -> Call:
    """Open on the reference backend.

    CpuAcc, the default, makes one step of an addition and the activation behind it.
    """
    net = dovetail.load(path.with_suffix(".onnx"), backends=["CpuRef"])
    return lambda: net.run(feed)["z"]


def open_onnxruntime(path: Path, feed: dict[str, np.ndarray]) -> Call:
    """Open with one thread; graph optimizations stay at their default."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path.with_suffix(".onnx"), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feed)[0]


def open_litert(path: Path, feed: dict[str, np.ndarray]) -> Call:
    """Open with one thread; a call sets both inputs, invokes and copies the output."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path.with_suffix(".tflite")), num_threads=1)
    interpreter.allocate_tensors()
    first, second = (detail["index"] for detail in interpreter.get_input_details())
    output = interpreter.get_output_details()[0]["index"]

    def call() -> object:
        interpreter.set_tensor(first, feed["x"])
        interpreter.set_tensor(second, feed["y"])
        interpreter.invoke()
        return interpreter.get_tensor(output)

    return call


OPENERS = {OURS: open_dovetail, UNFUSED: open_unfused, "onnxruntime": open_onnxruntime, "LiteRT": open_litert}


def installed() -> list[str]:
    """List the runtimes that can be imported here, dovetail first."""
    return [name for name, module in MODULES.items() if importlib.util.find_spec(module.partition(".")[0])]


def block(call: Call, calls: int) -> float:
    """Time so many calls; answer with seconds per call."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def interleaved(calls: dict[str, Call], rounds: int) -> dict[str, list[float]]:
    """Time all in short alternating blocks: a slow moment of the machine strikes all alike."""
    sizes = {name: max(1, round(BLOCK / block(call, 200))) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    gc.disable()
    try:
        for _ in range(rounds):
            for name, call in calls.items():
                times[name].append(block(call, sizes[name]))
    finally:
        gc.enable()
    return times


def open_checked(folder: Path, name: str, layers: list[str], runtimes: list[str]) -> dict[str, Call]:
    """Write one network, open it everywhere and compare answers: no wrong one is worth timing."""
    write_onnx(folder / f"{name}.onnx", layers)
    if "LiteRT" in runtimes:
        write_tflite(folder / f"{name}.tflite", layers)
    feed = {"x": np.array([-1, 0, 1, 2], np.float32), "y": np.array([0.5, 0.25, -2, 3], np.float32)}
    expected = feed["x"]
    for kind in layers:
        expected = np.maximum(expected, 0) if kind == "Relu" else expected + feed["y"]
    calls = {runtime: OPENERS[runtime](folder / name, feed) for runtime in runtimes}
    for runtime, call in calls.items():
        np.testing.assert_allclose(call(), expected, rtol=1e-5, err_msg=f"{runtime} on {name}")
    return calls


def measure_imports(statements: dict[str, str], rounds: int) -> dict[str, list[float]]:
    """Time each statement in processes of its own, alternating."""
    times: dict[str, list[float]] = {name: [] for name in statements}
    for _ in range(rounds):
        for name, statement in statements.items():
            command = [sys.executable, "-c", IMPORT_TIME.format(statement=statement)]
            times[name].append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]))
    return times


def report(title: str, times: dict[str, list[float]], unit: str, scale: float) -> None:
    """Print the medians, and each peer's ratio to dovetail as the median over the rounds."""
    print(f"\n{title}")
    for name, values in times.items():
        ratio = statistics.median(value / ours for value, ours in zip(values, times[OURS], strict=True))
        spread = f"{min(values) * scale:.3g} .. {max(values) * scale:.3g}"
        print(f"  {name:12} {statistics.median(values) * scale:9.3g} {unit}   ({spread})   × {ratio:.2f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="blocks per runtime and network (default: %(default)s)")
    parser.add_argument("--imports", type=int, default=10, help="processes per runtime (default: %(default)s)")
    arguments = parser.parse_args()
    runtimes = installed()
    print("× is the time relative to dovetail in the same round: above 1, dovetail is faster.")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        calls = open_checked(folder, "add4", ["Add"], runtimes)
        report("One call: Add on 4 floats, NumPy in and out", interleaved(calls, arguments.rounds), "µs", 1e6)
        opened = [OURS, UNFUSED, *(name for name in runtimes if name != OURS)]
        chains = {
            count: open_checked(folder, f"chain{count}", ["Add", "Relu"] * (count // 2), opened) for count in (SHORT, LONG)
        }
        both = {(runtime, count): chains[count][runtime] for runtime in opened for count in chains}
        times = interleaved({f"{runtime} {count}": call for (runtime, count), call in both.items()}, arguments.rounds)
        slopes = {
            runtime: [
                (long - short) / (LONG - SHORT)
                for short, long in zip(times[f"{runtime} {SHORT}"], times[f"{runtime} {LONG}"], strict=True)
            ]
            for runtime in opened
        }
        report(f"One layer: slope between chains of {SHORT} and {LONG} of Add and Relu on 4 floats", slopes, "ns", 1e9)
    ready = {name: READY.get(name, f"import {MODULES[name]}") for name in runtimes}
    report("Ready to load a network, on top of NumPy", measure_imports(ready, arguments.imports), "ms", 1e3)
    bare = measure_imports({OURS: f"import {MODULES[OURS]}"}, arguments.imports)
    report("The bare package alone, whose names are imported when first used", bare, "ms", 1e3)


if __name__ == "__main__":
    main()
