"""Where the core's headers lie, and which ABI they declare."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
"""The package of the core; Cython finds its declarations there."""
_MACRO = re.compile(r"^#define DOVETAIL_ABI_(MAJOR|MINOR) (\d+)$", re.MULTILINE)


def get_include() -> str:
    """Return the folder that holds `abi.h`."""
    return str(PACKAGE / "include")


def headers() -> list[str]:
    """List the core's headers and Cython declarations, on which every binary of a backend depends."""
    return [str(path) for pattern in ("include/*.h", "*.pxd") for path in sorted(PACKAGE.glob(pattern))]


def header_abi() -> tuple[int, int]:
    """Return major and minor of the ABI that a binary speaks which is built with these headers."""
    found = dict(_MACRO.findall(Path(get_include(), "abi.h").read_text("utf-8")))
    return int(found["MAJOR"]), int(found["MINOR"])
