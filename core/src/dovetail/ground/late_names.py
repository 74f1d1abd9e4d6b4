"""Names of a package that import their modules when they are first asked for.

A package lists them by module, once for type checkers and once for the program::

    _MODULES = {"elementwise": ("Cast", "Where"), "matrix": ("MatMul",)}

    if TYPE_CHECKING:
        from .elementwise import Cast as Cast, Where as Where
        from .matrix import MatMul as MatMul
    else:
        __getattr__, __dir__ = late_names(__name__, _MODULES)

So a process pays for the modules alone whose names it uses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def late_names(package: str, modules: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package whose names lie in these modules of it."""
    homes = {name: module for module, names in modules.items() for name in names}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f".{homes[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return find, names
