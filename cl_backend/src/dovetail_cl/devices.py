"""Which devices there are, and how they are numbered."""

from __future__ import annotations

import os
import threading
from typing import Any

from dovetail import BackendUnavailableError, Device
from dovetail.ground.settings import variable

from .driver.errors import Forked
from .refusing import ID

LIBRARY = "DOVETAIL_OPENCL_LIB"
"""Environment variable: path of the OpenCL library or of one driver; empty: the system's loader."""

_ORDER = ("gpu", "accelerator", "cpu")
_found: list[dict[str, Any]] = []
_finder = 0  # the process that found them
_open: dict[int, Any] = {}
_opening = threading.Lock()


def all_facts() -> list[dict[str, Any]]:
    """Return the facts of all devices: GPUs first, CPUs last, else as the driver lists them.

    Asked once, until there are some; nothing is opened. A process that was forked later knows them
    too, and can open none.

    Raises:
        DriverError: There is no library, no platform or no device; `state` says which.
    """
    global _found, _finder
    if not _found:
        from .driver.library import list_devices, load

        load(variable(LIBRARY))
        _found, _finder = sorted(list_devices(), key=lambda facts: _ORDER.index(facts["kind"])), os.getpid()
    return _found


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
            "doubles": "cl_khr_fp64" in facts["extensions"].split(),
            "subgroups": bool(facts["subgroup_language"]),
            "shares_memory": facts["is_unified"],
            "largest_buffer": facts["max_allocation"],
        },
    )


def number_of(named: int | str) -> int | None:
    """Return the number of the device that an option names; None if it is empty.

    Args:
        named: A number, as text too, or a part of a name, in upper or lower case. Digits alone are
            a number always: names hold them, and another device than the one meant would serve.

    Raises:
        BackendUnavailableError: There is no such device.
    """
    text = str(named).strip()
    if not text:
        return None
    names = [facts["name"] for facts in all_facts()]
    is_number = text.lstrip("+-").isdecimal()
    found = [index for index, name in enumerate(names) if (text == str(index) if is_number else text.lower() in name.lower())]
    if not found:
        listed = ", ".join(f"{index}: {name}" for index, name in enumerate(names))
        raise BackendUnavailableError(
            f"no device is {named!r}", hint=f"its devices are {listed}", state="no_device", backend=ID
        )
    return found[0]


def opened(index: int) -> Any:
    """Return an open device; it stays open for the life of the process, with what was built for it.

    One that was lost is opened again: what was loaded on it before stays lost.

    Raises:
        DriverError: It cannot be opened.
    """
    facts = all_facts()[index]
    if _finder != os.getpid():
        raise Forked("its driver was opened by the process that this one was forked from")
    from .driver.device import OpenDevice

    with _opening:
        if index not in _open or _open[index].is_lost:
            _open[index] = OpenDevice(facts)
        return _open[index]
