"""What this process holds: objects, memory, open files, threads."""

from __future__ import annotations

import ctypes
import gc
import os
from functools import cache
from pathlib import Path
from typing import Any

_PROCESS = Path("/proc/self")


class _MallocState(ctypes.Structure):
    """What glibc's mallinfo2 returns (mallinfo(3))."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    ]


def usage() -> dict[str, int]:
    """Count what this process holds once garbage was collected, by name.

    "Python objects" and "allocated bytes" are counted everywhere, "bytes of memory", "open files"
    and "threads" where the system tells them by /proc.
    """
    gc.collect()
    found = {"Python objects": len(gc.get_objects()), "allocated bytes": allocated_bytes()}
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


def allocated_bytes() -> int:
    """Return how much malloc gave out that was not freed; 0 without glibc 2.33 or newer.

    A process that freed much before may lose memory for long until more of it is resident: what is
    lost fills the holes.
    """
    state = _malloc_state()
    if state is None:
        return 0
    found = state()
    return int(found.uordblks + found.hblkhd)


@cache
def _malloc_state() -> Any:
    try:
        state = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError, TypeError):
        return None
    state.argtypes, state.restype = (), _MallocState
    return state
