"""An opened device, for the life of a runtime."""

from __future__ import annotations

from typing import Any

from dovetail import HostResources, IBackendContext

from .devices import opened


class ClContext(IBackendContext):
    """The device of one runtime.

    Attributes:
        device: The opened device; runtimes share it.
    """

    def __init__(self, index: int, resources: HostResources, options: Any) -> None:
        self.device = opened(index)
        self.device.fail_at = options.fail_at
