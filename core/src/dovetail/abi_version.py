"""The version of the kernel protocol that this core speaks; a test keeps it equal to the macros of `abi.h`."""

from __future__ import annotations

ABI_VERSION = (0, 2)
"""Major and minor. Majors must match; a backend's minor must not be newer than the core's."""


def abi_refusal(theirs: tuple[int, int]) -> str:
    """Say why a backend built for this version cannot be used, or return an empty string if it can."""
    major, minor = ABI_VERSION
    if theirs[0] == major and theirs[1] <= minor:
        return ""
    return f"built for kernel ABI {theirs[0]}.{theirs[1]}; this core speaks ABI {major}.{minor}"
