"""Backends in plain shared libraries, without Python: the core makes an `IBackend` of the C table that such a library exports.

`load_backend` is the one thing to call; the registry calls it for a manifest that names a `library`.
"""

from .backend import NativeBackend, load_backend

__all__ = ["NativeBackend", "load_backend"]
