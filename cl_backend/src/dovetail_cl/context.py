"""An opened device, for the life of a runtime."""

from __future__ import annotations

from typing import Any

from dovetail import HostResources, IBackendContext

from .devices import opened
from .programs import Programs


class ClContext(IBackendContext):
    """The device of one runtime.

    Attributes:
        fail_at: Of the commands of each queue, the one that fails late; see `GpuAccOptions`.

    Raises:
        DriverError: The device cannot be opened, or its compiler fails.
    """

    def __init__(self, index: int, resources: HostResources, options: Any) -> None:
        self._index = index
        self.fail_at = options.fail_at
        Programs(self.device, resources.artefacts).check()

    @property
    def device(self) -> Any:
        """The opened device, which runtimes share; another one once it was lost.

        Raises:
            DriverError: It cannot be opened again, or it was opened before a fork.
        """
        return opened(self._index)
