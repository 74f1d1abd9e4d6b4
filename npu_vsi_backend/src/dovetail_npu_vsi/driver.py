"""The seam between the backend and whatever compiles and runs programs.

Everything above it knows no driver. `model` is one in software, `ovx` drives the vendor's
libraries: those of a board, or those of the vendor's simulator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .chips import Chip

if TYPE_CHECKING:  # the child processes of a driver need no NumPy, and start in half the time
    from .program import Operation, Program

Report = Callable[[float, str], None]
"""Told how far compiling is: a fraction, and what is done; what it raises ends compiling."""


@dataclass(frozen=True)
class Probe:
    """What a driver says of itself and of the device.

    Attributes:
        state: "ready", "driver_missing", "absent" or "busy".
        problem: Why it is not ready, and what to do; empty if it is.
        chip: Target id of the device, such as 0x9f; None where it is not known.
        versions: Of the libraries, by name: they decide what is compiled.
    """

    state: str
    problem: str = ""
    chip: int | None = None
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Operand:
    """An input or output of an executable: what the driver reads or writes at a bound address.

    Attributes:
        shape: Sizes, outermost first.
        dtype: NumPy's name of the element type.
        scale: Of the elements; None where the binary does not say.
        zero_point: Of the elements.
    """

    shape: tuple[int, ...]
    dtype: str
    scale: float | None = None
    zero_point: int = 0


@dataclass(frozen=True)
class OperationTime:
    """What one operation took in the last run, or all of them together, as it was measured.

    Attributes:
        name: Of the operation, as the driver knows it; empty: of the whole program.
        engine: That ran it: "NN", "TP" or "SH"; empty: several, or not known.
        seconds: That it took.
        source: Where that is from, in words.
        begin: When it began, in seconds on the clock of `time.monotonic`.
    """

    name: str
    engine: str
    seconds: float
    source: str
    begin: float

    @property
    def in_words(self) -> str:
        """What took the time, and who says so."""
        what = f"{self.name or 'program'} on {self.engine}" if self.engine else self.name or "program"
        return f"{what}, {self.source}"


class IExecutable(ABC):
    """A compiled program on a device. One call at a time."""

    inputs: Sequence[Operand]
    outputs: Sequence[Operand]

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes that it holds besides what is bound: the program, its weights and its memories."""

    @abstractmethod
    def bind(self, addresses: Sequence[int]) -> None:
        """Set the addresses of all inputs, then of all outputs, for the runs that follow."""

    @abstractmethod
    def submit(self) -> None:
        """Start a run on what is bound."""

    @abstractmethod
    def wait(self, is_cancelled: Callable[[], bool]) -> None:
        """Return when the run has ended.

        Args:
            is_cancelled: To be asked every few milliseconds, where the driver can; once it returns
                True the run should end, and outputs need not be filled in.

        Raises:
            VsiError: The device reported a failure.
        """

    def profile(self) -> Sequence[OperationTime]:
        """(optional) Return what the last run took. Default: nothing is known.

        It is asked after a run that ended well, where the run is profiled. Estimates are no times
        of a run: placement reports have them.
        """
        return ()

    @abstractmethod
    def close(self) -> None:
        """Free what it holds on the device; harmless when called again."""


class IDriver(ABC):
    """Compiles programs for a chip, and runs what was compiled."""

    name: str

    @property
    def is_current(self) -> bool:
        """(optional) Whether it is still the one that the environment names. Default: yes."""
        return True

    @abstractmethod
    def probe(self, chip: Chip | None = None) -> Probe:
        """Say whether programs can be compiled and run, without opening the device where it can.

        Args:
            chip: What they are for, where that is known: what is started to find out may then serve
                the first of them.
        """

    def refusal(self, operation: Operation, program: Program, chip: Chip) -> str:
        """(optional) Say in words what the compiler cannot do of an operation. Default: nothing."""
        return ""

    @abstractmethod
    def compile(self, program: Program, chip: Chip, report: Report) -> bytes:
        """Return a binary of a program.

        Raises:
            VsiError: The compiler refused the program, or failed.
        """

    @abstractmethod
    def load(self, binary: bytes, chip: Chip) -> IExecutable:
        """Put a binary on the device.

        Raises:
            VsiError: The binary is damaged, or was made for another chip; it was not handed to the
                device then.
        """
