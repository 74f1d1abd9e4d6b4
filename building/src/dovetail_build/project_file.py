"""The `pyproject.toml` of the project that is built."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any


def pyproject() -> dict[str, Any]:
    """Read the `pyproject.toml` of the project that is built; empty if it has none."""
    try:
        return tomllib.loads(Path("pyproject.toml").read_text("utf-8"))
    except FileNotFoundError:
        return {}
