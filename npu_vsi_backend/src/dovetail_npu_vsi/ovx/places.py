"""Where the vendor's libraries are, and what they need to find in the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass

from dovetail.ground.settings import variable

from ..chips import Chip

SDK = "DOVETAIL_VSI_SDK"
"""Environment variable: folder of VeriSilicon's SDK, with `lib` in it."""

OVXLIB = "DOVETAIL_VSI_OVXLIB"
"""Environment variable: file of the library that compiles."""

OPENVX = "DOVETAIL_VSI_OPENVX"
"""Environment variable: file of the library that runs."""

_OVXLIB = ("libovxlib.so", "libovxlib.so.1", "libtim-vx.so")
_OPENVX = ("libOpenVX.so.1", "libOpenVX.so")
_EMULATOR = "libEmulator.so"

# Without it the simulator sets 4 GB aside; in MiB.
_SIMULATOR_MEMORY = "256"

_PROFILE = "VIV_VX_PROFILE"
"""Has the driver write a file for each process, into its working directory."""

_TRANSFORM = "VIV_VX_ENABLE_GRAPH_TRANSFORM"
_TRANSFORMS = "-fusedPad:0-convdataconvert:0-multidc:0-avgPool1x1conv:0"
"""What the driver must not do to graphs, as its variable has it.

Measured with the driver beside ovxlib 1.2.30: a border before a window that has padding of its own,
or before a max pooling, takes the place of the padding, or is lost; a conversion behind a
convolution, or behind another conversion, becomes one with it, so that nothing saturates between;
an average before a kernel of one pixel becomes one with it, so that it is not rounded, and is lost
where it is read elsewhere too.
"""


@dataclass(frozen=True)
class Places:
    """Where things are; an empty text leaves the choice to the system.

    Attributes:
        sdk: Folder of an SDK.
        ovxlib, openvx: Files of libraries, before those of the SDK.
        device: What the kernel's driver is opened by.
        device_tree: Names of the board, each ended by a zero.
    """

    sdk: str = ""
    ovxlib: str = ""
    openvx: str = ""
    device: str = "/dev/galcore"
    device_tree: str = "/proc/device-tree/compatible"

    @classmethod
    def of_environment(cls) -> Places:
        """Return what the environment says."""
        return cls(sdk=variable(SDK), ovxlib=variable(OVXLIB), openvx=variable(OPENVX))

    @property
    def is_simulator(self) -> bool:
        """True if the SDK has the simulator of the device."""
        return bool(self.sdk) and os.path.isfile(os.path.join(self.sdk, "lib", _EMULATOR))

    @property
    def ovxlibs(self) -> tuple[str, ...]:
        """Libraries that compile, the first that can be opened is taken."""
        return self._names(self.ovxlib, _OVXLIB)

    @property
    def openvxes(self) -> tuple[str, ...]:
        """Libraries that run, the first that can be opened is taken."""
        return self._names(self.openvx, _OPENVX)

    def _names(self, file: str, names: tuple[str, ...]) -> tuple[str, ...]:
        if file:
            return (file,)
        if not self.sdk:
            return names
        found = [os.path.join(self.sdk, "lib", name) for name in names]
        # If none is there, the error says so of the first.
        return tuple(path for path in found if os.path.exists(path)) or (found[0],)

    def environment(self, chip: Chip) -> dict[str, str]:
        """Return the environment for a process that opens the libraries.

        Those of an SDK find each other by `LD_LIBRARY_PATH` alone, which is read when a process
        starts; the simulator reads which chip it is. What the user has set stays, but for the chip.
        """
        made = dict(os.environ)
        if not self.sdk:
            return made
        folders = [os.path.join(self.sdk, "lib"), *filter(None, [made.get("LD_LIBRARY_PATH", "")])]
        made["LD_LIBRARY_PATH"] = os.pathsep.join(folders)
        made.setdefault("VIVANTE_SDK_DIR", self.sdk)
        if self.is_simulator:
            made["VSIMULATOR_CONFIG"] = chip.simulator
            made.setdefault("VSIMULATOR_CONTIGUOUS_SIZE", _SIMULATOR_MEMORY)
        return made

    def compiling_environment(self, chip: Chip) -> dict[str, str]:
        """Return the environment for a process that compiles: it writes no profile of a run."""
        made = {_TRANSFORM: _TRANSFORMS, **self.environment(chip)}
        made.pop(_PROFILE, None)
        return made


# What stands in a board's device tree, beside the names of the board itself.
_BOARDS = {"fsl,imx8mp": 0x9F, "amlogic,a311d": 0x88}


def chip_of_board(places: Places) -> int | None:
    """Return the target id of the board's chip by its device tree; None if it is not known."""
    try:
        with open(places.device_tree, "rb") as file:
            names = file.read(4096).split(b"\0")
    except OSError:
        return None
    return next((_BOARDS[name.decode("latin-1")] for name in names if name.decode("latin-1") in _BOARDS), None)
