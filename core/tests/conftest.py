"""Libraries with a backend table, compiled from the sources in `native`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dovetail import get_include

sys.path.insert(0, str(Path(__file__).parent))  # pytest's importlib mode leaves it out

from fakes.fixtures import make_site, site  # noqa: F401  # fixtures
from fakes.isolated_cases import children  # noqa: F401  # fixtures

Build = Callable[..., Path]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Return a function that compiles a source in `native` to a library, once per name."""
    folder = tmp_path_factory.mktemp("tables")
    sources = Path(__file__).parent / "native"

    def build_library(source: str, name: str = "", *flags: str) -> Path:
        target = folder / f"lib{name or Path(source).stem}.so"
        if not target.exists():
            command = ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{get_include()}"]
            subprocess.run([*command, str(sources / source), *flags, "-o", str(target)], check=True)
        return target

    return build_library
