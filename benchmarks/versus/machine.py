"""What machine this is."""

from __future__ import annotations

import os
import platform
from typing import Any

from dovetail_sdk.tuning.interference import usable_cpus


def cpu_model() -> str:
    """Name the CPU."""
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() == "model name" and value.strip():
                    return value.strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine()


def describe() -> dict[str, Any]:
    """Return the CPU, its cores, those that may be used, and the system."""
    return {
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(usable_cpus()),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
