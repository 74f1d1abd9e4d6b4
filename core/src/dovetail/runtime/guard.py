"""How a runtime watches what kernels touch: to find a kernel that reads or writes past an end."""

from __future__ import annotations

from dataclasses import dataclass

from ..ground.errors import ErrorCode, OptionError


@dataclass(frozen=True, slots=True)
class Guard:
    """Isolate each tensor, constant and workspace in host memory between inaccessible pages.

    No tensor shares bytes with another; before a run all of them hold `fill`; a tensor that was
    written is read-only until the run ends, as inputs and constants are throughout. A kernel that
    reads or writes past an end, or writes to what it may only read, ends the process by SIGSEGV,
    after a sentence on standard error that names layer and tensor. A kernel that reads what nobody
    wrote gives other results with another `fill`.

    Beyond its reach: memory that a backend allocates for itself, such as packed weights, and memory
    of devices. A guarded network is slow, and each tensor takes three of the mappings that a
    process may have.

    Attributes:
        side: Which end of a tensor touches an inaccessible page: "end", or "start". Both are worth
            a run.
        fill: The byte that memory holds which nobody has written.
    """

    side: str = "end"
    fill: int = 0xA5

    def __post_init__(self) -> None:
        if self.side not in ("end", "start"):
            raise OptionError(f"guard side {self.side!r} is unknown", code=ErrorCode.OPTION_INVALID, hint="'end' or 'start'")
        if not isinstance(self.fill, int) or not 0 <= self.fill <= 255:
            raise OptionError(f"guard fill {self.fill!r} is no byte", code=ErrorCode.OPTION_INVALID, hint="0 to 255")
