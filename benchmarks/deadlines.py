"""Measure how late a run and a load end that have a deadline: hostile sizes of every kind of layer.

    python3 dev.py bench deadlines [--backends CpuRef CpuAcc:isa=avx2 ...] [--cases pad "reduce*"
    ...] [--elements 100000000]

Each measurement is a process of its own. It loads the network without a limit, where the longest
stretch between two looks at the time counts ("silence": how late a deadline could be at worst);
then, if that took longer, with `Limits(seconds=0.2)`. It runs with several timeouts, on memory that
nobody has touched before and again, and with an alarm whose handler raises, as Ctrl-C does. Figures
are seconds beyond the deadline, the worst of each kind; wall clock, on a machine that should be
idle.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from hostile_sizes import CASES, Case

from dovetail import DovetailError, Limits, Network, Runtime
from dovetail.ground.limits import Budget

TIMEOUT = 0.2
TIMEOUTS = (0.05, 0.1, TIMEOUT, 0.4)
MEMORY = 14 << 30
"""Bytes of address space of a child; what is touched is less, since runs end early."""
LONGEST = 60.0
"""Seconds after which a child is given up."""


class Silence:
    """The longest time between two looks at the deadline of a load."""

    def __init__(self) -> None:
        self.longest, self.last, self.where, self.looks = 0.0, time.perf_counter(), "", 0

    def look(self) -> None:
        self.looks += 1
        now = time.perf_counter()
        if now - self.last > self.longest:
            self.longest = now - self.last
            frame = sys._getframe(2)
            self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        self.last = time.perf_counter()


@contextmanager
def listening() -> Iterator[Silence]:
    """Watch when loads look at their time."""
    silence, original = Silence(), Budget.check_time

    def check_time(self: Budget) -> None:
        silence.look()
        original(self)

    Budget.check_time = check_time  # type: ignore[method-assign]
    try:
        yield silence
    finally:
        silence.look()
        Budget.check_time = original  # type: ignore[method-assign]


class Alarm(Exception):
    """What the handler raises."""


def raise_alarm(number: int, frame: Any) -> None:
    """Handle the alarm as Ctrl-C is handled."""
    raise Alarm


def late(action: Callable[[], Any], deadline: float, *ends: type[BaseException]) -> tuple[float, str]:
    """Return how many seconds after a deadline an action ended, and how."""
    begin = time.perf_counter()
    try:
        action()
        end = "done"
    except ends as error:
        end = str(getattr(error, "code", type(error).__name__))
    return max(time.perf_counter() - begin - deadline, 0.0), end


def alarmed(action: Callable[[], Any]) -> tuple[float, str]:
    """The same for an alarm after `TIMEOUT`."""
    signal.signal(signal.SIGALRM, raise_alarm)
    signal.setitimer(signal.ITIMER_REAL, TIMEOUT)
    try:
        return late(action, TIMEOUT, Alarm, DovetailError)
    except Alarm:
        return 0.0, "Alarm"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def built(case: Case, elements: int) -> tuple[Network, dict[str, np.ndarray[Any, Any]]]:
    """Make the network and arrays for its inputs."""
    net, slots, arrays = Network(), [], {}
    for name, given in case.inputs(elements).items():
        array = given if isinstance(given, np.ndarray) else np.zeros(*given)
        arrays[name] = array
        slots.append(net.input(name, array.shape, array.dtype))
    net.output(case.build(net, *slots, elements), "y")
    return net, arrays


def measure(name: str, backend: str, elements: int) -> Iterator[dict[str, Any]]:
    """Load and run one network; yields what is known so far."""
    wanted, *options = backend.split(":")
    optimize: dict[str, Any] = {"backends": [wanted]}
    if options:
        optimize["options"] = {wanted: dict(option.split("=", 1) for option in options)}
    with Runtime(threads=2) as runtime:
        warm = Network()
        warm.output(warm.tanh(warm.input("x", (4,))), "y")
        runtime.load(warm, optimize=optimize)
        found: dict[str, Any] = {"load": None, "silence": None, "late load": 0.0, "late run": 0.0, "end": ""}
        net, arrays = built(CASES[name], elements)
        begin = time.perf_counter()
        with listening() as silence:
            try:
                loaded = runtime.load(net, optimize=optimize)
            except DovetailError as error:
                loaded, found["end"] = None, str(error.code)
        found |= {"load": time.perf_counter() - begin, "silence": silence.longest, "where": silence.where}
        yield found
        if loaded is not None:
            for timeout in TIMEOUTS:
                seconds, found["end"] = late(lambda: loaded.run(arrays, timeout=timeout), timeout, DovetailError)  # noqa: B023
                found["late run"] = max(found["late run"], seconds)
            yield found
            seconds, _ = alarmed(lambda: loaded.run(arrays))
            found["late run"] = max(found["late run"], seconds)
            loaded.unload()
        if found["load"] > TIMEOUT / 2:
            net, arrays = built(CASES[name], elements)
            load = lambda limits: runtime.load(net, optimize={**optimize, "limits": limits})  # noqa: E731
            seconds, found["load end"] = late(lambda: load(Limits(seconds=TIMEOUT)), TIMEOUT, DovetailError)
            found["late load"] = seconds
            seconds, _ = alarmed(lambda: load(None))
            found["late load"] = max(found["late load"], seconds)
        yield found


def in_child(name: str, backend: str, elements: int) -> dict[str, Any]:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, "--measure", name, backend, "--elements", str(elements)]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        )
        try:
            output, _ = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
        found: dict[str, Any] = json.loads(output.splitlines()[-1]) if output else {}
        if process.returncode:
            errors.seek(0)
            found["end"] = (
                f"{'given up' if process.returncode == -9 else f'exit {process.returncode}'} {errors.read().strip()[-200:]}"
            )
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", nargs="+", default=["CpuRef", "CpuAcc"], help="an id, or ID:OPTION=VALUE")
    parser.add_argument("--cases", nargs="+", default=["*"], metavar="PATTERN")
    parser.add_argument("--elements", type=int, default=100_000_000)
    parser.add_argument("--above", type=float, default=0.0, help="print those that are later than so many seconds")
    parser.add_argument("--measure", nargs=2, metavar=("CASE", "BACKEND"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        for found in measure(*arguments.measure, arguments.elements):
            print(json.dumps(found), flush=True)
        return
    print(
        "| case | backend | load, s | silence, s | late load, s | late run, s | the run's end |\n|---|---|---|---|---|---|---|"
    )
    worst: dict[str, float] = {}
    for name in CASES:
        for backend in arguments.backends if any(fnmatch.fnmatch(name, pattern) for pattern in arguments.cases) else ():
            found = in_child(name, backend, arguments.elements)
            figures = [found.get(key) for key in ("load", "silence", "late load", "late run")]
            latest = max((figure or 0.0) for figure in figures[1:])
            for key, figure in zip(("silence", "late load", "late run"), figures[1:], strict=True):
                worst[f"{backend} {key}"] = max(worst.get(f"{backend} {key}", 0.0), figure or 0.0)
            if latest >= arguments.above or figures[0] is None or "given up" in found.get("end", ""):
                cells = " | ".join("-" if figure is None else f"{figure:.3f}" for figure in figures)
                silent = f" ({found['where']})" if found.get("silence", 0) and found["silence"] > 0.1 else ""
                print(f"| {name} | {backend} | {cells} | {found.get('end')}{silent} |", flush=True)
    for key, seconds in worst.items():
        print(f"worst {key}: {seconds:.3f} s")


if __name__ == "__main__":
    main()
