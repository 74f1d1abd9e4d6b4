"""CpuAcc: the fast CPU backend of dovetail.

Only the entry point and its options are public.
"""

from .backend import CpuAccBackend, CpuAccOptions

__all__ = ["CpuAccBackend", "CpuAccOptions"]
