"""What else a machine did while something was measured on it, and whether the times show it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .tuning.interference import busy_seconds, is_disturbed, usable_cpus

if TYPE_CHECKING:
    from .statistics import Timing

SPREAD = 1.25
"""90th percentile, or mean, over median beyond which runs one after another count as spread.

On a quiet machine both are below 1.1."""
DRIFT = 0.1
"""By which part the medians of the first and the second half may differ."""
FEWEST = 10
"""Runs below which neither is judged."""
STOLEN = 0.01
"""Part of the CPUs' time that a hypervisor may take."""
SHORTEST = 0.5
"""Seconds below which times of CPUs are not judged: the system counts them in hundredths."""
CLOCK = 0.1
"""By which part the clocks of the CPUs may differ before and after."""


@dataclass(frozen=True)
class MachineState:
    """What the system tells of its CPUs at one moment; None where it does not.

    Attributes:
        at: When, in seconds.
        load: Load average over the last minute.
        own_seconds: CPU time of this process.
        busy_seconds: Time that the usable CPUs were busy or taken by a hypervisor, in sum.
        stolen_seconds: Time that a hypervisor took of them.
        throttled: How often the container had used up its share of the CPUs.
        clocks: Hz of each usable CPU.
    """

    at: float
    load: float | None
    own_seconds: float
    busy_seconds: float | None
    stolen_seconds: float | None
    throttled: int | None
    clocks: tuple[float, ...]

    @classmethod
    def now(cls, root: Path = Path("/"), cpus: set[int] | None = None) -> MachineState:
        """Read it from /proc and /sys below a folder, of these CPUs or all usable ones."""
        cpus = usable_cpus() if cpus is None else cpus
        stat = _text(root / "proc/stat")
        load = _text(root / "proc/loadavg").split()
        return cls(
            perf_counter(),
            float(load[0]) if load else None,
            process_time(),
            busy_seconds(stat, cpus) if stat else None,
            _stolen_seconds(stat, cpus) if stat else None,
            _throttled(_text(root / "sys/fs/cgroup/cpu.stat")),
            _clocks(root, cpus),
        )


@dataclass(frozen=True)
class Disturbance:
    """Something that makes times less worth.

    Attributes:
        what: "spread", "drift", "others", "load", "stolen", "throttled" or "clock".
        text: A sentence with what was seen.
        advice: What to do.
    """

    what: str
    text: str
    advice: str


_QUIET = "stop what else runs on this machine, and measure again"
_LONGER = "measure longer (--duration 10)"
_WARMER = "warm up longer (--warm-up) and measure longer (--duration 10), or let the machine cool down"


def disturbances(
    before: MachineState,
    after: MachineState,
    timing: Timing,
    latencies: npt.NDArray[np.float64],
    *,
    threads: int,
    requests: int = 1,
    cpus: int | None = None,
) -> list[Disturbance]:
    """Tell what disturbed a measurement, as far as it is seen; nothing for a quiet machine.

    Args:
        before: The machine when it began.
        after: The same when it had ended.
        timing: Of its runs.
        latencies: Seconds of each run, in their order.
        threads: CPU threads that runs used.
        requests: Runs at the same time. Of several the spread is not judged: they wait for each
            other.
        cpus: How many are usable; default those of this process.
    """
    cpus = len(usable_cpus()) if cpus is None else cpus
    return [*_of_times(timing, latencies, requests), *_of_machine(before, after, threads + requests - 1, cpus)]


def _of_times(timing: Timing, latencies: npt.NDArray[np.float64], requests: int) -> list[Disturbance]:
    found = []
    if timing.count < FEWEST or timing.median <= 0:
        return []
    name, high = max(("90th percentile", timing.p90), ("mean", timing.mean), key=lambda one: one[1])
    if requests == 1 and high > SPREAD * timing.median:
        times = f"the {name} is {high / timing.median:.2f} times the median"
        found.append(Disturbance("spread", f"the times of runs are spread: {times}", f"{_QUIET}; {_LONGER}"))
    first, second = (float(np.median(half)) for half in np.array_split(latencies, 2))
    if abs(second - first) > DRIFT * min(first, second):
        way = "slower" if second > first else "faster"
        change = f"their median became {max(first, second) / min(first, second):.2f} times {way} from the first half"
        found.append(Disturbance("drift", f"runs drift: {change} to the second", _WARMER))
    return found


