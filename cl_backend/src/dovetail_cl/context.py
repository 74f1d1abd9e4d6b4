"""An opened device, for the life of a runtime."""

from __future__ import annotations

from typing import Any

from dovetail import HostResources, IBackendContext

from .devices import opened
from .programs import Programs


class ClContext(IBackendContext):
    """The device of one runtime.

    Attributes:
        device: The opened device; runtimes share it.
        fail_at: Of the commands of each queue, the one that fails late; see `GpuAccOptions`.

    Raises:
        DriverError: The device cannot be opened, or its compiler fails.
    """

    def __init__(self, index: int, resources: HostResources, options: Any) -> None:
        self.device = opened(index)
        self.fail_at = options.fail_at
        Programs(self.device, resources.artefacts).check()
