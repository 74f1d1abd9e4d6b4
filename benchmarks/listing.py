"""Measure `dovetail backends` with many backends, beside the import of NumPy; see README.md."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dovetail.contract.abi_version import ABI_VERSION

COMMANDS = {
    "Python": ["-c", "pass"],
    "NumPy": ["-c", "import numpy"],
    "dovetail.backends()": ["-c", "import dovetail; dovetail.backends()"],
    "dovetail backends": ["-m", "dovetail_sdk", "backends"],
}


def install(folder: Path, count: int) -> None:
    """Write distributions with a backend each, whose import would fail.

    The manifests have claims, as a vendor's do.
    """
    claim = [{"dtypes": ["float32", "int8"], "where": {"layout": "NHWC", "stride": {"min": 1, "max": 2}}}]
    claims = {f"dovetail.Kind{number}": claim for number in range(40)}
    for number in range(count):
        package, id = f"listed_{number:02}", f"Listed{number:02}"
        manifest = {"id": id, "abi": list(ABI_VERSION), "device": "npu", "rank": 1, "description": "listed", "claims": claims}
        (folder / package).mkdir()
        (folder / package / "__init__.py").write_text("raise SystemExit('a listing imports nothing')\n")
        (folder / package / "dovetail-backend.json").write_text(json.dumps(manifest))
        info = folder / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[dovetail.backends]\n{id} = {package}:Backend\n")


def milliseconds(arguments: list[str], folder: Path) -> float:
    """Time one process."""
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    begun = time.perf_counter()
    subprocess.run([sys.executable, *arguments], env={**os.environ, "PYTHONPATH": path}, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begun) * 1000


def main() -> None:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backends", type=int, default=20, help="how many are installed besides those that are there")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        install(Path(name), options.backends)
        times: dict[str, list[float]] = {what: [] for what in COMMANDS}
        for _ in range(options.rounds):  # alternating, so that a slow moment strikes all alike
            for what, arguments in COMMANDS.items():
                times[what].append(milliseconds(arguments, Path(name)))
    base = statistics.median(times["NumPy"])
    for what in COMMANDS:
        median = statistics.median(times[what])
        print(f"{what:20} {median:6.1f} ms, {median - base:+6.1f} ms beside NumPy, fastest {min(times[what]):.1f} ms")


if __name__ == "__main__":
    main()
