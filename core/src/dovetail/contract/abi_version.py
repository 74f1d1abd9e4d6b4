"""The version of the kernel protocol that this core speaks.

A test keeps it equal to the macros of `abi.h`.
"""

from __future__ import annotations

import os

ABI_VERSION = (0, 2)
"""Major and minor. Majors must match; a backend's minor must not be newer than the core's."""

FIRST_CORE = "0.1"
"""First version of the core that speaks this ABI.

Whoever raises the ABI writes here the core version that it comes with.
"""


def get_include() -> str:
    """Return the folder that holds `abi.h`."""
    return os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "include")


def core_requirement() -> str:
    """Return the requirement of a wheel that was built with this core's headers.

    A core refuses a newer minor, and may drop an ABI in its next major; while that is 0, in its
    next minor.
    """
    major, minor = map(int, FIRST_CORE.split("."))
    end = f"{major}.{minor + 1}" if major == 0 else f"{major + 1}"
    return f"dovetail-core>={FIRST_CORE},<{end}"


def abi_refusal(theirs: tuple[int, int]) -> str:
    """Say why a backend built for this version cannot be used; empty if it can."""
    major, minor = ABI_VERSION
    if theirs[0] == major and theirs[1] <= minor:
        return ""
    return f"built for kernel ABI {theirs[0]}.{theirs[1]}; this core speaks ABI {major}.{minor}"
