"""Measure loads by VsiNpu, with an empty store of artefacts, and with one that was left.

    python3 dev.py bench npu_loads MODEL... [--driver model] [--rounds 5] [--option NAME=VALUE]
                                            [--shape NAME=SIZE] [--isolate] [--before PYTHON]

Each load is a process of its own, whose kept plans and store are in a folder of its own. `--before`
is a Python with another installation, which is measured in turn with this one. Each round has a
cold load, three warm ones, and three by CpuRef alone, which is what loading a network takes without
the NPU. Medians, in milliseconds, and the ratio of the medians of warm and cold:

    load         dovetail.load, with what it imports
    CPU          CPU time of the process and of those that it starts, from start to end
    open         compiling or finding the program, and putting it on the device
    compile      of that, the compiler (cold), and the key of the program and the store (warm)

`open` and `compile` are not seen with `--isolate`: they are in another process then. The driver
`ovx` needs the vendor's libraries, as its README says.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

WARM = 3
"""Warm loads for each cold one."""


def measure(given: argparse.Namespace) -> dict[str, float]:
    """Load a model in this process; return milliseconds."""
    import resource

    import dovetail

    spent: dict[str, float] = defaultdict(float)

    def timed(owner: type, name: str, what: str) -> None:
        function = getattr(owner, name)

        def wrapped(*arguments: Any) -> Any:
            begun = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                spent[what] += time.perf_counter() - begun

        setattr(owner, name, wrapped)

    options: dict[str, Any] = {"driver": given.driver, "artefacts": given.store}
    options |= dict(one.split("=", 1) for one in given.option)
    more: dict[str, Any] = {"shapes": {name: int(size) for name, _, size in (one.partition("=") for one in given.shape)}}
    if given.on != "CpuRef":
        more |= {"options": {"VsiNpu": options}, "isolate": "VsiNpu" if given.isolate else ()}
    if given.on != "CpuRef" and not given.isolate:
        from dovetail_npu_vsi import workload
        from dovetail_npu_vsi.drivers import driver_of
        from dovetail_npu_vsi.options import VsiNpuOptions

        driver = type(driver_of(VsiNpuOptions(driver=given.driver)))
        timed(workload.VsiFactory, "open", "open")
        timed(driver, "compile", "compile")
        timed(driver, "load", "device")
    begun = time.perf_counter()
    net = dovetail.load(given.models[0], given.on.split(","), **more)
    spent["load"] = time.perf_counter() - begun
    net.unload()
    if not spent["compile"]:
        spent["compile"] = spent["open"] - spent["device"]
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    spent["CPU"] = sum(one.ru_utime + one.ru_stime for one in used)
    return {name: 1e3 * seconds for name, seconds in spent.items()}


def in_process(python: str, model: str, on: str, folder: Path, given: argparse.Namespace, driver: str = "") -> dict[str, float]:
    """Measure in a process of its own."""
    command = [python, __file__, model, "--driver", driver or given.driver, "--on", on, "--store", str(folder / "store")]
    command += [f"--{name}={one}" for name in ("option", "shape") for one in getattr(given, name)]
    command += ["--isolate"] if given.isolate else []
    environment = {**os.environ, "DOVETAIL_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def rounds_of(model: str, pythons: dict[str, str], given: argparse.Namespace) -> dict[tuple[str, str], list[dict[str, float]]]:
    """Return all measurements of a model, by installation and kind of load."""
    found: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory() as name:
            folders = {which: Path(name) / which for which in pythons}
            for which, python in pythons.items():
                (folders[which] / "store").mkdir(parents=True, mode=0o700)
                # Backends are probed once on a machine, which is no part of a cold load.
                in_process(python, model, "VsiNpu,CpuRef", folders[which], given, driver="model")
                found[which, "cold"].append(in_process(python, model, "VsiNpu,CpuRef", folders[which], given))
            for _ in range(WARM):
                for which, python in pythons.items():
                    found[which, "warm"].append(in_process(python, model, "VsiNpu,CpuRef", folders[which], given))
                    found[which, "CpuRef"].append(in_process(python, model, "CpuRef", folders[which], given))
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--driver", default="model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--option", action="append", default=[], help="of VsiNpu")
    parser.add_argument("--shape", action="append", default=[], help="size of an open dimension")
    parser.add_argument("--isolate", action="store_true")
    parser.add_argument("--before", help="Python with another installation")
    parser.add_argument("--on", help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.store:
        print(json.dumps(measure(given)))
        return
    pythons = ({"before": given.before} if given.before else {}) | {"now": sys.executable}
    print("| network | driver | installation | what | cold ms | warm ms | warm / cold |\n|---|---|---|---|---|---|---|")
    for model in given.models:
        found = rounds_of(model, pythons, given)
        for which in pythons:
            head = f"| {Path(model).stem} | {given.driver} | {which} |"
            for what in ("load", "CPU", *(() if given.isolate else ("open", "compile"))):
                cold, warm = (median(one[what] for one in found[which, kind]) for kind in ("cold", "warm"))
                print(f"{head} {what} | {cold:.1f} | {warm:.1f} | {warm / cold:.1%} |")
            floor = {what: median(one[what] for one in found[which, "CpuRef"]) for what in ("load", "CPU")}
            print(f"{head} by CpuRef alone | | {floor['load']:.1f}, CPU {floor['CPU']:.1f} | |", flush=True)


if __name__ == "__main__":
    main()
