"""Loading and running: plans, memory, threads, profiles."""

from __future__ import annotations

from .guard import Guard
from .loaded_network import LoadedNetwork
from .profile import LayerTime, Profile
from .runtime import Runtime, default_runtime

__all__ = ["Guard", "LayerTime", "LoadedNetwork", "Profile", "Runtime", "default_runtime"]