def _of_machine(before: MachineState, after: MachineState, threads: int, cpus: int) -> list[Disturbance]:
    found = []
    wall = after.at - before.at
    told = wall >= SHORTEST and before.busy_seconds is not None and after.busy_seconds is not None
    if not told and before.load is not None and before.load > cpus:  # of a minute that may be over
        text = f"the load average was {before.load:.1f} before, on {_count(cpus, 'usable CPU')}"
        found.append(Disturbance("load", text, _QUIET))
    if wall >= SHORTEST and before.busy_seconds is not None and after.busy_seconds is not None:
        own = after.own_seconds - before.own_seconds
        others = max(after.busy_seconds - before.busy_seconds - own, 0.0) / wall
        if is_disturbed(others, min(threads, cpus), cpus):
            text = f"others took {others:.1f} of {_count(cpus, 'usable CPU')} meanwhile"
            found.append(Disturbance("others", text, _QUIET))
    if wall >= SHORTEST and before.stolen_seconds is not None and after.stolen_seconds is not None:
        stolen = (after.stolen_seconds - before.stolen_seconds) / (wall * cpus)
        if stolen > STOLEN:
            text = f"the hypervisor gave {stolen:.0%} of the CPUs' time to other machines"
            found.append(Disturbance("stolen", text, "measure on a machine of its own, or compare minima"))
    if before.throttled is not None and after.throttled is not None and after.throttled > before.throttled:
        times = _count(after.throttled - before.throttled, "time")
        text = f"the container had used up its share of the CPUs, {times}"
        found.append(Disturbance("throttled", text, "use fewer threads (--threads), or give the container more"))
    if (clock := _clock_change(before.clocks, after.clocks)) is not None:
        text = f"the clock of the CPUs went from {clock[0] / 1e9:.2f} to {clock[1] / 1e9:.2f} GHz"
        found.append(Disturbance("clock", text, f"fix the clock (cpupower frequency-set -g performance); {_WARMER}"))
    return found


def _clock_change(before: Sequence[float], after: Sequence[float]) -> tuple[float, float] | None:
    """Return the fastest clocks before and after, if they differ much; idle CPUs are slower."""
    if not before or not after:
        return None
    one, other = max(before), max(after)
    return (one, other) if abs(one - other) > CLOCK * max(one, other) else None


def _stolen_seconds(stat: str, cpus: set[int]) -> float:
    rows = (line.split() for line in stat.splitlines())
    steal = 8  # column of a cpu line, its name the first: proc(5)
    of_cpus = (row for row in rows if len(row) > steal and row[0][:3] == "cpu" and row[0][3:].isdigit())
    ticks = sum(int(row[steal]) for row in of_cpus if int(row[0][3:]) in cpus)
    return ticks / os.sysconf("SC_CLK_TCK")


def _throttled(stat: str) -> int | None:
    found: dict[str, Any] = dict(row for line in stat.splitlines() if len(row := line.split()) == 2)
    return int(found["nr_throttled"]) if "nr_throttled" in found else None


def _clocks(root: Path, cpus: set[int]) -> tuple[float, ...]:
    folder = root / "sys/devices/system/cpu"
    texts = [_text(folder / f"cpu{number}/cpufreq/scaling_cur_freq") for number in sorted(cpus)]
    if any(texts):
        return tuple(float(text) * 1e3 for text in texts if text)
    rows = [line.partition(":") for line in _text(root / "proc/cpuinfo").splitlines() if line.startswith("cpu MHz")]
    return tuple(float(value) * 1e6 for number, (_, _, value) in enumerate(rows) if number in cpus)


def _text(path: Path) -> str:
    """Return what a file of the system says, nothing where there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
