"""An opened device, for the life of a runtime."""

from __future__ import annotations

import weakref
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
        self._store, self._fast_math = resources.artefacts, options.fast_math
        self._programs: Programs | None = None
        self.fail_at = options.fail_at
        self.programs.check()

    @property
    def device(self) -> Any:
        """The opened device, which runtimes share; another one once it was lost.

        Raises:
            DriverError: It cannot be opened again, or it was opened before a fork.
        """
        return opened(self._index)

    @property
    def programs(self) -> Programs:
        """What is built for the device.

        Raises:
            DriverError: See `device`.
        """
        device = self.device
        if self._programs is None or self._programs.device is not device:
            self._programs = Programs(device, self._store, fast_math=self._fast_math)
            weakref.finalize(self, self._programs.keep)  # at the latest when the process ends
        return self._programs

    def before_unload(self, network: str) -> None:
        """Keep what its runs made the driver finish."""
        if self._programs is not None:
            self._programs.keep()
