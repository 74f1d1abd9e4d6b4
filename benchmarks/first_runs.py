"""Measure the first run of networks on a backend that compiles: cold, warm, and later ones.

    python3 dev.py bench first_runs a.onnx b.onnx [-b GpuAcc,CpuRef] [--rounds 5] [--json FILE]

Each measurement is a process of its own. "cold" has an empty folder of artefacts, and drivers that
keep something themselves find nothing of it; "warm" has the folder that the cold process left, and
no more; "warm, driver too" has what the driver keeps as well. Of the warm ones the least of the
rounds counts. A first run is to take at most 1.5 times a later one, and 50 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

LATER = 10
"""Runs after the first; the median counts."""
FACTOR, SLACK = 1.5, 0.05
"""A first run with all programs kept: so many times a later one, and so many seconds."""


def measure(model: str, backends: list[str], store: str) -> dict[str, Any]:
    """Load a model in this process, and run it.

    Args:
        model: A file.
        backends: In order of preference; the first has the option `artefacts`.
        store: Folder of the artefacts.

    Returns:
        Seconds of "import", "load", "first" and "later", and how many programs were "built".
    """
    begun = time.perf_counter()
    import dovetail

    imported = time.perf_counter()
    built: list[str] = []
    net = dovetail.load(
        model,
        backends,
        options={backends[0]: {"artefacts": store}},
        progress=lambda backend, fraction, what: built.append(what),
    )
    loaded = time.perf_counter()
    with net:
        luck = np.random.default_rng(0)
        feeds = {one.name: luck.random(one.shape).astype(one.dtype.numpy) for one in net.inputs}
        times = []
        for _ in range(1 + LATER):
            start = time.perf_counter()
            net.run(feeds)
            times.append(time.perf_counter() - start)
    later = sorted(times[1:])[LATER // 2]
    return {"import": imported - begun, "load": loaded - imported, "first": times[0], "later": later, "built": len(built)}


def in_child(model: str, backends: str, store: Path, driver: Path) -> dict[str, Any]:
    """Measure in a process of its own, whose driver keeps what it wants in a folder."""
    command = [sys.executable, __file__, model, "-b", backends, "--measure", str(store)]
    kept = {"POCL_CACHE_DIR": str(driver), "CUDA_CACHE_PATH": str(driver), "NEO_CACHE_DIR": str(driver)}
    driver.mkdir(exist_ok=True)
    done = subprocess.run(command, env={**os.environ, **kept}, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rows_of(model: str, backends: str, rounds: int) -> dict[str, dict[str, Any]]:
    """Measure a model cold and warm."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = folder / "store"
        store.mkdir(mode=0o700)
        cold = in_child(model, backends, store, folder / "cold")
        warm = [in_child(model, backends, store, folder / f"warm{number}") for number in range(rounds)]
        both = [in_child(model, backends, store, folder / "cold") for _ in range(rounds)]
    least = [{key: min(one[key] for one in some) for key in cold} for some in (warm, both)]
    return {"cold": cold, "warm": least[0], "warm, driver too": least[1]}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("-b", "--backends", default="GpuAcc,CpuRef")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.models[0], given.backends.split(","), given.measure)))
        return
    found = {}
    print(f"{'network':<20} {'store':<17} {'built':>5} {'load ms':>8} {'first ms':>9} {'later ms':>9} {'limit ms':>9}")
    for model in given.models:
        found[model] = rows_of(model, given.backends, given.rounds)
        for what, row in found[model].items():
            limit = FACTOR * row["later"] + SLACK
            times = "".join(f" {row[key] * 1e3:>{width}.1f}" for key, width in (("load", 8), ("first", 9), ("later", 9)))
            word = "" if what == "cold" else "kept" if row["first"] <= limit else "MISSED"
            print(f"{Path(model).stem:<20} {what:<17} {row['built']:>5}{times} {limit * 1e3:>9.1f} {word}", flush=True)
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
