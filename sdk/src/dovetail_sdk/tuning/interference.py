"""Whether others took CPU time while a block ran."""

from __future__ import annotations

import os

ALLOWED = 0.08
"""Part of the free CPUs that others may take before a block counts as disturbed.

Free are those that the block leaves, counted as one at least."""

# Fields of a cpu line of /proc/stat (proc(5)): all but idle and iowait; guest times are contained
# in user and nice.
_BUSY = (0, 1, 2, 5, 6, 7)


def usable_cpus() -> set[int]:
    """Return the CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def busy_seconds(stat: str, cpus: set[int]) -> float:
    """Sum from /proc/stat's text the time that these CPUs were busy or taken by the hypervisor."""
    ticks = 0
    for line in stat.splitlines():
        name, *fields = line.split() or [""]
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cpus:
            ticks += sum(int(fields[index]) for index in _BUSY)
    return ticks / os.sysconf("SC_CLK_TCK")


def busy_now() -> float | None:
    """Return `busy_seconds` of the usable CPUs, or None where the system has no /proc/stat."""
    try:
        with open("/proc/stat") as file:
            return busy_seconds(file.read(), usable_cpus())
    except OSError:
        return None


def is_disturbed(foreign: float, threads: int, cpus: int | None = None) -> bool:
    """Tell whether so much foreign work, in CPUs, disturbs a block of so many threads.

    `cpus`: how many the block may use; default those of this process.
    """
    return foreign > ALLOWED * max(1, (len(usable_cpus()) if cpus is None else cpus) - threads)
