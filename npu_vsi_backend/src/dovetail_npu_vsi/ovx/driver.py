"""The vendor's stack as a driver: of a board, or of the simulator in an SDK.

Programs are always compiled in a child process: the vendor's compiler may abort or hang, prints as
it likes, and for the simulator the chip is chosen by the environment of the process. Binaries run
in this process on a board, so that the device reads and writes the caller's memory; with an SDK
they run in a child process each, as its libraries are found by what a process has in its
environment when it starts.
"""

from __future__ import annotations

import errno
import os
import pickle
import threading
from collections.abc import Mapping
from typing import Any
from weakref import finalize

from dovetail.ground.errors import ErrorCode

from ..chips import CHIPS, Chip
from ..driver import IDriver, IExecutable, Probe, Report
from ..errors import VsiError
from ..program import Operation, Program
from . import messages, nodes
from .binary import Head
from .children import Child
from .executables import LocalExecutable, RemoteExecutable
from .places import Places, chip_of_board

# What goes to a shader takes the vendor's compiler up to half a minute for an operation.
COMPILE_SECONDS = 1800.0
# The simulator takes 16 s for MobileNet v1.
RUN_SECONDS = 1800.0
_PROBE_SECONDS = 30.0


class OvxDriver(IDriver):
    """Compiles by ovxlib, and runs by OpenVX.

    Attributes:
        places: Where the libraries are.
    """

    name = "ovx"

    def __init__(
        self,
        places: Places | None = None,
        *,
        compile_seconds: float = COMPILE_SECONDS,
        run_seconds: float = RUN_SECONDS,
        shares_memory: bool = True,
    ) -> None:
        """Open nothing yet.

        Args:
            places: Where the libraries are; None: where the environment says.
            compile_seconds: That compiling a program may take.
            run_seconds: That loading a binary or a run may take where it is in a child process.
            shares_memory: Whether a board's device reads and writes bound memory itself where it
                can. It stays the driver's until something else is bound, or the executable closed.
        """
        self.places = Places.of_environment() if places is None else places
        self._follows_environment = places is None
        self._compile_seconds, self._run_seconds = compile_seconds, run_seconds
        self._shares_memory = shares_memory
        self._ready: Probe | None = None
        self._device: Any = None
        self._opening = threading.Lock()
        self._spare: list[tuple[Mapping[str, str], Child]] = []
        finalize(self, _close_all, self._spare)

    @property
    def is_current(self) -> bool:
        return not self._follows_environment or self.places == Places.of_environment()

    def probe(self, chip: Chip | None = None) -> Probe:
        """Say whether programs can be compiled and run.

        A board's device is looked for first, by its file. If it is there, or an SDK's simulator
        takes its place, the libraries are opened in a child process. Once ready, it stays so.

        That child process of a simulator is kept for the first binary that is loaded, if that is
        for this chip and the environment is the same then: most of what a load takes is its start.
        """
        if self._ready is not None:
            return self._ready
        if self.places.is_simulator:
            return self._probe_child(CHIPS[0] if chip is None else chip)
        state, problem = self._state_of_device()
        if state != "ready":
            return Probe(state, problem, chip_of_board(self.places))
        return self._probe_child(CHIPS[0])

    def compile(self, program: Program, chip: Chip, report: Report) -> bytes:
        report(0.0, "starting the vendor's compiler")
        child = Child(f"compiling {program.name!r}", self.places.compiling_environment(chip), self._compile_seconds)
        request = pickle.dumps((self.places, program, chip))
        binary = child.ask(messages.COMPILE, request, answer=messages.BINARY, told=report)
        child.close()
        try:
            Head.of(binary).must_fit(chip.target)
        except VsiError as error:
            raise VsiError(
                f"compiling {program.name!r}: the vendor's compiler made something else than what was asked for: "
                f"{messages.text_of(error)}",
                hint="a board compiles for its own chip alone; the simulator of the SDK compiles for all",
                code=ErrorCode.COMPILE_FAILED,
            ) from error
        report(1.0, "compiled")
        return binary

    def load(self, binary: bytes, chip: Chip) -> IExecutable:
        head = Head.of(binary)
        head.must_fit(chip.target)
        if self.places.sdk:

            def start() -> Child:
                return self._child_that_runs(chip)

            return RemoteExecutable(start, self.places, binary)
        device = self._opened()
        if device.target:
            head.must_fit(device.target)
        return LocalExecutable(device, binary, self._shares_memory)

    def refusal(self, operation: Operation, program: Program, chip: Chip) -> str:
        """Say in words what ovxlib cannot do of an operation; empty if it can do it."""
        return nodes.refusal(operation, program, chip)

    def _child_that_runs(self, chip: Chip) -> Child:
        """Return a child process for a binary: the one that the probe left, else a new one."""
        what, environment = "running a binary", self.places.environment(chip)
        while self._spare:
            try:
                kept, child = self._spare.pop()
            except IndexError:  # another thread took it
                break
            if kept == environment and child.turn_to(what, self._run_seconds):
                return child
            child.kill()
        return Child(what, environment, self._run_seconds)

    def _opened(self) -> Any:
        """Return the device of this process, opened when it is first asked for."""
        from .executable import Device
        from .library import open_openvx

        with self._opening:
            if self._device is None:
                open_openvx(self.places.openvxes)
                self._device = Device()
            return self._device

    def _state_of_device(self) -> tuple[str, str]:
        path = self.places.device
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
        except FileNotFoundError:
            return "absent", f"there is no {path}: this machine has no NPU of VeriSilicon, or its kernel module is not loaded"
        except PermissionError:
            return "absent", f"this user may not read and write {path}; let it, such as by the group that the file belongs to"
        except OSError as error:
            if error.errno == errno.EBUSY:
                return "busy", f"{path} is in use by another process"
            return "absent", f"{path} cannot be opened: {error.strerror}"
        return "ready", ""

    def _probe_child(self, chip: Chip) -> Probe:
        """Ask the libraries, in a process of their own."""
        known = None if self.places.is_simulator else chip_of_board(self.places)
        try:
            environment = self.places.environment(chip)
            child = Child("looking for the NPU", environment, _PROBE_SECONDS)
            answer = child.ask(messages.PROBE, pickle.dumps((self.places,)), answer=messages.PROBED)
            if self.places.is_simulator:
                self._spare.append((environment, child))
            else:
                child.close()
        except VsiError as error:
            state = "driver_missing" if error.code is ErrorCode.BACKEND_UNAVAILABLE else "absent"
            hint = f"; {error.hint}" if error.hint else ""
            return Probe(state, f"{messages.text_of(error)}{hint}", known)
        target, versions = pickle.loads(answer)
        # A simulator is each chip in turn.
        self._ready = Probe("ready", "", None if self.places.is_simulator else target or known, versions)
        return self._ready


def _close_all(spare: list[tuple[Mapping[str, str], Child]]) -> None:
    while spare:
        spare.pop()[1].close()
