"""Measure what loading a TensorFlow Lite model and running it once takes, beside LiteRT.

    python3 dev.py bench loads a.tflite FOLDER [--before kws.tflite ...] [--peer-python PYTHON]

Each sample is a process of its own. It imports the runtime, loads the models of `--before` and runs
them once, so that neither imports nor what a runtime sets up on first use are charged to the model;
then the clock runs while the model is loaded, and while it runs for the first time. A second kind
of process has the model as its first one: "new process" is the sum there, the import of the runtime
beyond NumPy included. Both runtimes have one thread. They alternate, and of each the least of
`--starts` processes counts; files are in the page cache. A ratio above 1 says that dovetail is
slower. `--earlier PYTHON` has another installation of dovetail take turns with them.

dovetail keeps the plans of model files: the first start plans, the others read what it kept. Each
run of this program has a cache folder of its own. `--unkept` has every start plan anew.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

OURS, PEER, EARLIER = "dovetail", "LiteRT", "earlier"
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
Runtime = Callable[[str], Callable[[], object]]
"""Loads a file; returns what runs it once, on zeros."""


def import_dovetail(backends: list[str]) -> Runtime:
    """Import dovetail, with the names that a program needs to load a network."""
    from dovetail import load

    def open_network(model: str) -> Callable[[], object]:
        net = load(model, backends, threads=1)
        shapes = [tuple(size if isinstance(size, int) else 1 for size in one.shape) for one in net.inputs]
        feeds = {one.name: np.zeros(shape, one.dtype.numpy) for one, shape in zip(net.inputs, shapes, strict=True)}
        return lambda: net.run(feeds)

    return open_network


def import_litert(backends: list[str]) -> Runtime:
    """Import LiteRT; its interpreters apply XNNPACK."""
    from ai_edge_litert.interpreter import Interpreter

    def open_interpreter(model: str) -> Callable[[], object]:
        interpreter = Interpreter(model_path=model, num_threads=1)
        interpreter.allocate_tensors()
        feeds = [(one["index"], np.zeros(one["shape"], one["dtype"])) for one in interpreter.get_input_details()]
        results = [one["index"] for one in interpreter.get_output_details()]

        def run() -> object:
            for index, array in feeds:
                interpreter.set_tensor(index, array)
            interpreter.invoke()
            return [interpreter.get_tensor(index) for index in results]

        return run

    return open_interpreter


RUNTIMES = {OURS: import_dovetail, PEER: import_litert, EARLIER: import_dovetail}


def measure(runtime: str, model: str, before: Sequence[str], backends: list[str], clock: str) -> dict[str, float]:
    """Load a model in this process and run it; return seconds of "import", "load" and "first"."""
    now = CLOCKS[clock]
    begun = now()
    opened = RUNTIMES[runtime](backends)
    imported = now() - begun
    for other in before:
        opened(other)()
    begun = now()
    run = opened(model)
    loaded = now()
    run()
    return {"import": imported, "load": loaded - begun, "first": now() - loaded}


def in_child(python: str, runtime: str, model: str, before: Sequence[str], backends: str, clock: str) -> dict[str, float]:
    """Measure in a process of its own; empty if the runtime does not take the model."""
    command = [python, __file__, model, "-b", backends, "--clock", clock, "--measure", runtime]
    if before:
        command += ["--before", *before]
    quiet = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # NumPy's threads spin while they wait
    quiet.pop("PYTHONDONTWRITEBYTECODE", None)  # installed programs are compiled once
    done = subprocess.run(command, env=quiet, capture_output=True, text=True, check=False)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}
    if not found:
        print(f"{runtime} fails on {model}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
    return found


def compared(model: str, given: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Measure a model by both runtimes, alternating; return the least seconds of each."""
    pythons = {OURS: sys.executable, PEER: given.peer_python, **({EARLIER: given.earlier} if given.earlier else {})}
    before = [one for one in given.before if Path(one).resolve() != Path(model).resolve()]
    samples: dict[str, list[dict[str, float]]] = {runtime: [] for runtime in pythons}
    alone: dict[str, list[float]] = {runtime: [] for runtime in pythons}
    for _ in range(given.starts):
        for runtime, python in pythons.items():
            new = in_child(python, runtime, model, [], given.backends, given.clock)
            later = in_child(python, runtime, model, before, given.backends, given.clock)
            if not new or not later:
                return {}
            alone[runtime].append(sum(new.values()))
            samples[runtime].append({"load": later["load"], "first": later["first"], "sum": later["load"] + later["first"]})
    return {
        runtime: {key: min(one[key] for one in found) for key in found[0]} | {"new process": min(alone[runtime])}
        for runtime, found in samples.items()
    }


