"""Which driver runs programs, and whether it can."""

from __future__ import annotations

from dovetail import BackendUnavailableError, IBackendContext

from .chips import Chip, chip_of
from .driver import IDriver
from .options import VsiNpuOptions


class VsiContext(IBackendContext):
    """A driver that is ready, for the life of a runtime.

    Args:
        chip: What is to be compiled for.
        options: Which name the driver.

    Raises:
        BackendUnavailableError: The driver is missing, the device is absent or busy, or it is
            another chip; `state` in its details says which.
    """

    def __init__(self, chip: Chip, options: VsiNpuOptions) -> None:
        self._chip, self._options = chip, options
        self._driver = self._ready()

    @property
    def driver(self) -> IDriver:
        """The driver; another one once the environment names other libraries.

        Raises:
            BackendUnavailableError: That one is not ready.
        """
        if not self._driver.is_current:
            self._driver = self._ready()
        return self._driver

    def _ready(self) -> IDriver:
        chip, driver = self._chip, driver_of(self._options)
        probe = driver.probe(chip)
        if probe.state != "ready":
            raise BackendUnavailableError(
                probe.problem,
                hint='option driver="model" computes in software what the NPU would',
                state=probe.state,
            )
        if probe.chip is not None and probe.chip != chip.target:
            found = chip_of(probe.chip)
            mine = found.name if found else f"of the unknown chip {probe.chip:#x}"
            raise BackendUnavailableError(
                f"the NPU of this machine is {mine}, and {chip.name} was asked for",
                hint="name its chip by the option device" if found else "its chip is not among those of `VsiNpu`",
                state="absent",
            )
        return driver


def driver_of(options: VsiNpuOptions) -> IDriver:
    """Return the driver that options name; nothing is opened."""
    if options.driver == "ovx":
        from .ovx.driver import OvxDriver

        return OvxDriver()
    from .model import ModelDriver

    return ModelDriver()
