"""The machine's float32 peak, measured by a small C program that is compiled on the spot.

Nothing is carried ready-made: the fastest instructions differ from machine to machine, and one
checkout serves all of them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from dovetail import DovetailError, ErrorCode

SOURCE = Path(__file__).with_name("peak.c")
# clang on Arm knows -mcpu=native only; the last resort is what the compiler takes for granted.
TARGETS: tuple[list[str], ...] = (["-march=native"], ["-mcpu=native"], [])


class PeakError(DovetailError):
    """The peak cannot be measured here; everything else can."""

    default_code = ErrorCode.STEP_FAILED


class PeakMeter:
    """The compiled program.

    Args:
        folder: Where to compile it to; it has to outlive this.

    Raises:
        PeakError: There is no C compiler, or it does not compile.
    """

    def __init__(self, folder: Path) -> None:
        self._program = folder / "peak"
        compiler = _compiler()
        problem = ""
        for target in TARGETS:
            command = [*compiler, "-O3", *target, "-ffp-contract=fast", "-pthread", str(SOURCE), "-o", str(self._program)]
            try:
                made = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
            except (OSError, subprocess.TimeoutExpired) as error:
                problem = str(error)
                continue
            if made.returncode == 0:
                return
            problem = next(iter(made.stderr.strip().splitlines()), f"status {made.returncode}")
        raise PeakError(f"{shlex.join(compiler)} does not compile {SOURCE.name}: {problem}")

    def measure(self, threads: int) -> float:
        """Return the multiply-accumulates per second that so many threads can do at best.

        Raises:
            PeakError: The program does not run.
        """
        try:
            told = subprocess.run([str(self._program), str(threads)], capture_output=True, text=True, timeout=30, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            raise PeakError(f"the peak could not be measured: {error}") from error
        return float(told.stdout)


def _compiler() -> list[str]:
    named = shlex.split(os.environ.get("CC", ""))
    for candidate in [named] if named else [["cc"], ["gcc"], ["clang"]]:
        if shutil.which(candidate[0]):
            return candidate
    raise PeakError(
        f"no C compiler ({named[0] if named else 'cc, gcc, clang'}) is on PATH", hint="install one, or name yours in CC"
    )