def files_of(given: Sequence[str]) -> list[str]:
    """Return models; of a folder all below it."""
    return [
        str(file)
        for one in map(Path, given)
        for file in (sorted(one.rglob("*.tflite")) if one.is_dir() else [one])
        if file.is_file()
    ]


def row(cells: Sequence[str], markdown: bool) -> str:
    """Lay out a line of the table."""
    return f"| {' | '.join(cells)} |" if markdown else f"{cells[0]:<44}" + "".join(f"{cell:>12}" for cell in cells[1:])


def titles(earlier: bool) -> list[str]:
    """Return what stands above the columns; times are milliseconds."""
    return ["model", "load", "first run", "sum", PEER, "ratio", "new process", PEER, "ratio", *(["earlier", "of it"] * earlier)]


def cells_of(model: str, found: dict[str, dict[str, float]]) -> list[str]:
    """Return the line of a model."""
    ours, peer = found[OURS], found[PEER]
    cells = [Path(model).stem, *(f"{ours[key] * 1e3:.2f}" for key in ("load", "first"))]
    for key in ("sum", "new process"):
        cells += [f"{ours[key] * 1e3:.2f}", f"{peer[key] * 1e3:.2f}", f"{ours[key] / peer[key]:.2f}"]
    if EARLIER in found:
        cells += [f"{found[EARLIER]['sum'] * 1e3:.2f}", f"{ours['sum'] / found[EARLIER]['sum']:.2f}"]
    return cells


def summary(found: dict[str, dict[str, dict[str, float]]], other: str, key: str) -> str:
    """Say how dovetail stands to another runtime over all models."""
    ratios = {Path(model).stem: one[OURS][key] / one[other][key] for model, one in found.items()}
    worst = max(ratios, key=ratios.__getitem__)
    mean = math.exp(statistics.fmean(map(math.log, ratios.values())))
    return f"{key}, of {other}: {len(ratios)} models, geometric mean {mean:.2f}, worst {ratios[worst]:.2f} ({worst})"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--before", nargs="+", default=[], help="models that a process has had before")
    parser.add_argument("-b", "--backends", default="CpuAcc,CpuRef")
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter that has LiteRT")
    parser.add_argument("--earlier", metavar="PYTHON", help="an interpreter that has another dovetail")
    parser.add_argument("--starts", type=int, default=5, help="processes of each kind (default: %(default)s)")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: where other work is done meanwhile")
    parser.add_argument("--unkept", action="store_true", help="neither keep plans nor use any")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", choices=RUNTIMES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure, given.models[0], given.before, given.backends.split(","), given.clock)))
        return
    if given.unkept:
        os.environ["DOVETAIL_PLANS"] = "off"
    with tempfile.TemporaryDirectory() as cache:
        os.environ["DOVETAIL_CACHE_DIR"] = cache
        report(given)


def report(given: argparse.Namespace) -> None:
    """Measure all models and print what came out."""
    head = titles(bool(given.earlier))
    print(row(head, given.markdown))
    if given.markdown:
        print(row(["---"] * len(head), True))
    found: dict[str, dict[str, dict[str, float]]] = {}
    for model in files_of(given.models):
        result = compared(model, given)
        if result:
            found[model] = result
            print(row(cells_of(model, result), given.markdown), flush=True)
    for other, key in ((PEER, "sum"), (PEER, "new process"), *([(EARLIER, "sum")] if given.earlier else [])):
        print(summary(found, other, key))
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
