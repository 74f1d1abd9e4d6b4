"""Which devices there are, and how they are numbered."""

from __future__ import annotations

import os
from typing import Any

from dovetail import Device
from dovetail.ground.settings import variable

LIBRARY = "DOVETAIL_OPENCL_LIB"
"""Environment variable: path of the OpenCL library or of one driver; empty: the system's loader."""

_ORDER = ("gpu", "accelerator", "cpu")
_found: tuple[int, list[dict[str, Any]]] | None = None
_open: dict[tuple[int, int], Any] = {}


def all_facts() -> list[dict[str, Any]]:
    """Return the facts of all devices: GPUs first, CPUs last, else as the driver lists them.

    Asked once in a process; nothing is opened.

    Raises:
        DriverError: There is no library, no platform or no device; `state` says which.
    """
    global _found
    if _found is None or _found[0] != os.getpid():
        from .driver.device import list_devices, load

        load(variable(LIBRARY))
        _found = os.getpid(), sorted(list_devices(), key=lambda facts: _ORDER.index(facts["kind"]))
    return _found[1]


def described(index: int, facts: dict[str, Any]) -> Device:
    """Return what is known of a device, as the core shows and compares it."""
    return Device(
        index,
        facts["name"],
        facts["memory"] or None,
        "cl_khr_fp16" in facts["extensions"].split(),
        facts["version"],
        {
            "platform": f"{facts['platform']}: {facts['platform_version']}",
            "driver": facts["driver"],
            "kind": facts["kind"],
            "compute_units": facts["compute_units"],
            "vector_width": facts["vector_width"],
            "subgroups": bool(facts["subgroups"]),
            "shares_memory": facts["is_unified"],
            "largest_buffer": facts["max_allocation"],
        },
    )


def opened(index: int) -> Any:
    """Return an open device; it stays open for the life of the process, with what was built for it.

    Raises:
        DriverError: It cannot be opened.
    """
    key = (os.getpid(), index)
    if key not in _open:
        from .driver.device import OpenDevice

        _open[key] = OpenDevice(all_facts()[index])
    return _open[key]
