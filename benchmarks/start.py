"""Measure a process from nothing to its first result, beside other runtimes; see README.md."""

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from overhead import MODULES, OURS, write_onnx, write_tflite

LAYERS = ["Add", "Relu", "Add", "Relu"]  # the arithmetic of which takes nothing

# Each prints the CPU seconds that importing, loading and the first run took once NumPy was there,
# and the modules imported.
FRAME = """
import sys, time
import numpy as np
feed = {{name: np.array([-1, 0, 1, 2], np.float32) for name in "xy"}}
modules, begun = len(sys.modules), time.process_time()
{body}
print(time.process_time() - begun, len(sys.modules) - modules)
"""
BODIES = {
    OURS: """
import dovetail
dovetail.load({onnx!r}).run(feed)["z"]
""",
    "onnxruntime": """
import onnxruntime
onnxruntime.InferenceSession({onnx!r}, providers=["CPUExecutionProvider"]).run(None, feed)[0]
""",
    "LiteRT": """
from ai_edge_litert.interpreter import Interpreter
interpreter = Interpreter({tflite!r}, num_threads=1)
interpreter.allocate_tensors()
for detail, name in zip(interpreter.get_input_details(), "xy"):
    interpreter.set_tensor(detail["index"], feed[name])
interpreter.invoke()
interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
""",
}


def measured(python: str, body: str, cache: str) -> tuple[float, int]:
    """Run one process; return its CPU seconds and its number of modules, both beyond NumPy's."""
    # NumPy's threads spin while they wait, and would be counted. Two dovetails forget each other's
    # verdicts on backends.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "DOVETAIL_CACHE_DIR": cache}
    command = [python, "-c", FRAME.format(body=body)]
    said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split()
    return float(said[-2]), int(said[-1])


def main() -> None:
    """Print the medians, and how often each is below dovetail."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="processes of each (default: %(default)s)")
    parser.add_argument("--before", metavar="PYTHON", help="another interpreter, whose dovetail is measured too")
    arguments = parser.parse_args()
    present = [name for name in BODIES if importlib.util.find_spec(MODULES[name].partition(".")[0])]
    with tempfile.TemporaryDirectory() as name:
        paths = {"onnx": f"{name}/add4.onnx", "tflite": f"{name}/add4.tflite"}
        write_onnx(Path(paths["onnx"]), LAYERS)
        if "LiteRT" in present:
            write_tflite(Path(paths["tflite"]), LAYERS)
        starts = {runtime: (sys.executable, BODIES[runtime].format(**paths), f"{name}/now") for runtime in present}
        if arguments.before:
            starts["before"] = (arguments.before, BODIES[OURS].format(**paths), f"{name}/before")
        for start in starts.values():
            measured(*start)  # the files are in the page cache then, byte code is written, and backends were tried
        found: dict[str, list[tuple[float, int]]] = {runtime: [] for runtime in starts}
        for _ in range(arguments.rounds):  # alternating, so that a slow moment strikes all alike
            for runtime, start in starts.items():
                found[runtime].append(measured(*start))
    ours = [seconds for seconds, _ in found[OURS]]
    print("From `import` to the first result of a network of four layers: CPU time and modules beyond NumPy's")
    for runtime, rounds in found.items():
        times = [seconds for seconds, _ in rounds]
        ratio = statistics.median(time / own for time, own in zip(times, ours, strict=True))
        spread = f"{min(times) * 1e3:.1f} .. {max(times) * 1e3:.1f}"
        print(f"  {runtime:12} {statistics.median(times) * 1e3:7.1f} ms  ({spread})  × {ratio:.2f}  {rounds[0][1]:4} modules")


if __name__ == "__main__":
    main()
