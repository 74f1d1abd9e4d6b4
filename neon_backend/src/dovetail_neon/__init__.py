"""CpuAcc: the fast CPU backend of dovetail. Public are the entry point and its options; everything else is its own."""

from .backend import CpuAccBackend, CpuAccOptions

__all__ = ["CpuAccBackend", "CpuAccOptions"]
