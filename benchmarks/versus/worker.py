"""The child process that runs one runtime.

Started by its path, under any Python that has NumPy; it imports the standard library, NumPy and one
module of `runtimes`. It speaks lines of JSON over two pipes, since runtimes print what they like:
it tells how loading went, then answers each ``{"seconds": 0.2}`` with the times of that long a
block, and ends when the pipe does.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.metadata
import importlib.util
import json
import os
import resource
import signal
import statistics
import sys
import time
from itertools import repeat
from typing import Any

SHORTEST_SAMPLE = 20_000
"""Nanoseconds below which calls are timed several at once.

So reading the clock (some 50 ns) stays below 1 %."""


def versions(wanted: dict[str, list[str]]) -> dict[str, str | None]:
    """Return the version of each module and distribution by name; None for what is not there."""
    found: dict[str, str | None] = {}
    for name, (module, distribution) in wanted.items():
        found[name] = None
        if importlib.util.find_spec(module) is not None:
            try:
                found[name] = importlib.metadata.version(distribution)
            except importlib.metadata.PackageNotFoundError:  # another distribution has the module, as onnxruntime-gpu does
                found[name] = "of unknown version"
    return found


def memory(peak: bool) -> int:
    """Return the bytes that this process holds, or the most it has held."""
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:" if peak else "VmRSS:"):
                    return int(line.split()[1]) * 1024
    except OSError:  # not Linux
        pass
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


def end_with(parent: int) -> None:
    """Have Linux kill this process when its parent dies: a stopped one would stay for ever."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:  # it died before
        os._exit(1)


def runtime_module(source: str) -> Any:
    """Import a module of `runtimes` by its file."""
    spec = importlib.util.spec_from_file_location("measured_runtime", source)
    if spec is None or spec.loader is None:
        raise ImportError(f"{source} is no Python module")
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    sys.dont_write_bytecode = False  # a runtime whose bytecode was never kept would be compiled anew in each process
    return module


class Measured:
    """A runtime that is loaded and warm.

    Args:
        task: What `versus.child` sends.
    """

    def __init__(self, task: dict[str, Any]) -> None:
        import numpy as np

        now = time.perf_counter
        with np.load(task["feeds"]) as arrays:  # numbered: the name of an input may be none of a file
            feeds = {name: arrays[f"arr_{index}"] for index, name in enumerate(task["inputs"])}
        shapes = {name: list(array.shape) for name, array in feeds.items()}
        self.baseline = memory(peak=False)
        begun = now()
        importlib.import_module(task["module"])
        runtime = runtime_module(task["source"])
        getattr(runtime, "prepare", lambda options: None)(task["options"])
        prepared, imported_bytes = now(), memory(peak=False)
        session = runtime.Session(task["model"], shapes, task["threads"], task["options"])
        loaded = now()
        self.call = session.bind(feeds)
        bound = now()
        result = self.call()
        first, started_bytes = now(), memory(peak=True)
        np.savez(task["first"], *[np.asarray(array) for array in session.outputs(result)])
        estimate = self.warm_up(task["warm_up"])
        np.savez(task["later"], *[np.asarray(array) for array in session.outputs(self.call())])
        self.batch = max(1, int(SHORTEST_SAMPLE / max(1, estimate)))
        self.ready = {
            "import_seconds": prepared - begun,
            "load_seconds": loaded - prepared,
            "first_seconds": first - bound,
            "baseline_bytes": self.baseline,
            "imported_bytes": imported_bytes,
            "started_bytes": started_bytes,
            "peak_bytes": memory(peak=True),
            "facts": session.facts(),
        }

    def warm_up(self, seconds: float) -> int:
        """Run for so long, three times at least, and return the shortest run in nanoseconds.

        A slow one runs once.
        """
        shortest, calls, total, end = sys.maxsize, 0, 0, seconds * 1e9
        begun = time.perf_counter_ns()
        while not calls or total < end or (calls < 3 and shortest < end):
            before = time.perf_counter_ns()
            self.call()
            after = time.perf_counter_ns()
            shortest, calls, total = min(shortest, after - before), calls + 1, after - begun
        return shortest

    def block(self, seconds: float) -> dict[str, Any]:
        """Time calls for so many seconds, at least one sample.

        The first calls after a pause only warm the caches.
        """
        call, batch, clock = self.call, self.batch, time.perf_counter_ns
        begun = clock()
        for _ in range(2):
            call()
            if clock() - begun > seconds * 1e9 / 4:  # what runs so long has filled its caches itself
                break
        samples: list[float] = []
        end = clock() + seconds * 1e9
        while True:
            before = clock()
            for _ in repeat(None, batch):
                call()
            after = clock()
            samples.append((after - before) / batch * 1e-9)
            if after >= end:
                break
        return {
            "median": statistics.median(samples),
            "minimum": min(samples),
            "count": len(samples) * batch,
            "peak_bytes": memory(peak=True),
        }


def main() -> None:
    """Obey the command line and then the pipe."""
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if path != folder]  # its modules are none of the runtime's business
    if sys.argv[1] == "--versions":
        if importlib.util.find_spec("numpy") is None:
            sys.exit("it has no NumPy")
        print(json.dumps(versions(json.loads(sys.argv[2]))))
        return
    orders, answers, task = open(int(sys.argv[1])), open(int(sys.argv[2]), "w"), json.loads(sys.argv[3])  # noqa: SIM115  # for life
    end_with(task["parent"])

    def say(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    try:
        measured = Measured(task)
        say(measured.ready)
        gc.collect()
        gc.disable()
        for order in orders:
            say(measured.block(json.loads(order)["seconds"]))
    except Exception as error:
        say({"error": f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]})  # one line of what may be many


if __name__ == "__main__":
    main()
