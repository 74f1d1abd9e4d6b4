"""What goes wrong in a driver."""

from __future__ import annotations


class DriverError(Exception):
    """The driver refuses; the text says what.

    Attributes:
        state: A `BackendState` of the core.
        hint: The next step.
    """

    state = "broken"
    hint = "see whether clinfo can use the device; then install its driver again"


class DriverMissing(DriverError):
    """There is no OpenCL library."""

    state = "driver_missing"
    hint = "install an OpenCL library, on Debian ocl-icd-libopencl1, or name yours in DOVETAIL_OPENCL_LIB"


class NoPlatform(DriverError):
    """There is a library, and no driver behind it."""

    state = "driver_missing"
    hint = "install the OpenCL driver of your device, or PoCL for the CPU; clinfo lists what there is"


class Forked(DriverError):
    """The driver was opened by the process that this one was forked from."""

    hint = "start processes by 'spawn', or use the backend in the child alone: no driver survives fork()"


class NoDevice(DriverError):
    """There are drivers, and none has a device."""

    state = "no_device"
    hint = "see what clinfo lists, and whether this user may open the device; PoCL makes one of the CPU"


class ClError(DriverError):
    """A function of OpenCL failed.

    Attributes:
        code, name: Of the error, such as -5 and "CL_OUT_OF_RESOURCES".
    """

    def __init__(self, what: str, code: int, name: str) -> None:
        super().__init__(f"{what}: {name} ({code})")
        self.code = code
        self.name = name


class BuildError(ClError):
    """The device's compiler refused a program.

    Attributes:
        log: What it said.
    """

    hint = "install the driver again, with what its compiler needs; the text above has the compiler's log"

    def __init__(self, what: str, code: int, name: str, log: str) -> None:
        super().__init__(what, code, name)
        self.log = log

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.log}" if self.log else super().__str__()
