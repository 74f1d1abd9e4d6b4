"""What this process holds: objects, memory, open files, threads."""

from __future__ import annotations

import gc
import os
from pathlib import Path

_PROCESS = Path("/proc/self")


def usage() -> dict[str, int]:
    """Count what this process holds once garbage was collected, by name.

    "Python objects" are counted everywhere, "bytes of memory", "open files" and "threads" where the
    system tells them by /proc.
    """
    gc.collect()
    found = {"Python objects": len(gc.get_objects())}
    if _PROCESS.exists():
        found["bytes of memory"] = resident_bytes()
        found["open files"] = len(os.listdir(_PROCESS / "fd"))
        found["threads"] = len(os.listdir(_PROCESS / "task"))
    return found


def resident_bytes() -> int:
    """Return how much of this process is in memory, in bytes; 0 where the system does not tell."""
    try:
        return int((_PROCESS / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
