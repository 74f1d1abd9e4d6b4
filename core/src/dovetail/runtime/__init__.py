"""Loading and running: plans, memory, threads, profiles.

What watches runs is imported when it is first asked for: few programs do.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .loaded_network import LoadedNetwork
from .runtime import Runtime, default_runtime

if TYPE_CHECKING:
    from .guard import Guard
    from .profile import LayerTime, Profile
    from .profiled_run import ProfiledRun, Span, Work

__all__ = ["Guard", "LayerTime", "LoadedNetwork", "Profile", "ProfiledRun", "Runtime", "Span", "Work", "default_runtime"]

_LATER = {
    "Guard": "guard",
    "LayerTime": "profile",
    "Profile": "profile",
    "ProfiledRun": "profiled_run",
    "Span": "profiled_run",
    "Work": "profiled_run",
}

if not TYPE_CHECKING:  # a visible __getattr__ would make every misspelt name acceptable to type checkers

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f".{_LATER[name]}", __name__), name)
        return value
