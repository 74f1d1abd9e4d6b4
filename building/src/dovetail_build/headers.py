"""The core's headers, on which every binary of a backend depends."""

from __future__ import annotations

from pathlib import Path

from dovetail.contract.abi_version import get_include

PACKAGE = Path(get_include()).parent
"""The package of the core; Cython finds its declarations there."""


def headers() -> list[str]:
    """List the core's headers and Cython declarations."""
    return [str(path) for pattern in ("include/*.h", "*.pxd") for path in sorted(PACKAGE.glob(pattern))]
