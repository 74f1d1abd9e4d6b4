"""From a lowered part to a workload: compile it or find it compiled, load it, run it."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any, NoReturn
from weakref import finalize

import numpy as np
import numpy.typing as npt

from dovetail import ErrorCode, HostResources, IWorkloadFactory, Layer, Run
from dovetail.ground import progress

from .chips import Chip
from .driver import IDriver, IExecutable
from .errors import ID, VsiError
from .lowering import Lowered
from .lowering.storage import SIGN
from .program.digest import digest

Array = npt.NDArray[Any]


class VsiFactory(IWorkloadFactory):
    """Makes the workloads of one network by one driver.

    Args:
        driver: Which compiles and runs.
        resources: What it may use of the host.
    """

    def __init__(self, driver: IDriver, resources: HostResources) -> None:
        self.driver = driver
        self.resources = resources

    def create_workload(self, layer: Layer) -> NoReturn:
        raise VsiError(f"layer {layer.name!r} is in no program", code=ErrorCode.BACKEND_CONTRACT)

    def open(self, lowered: Lowered, chip: Chip) -> ProgramWorkload:
        """Compile a program, unless the store of artefacts has it, and put it on the device."""
        driver, store = self.driver, self.resources.artefacts
        key = store.key_of((digest(lowered.program), ""), driver=driver.name, chip=chip.target, **driver.probe().versions)
        binary = store.read(key)
        if binary is None:
            binary = driver.compile(lowered.program, chip, lambda fraction, what: progress.report(ID, fraction, what))
            store.write(key, binary)
        return ProgramWorkload(driver.load(binary, chip), lowered.signed_inputs, lowered.signed_outputs)

    def open_binary(self, binary: bytes, inputs: int, chip: Chip) -> ProgramWorkload:
        """Put a binary with so many inputs on the device."""
        executable = self.driver.load(binary, chip)
        return ProgramWorkload(executable, (False,) * inputs, (False,) * len(executable.outputs))


class ProgramWorkload:
    """A program as a workload: int8 is uint8 with another sign bit on the device.

    The device runs one call at a time.

    Args:
        executable: The program.
        signed_inputs, signed_outputs: Which operands are int8 in the network, and uint8 there.

    Attributes:
        private_bytes: That it holds, on the device too, as far as the driver lets know.
    """

    sees_run = True

    def __init__(self, executable: IExecutable, signed_inputs: Sequence[bool], signed_outputs: Sequence[bool]) -> None:
        self.executable = executable
        finalize(self, executable.close)  # with the plan that has the workload
        self._signed_outputs = signed_outputs
        self._staged = [
            np.empty(operand.shape, np.uint8) if is_signed else None
            for operand, is_signed in zip(executable.inputs, signed_inputs, strict=True)
        ]
        self._lock = Lock()
        self.private_bytes = executable.nbytes + sum(one.nbytes for one in self._staged if one is not None)

    def execute(self, inputs: Sequence[Array], outputs: Sequence[Array], run: Run) -> None:
        """Run the program on arrays of the part's inputs and outputs."""
        with self._lock:
            read = [_flipped(array, into) for array, into in zip(inputs, self._staged, strict=True)]
            self.executable.bind([_address(array) for array in (*read, *outputs)])
            self.executable.submit()
            self.executable.wait(run.is_cancelled)
            if run.is_profiled and not run.is_cancelled():
                self._tell(run)
        for array, is_signed in zip(outputs, self._signed_outputs, strict=True):
            if is_signed:
                stored = array.view(np.uint8)
                np.bitwise_xor(stored, SIGN, out=stored)

    def _tell(self, run: Run) -> None:
        """Have the profile know what the device took."""
        for one in self.executable.profile():
            run.worked(one.in_words, one.begin, one.begin + one.seconds)


def _flipped(array: Array, into: Array | None) -> Array:
    """Return the bytes of an array, those of int8 with their sign bit flipped."""
    if into is None:
        return array
    np.bitwise_xor(array.view(np.uint8), SIGN, out=into.reshape(array.shape))
    return into


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
