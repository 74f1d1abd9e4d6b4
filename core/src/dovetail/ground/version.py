"""The version of the core that runs."""

from __future__ import annotations


def core_version() -> str:
    """Return the version of the installed distribution."""
    from importlib_metadata import PackageNotFoundError, version

    try:
        return version("dovetail-core")
    except PackageNotFoundError:  # a source tree that was put on sys.path without being installed
        return "0+unknown"
