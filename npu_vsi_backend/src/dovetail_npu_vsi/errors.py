"""What goes wrong with the NPU, its compiler and its binaries."""

from __future__ import annotations

from dovetail import BackendError

ID = "VsiNpu"


class VsiError(BackendError):
    """A driver, a compiler or a binary of the NPU failed, or does not fit."""
