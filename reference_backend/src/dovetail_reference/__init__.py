"""CpuRef, the reference backend: plain, exact, complete, slow.

It is the oracle that other backends are tested against.
"""

from .backend import ReferenceBackend

__all__ = ["ReferenceBackend"]
