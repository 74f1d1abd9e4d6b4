"""Build a backend, whether its kernels are Python, Cython, or C++ behind the C table.

`pyproject.toml` names this package as its build backend, and says in ``[tool.dovetail.backend]``
what the backend is (`hook.py`). A build that needs more has a `setup.py` with one call::

    from dovetail_build import setup_backend

    setup_backend("dovetail_acme")

Which versions of the core a binary runs on follows from the headers that it was built with, so the
build writes them into the wheel's requirements, and the ABI into the wheel's manifest:
``dynamic = ["dependencies"]`` in `pyproject.toml`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from setuptools.build_meta import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

if TYPE_CHECKING:
    from .cython_modules import C_SEMANTICS as C_SEMANTICS
    from .cython_modules import COMPILE_ARGUMENTS as COMPILE_ARGUMENTS
    from .cython_modules import PYTHON_SEMANTICS as PYTHON_SEMANTICS
    from .cython_modules import extensions as extensions
    from .project import setup_backend as setup_backend

__all__ = [
    "COMPILE_ARGUMENTS",
    "C_SEMANTICS",
    "PYTHON_SEMANTICS",
    "build_editable",
    "build_sdist",
    "build_wheel",
    "extensions",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
    "setup_backend",
]

_HOME = {
    "COMPILE_ARGUMENTS": "cython_modules",
    "C_SEMANTICS": "cython_modules",
    "PYTHON_SEMANTICS": "cython_modules",
    "extensions": "cython_modules",
    "setup_backend": "project",
}


def __getattr__(name: str) -> Any:
    """Import what needs the core on first use: setuptools imports this package for others too."""
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
