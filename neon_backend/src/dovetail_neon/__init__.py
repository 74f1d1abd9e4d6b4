"""CpuAcc: the fast CPU backend of dovetail. Public are the entry point and its options; everything else is its own."""

from .backend import NeonBackend, NeonOptions

__all__ = ["NeonBackend", "NeonOptions"]
