"""Loading and running: plans, memory, threads, profiles."""

from __future__ import annotations

from .loaded_network import LoadedNetwork
from .profile import LayerTime, Profile
from .runtime import Runtime, default_runtime

__all__ = ["LayerTime", "LoadedNetwork", "Profile", "Runtime", "default_runtime"]
