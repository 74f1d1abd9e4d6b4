"""VsiNpu: VeriSilicon's NPU as a backend of dovetail, with a model of it in software.

What is public is imported when it is first asked for: the child processes that open the vendor's
libraries need none of it, and start sooner.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see; what runs is the table below
    from .backend import VsiNpuBackend as VsiNpuBackend
    from .binary_file import BinaryParser as BinaryParser
    from .options import VsiNpuOptions as VsiNpuOptions

_PUBLIC = {"BinaryParser": ".binary_file", "VsiNpuBackend": ".backend", "VsiNpuOptions": ".options"}

__all__ = ["BinaryParser", "VsiNpuBackend", "VsiNpuOptions"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, getattr(import_module(_PUBLIC[name], __name__), name))


def __dir__() -> list[str]:
    return __all__
