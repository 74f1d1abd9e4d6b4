"""How processes end, in words."""

from __future__ import annotations

import os
import signal

from ..ground.records import NamedTuple

_SHOWN_LINES = 8
_FATAL = "Fatal Python error"  # with which faulthandler begins


class Ending(NamedTuple):
    """How a process ended.

    Attributes:
        text: In words, as in "was ended by SIGABRT".
        output: The last lines that it wrote.
        signal: The signal that ended it, or 0.
    """

    text: str
    output: str
    signal: int = 0

    @property
    def shown_output(self) -> str:
        """The last lines, for a message; empty if it wrote nothing."""
        lines = [line for line in self.output.splitlines() if line.strip() and "<frozen" not in line]
        end = max((number for number, line in enumerate(lines) if line.startswith(_FATAL)), default=len(lines))
        shown = lines[max(end - _SHOWN_LINES, 0) : end + _SHOWN_LINES]  # what the driver said, and where it was
        return "; its last lines:\n  " + "\n  ".join(shown) if shown else ""


def ending_of_status(status: int, output: str) -> Ending:
    """Return an ending of a status as `os.waitpid` gives it."""
    return ending_of_code(os.waitstatus_to_exitcode(status) if 0 <= status < 1 << 16 else 255, output)


def ending_of_code(code: int, output: str) -> Ending:
    """Return an ending of an exit code, or of a signal below 0."""
    if code >= 0:
        return Ending(f"ended itself with exit code {code}", output)
    known = {int(one): one.name for one in signal.Signals}
    return Ending(f"was ended by {known.get(-code, f'signal {-code}')}", output, -code)
