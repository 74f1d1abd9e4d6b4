"""Backends without Python: a shared library with a table of C functions becomes an `IBackend`."""

from .backend import NativeBackend, load_backend

__all__ = ["NativeBackend", "load_backend"]
