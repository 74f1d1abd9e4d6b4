"""The parent's end of a child process with one runtime: started, stopped outside its turns.

It is never waited for without end.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from dovetail import ErrorCode, RunError

from . import worker


class ChildError(RunError):
    """A child process crashed, hung, or reported an error; the others go on."""


class Child:
    """A process with one runtime, loaded, warm, and stopped but during its own blocks.

    Args:
        name: Who it is, for errors.
        python: Interpreter to start.
        task: What `worker.Measured` wants, but for `parent`.
        patience: Seconds within which it has to answer.

    Raises:
        ChildError: It could not load or run its model, died, or did not answer.

    Attributes:
        ready: What it told when it was ready.
    """

    def __init__(self, name: str, python: str, task: Mapping[str, Any], patience: float) -> None:
        self.name, self.patience = name, patience
        self._told = b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # `end` closes it
        reading, orders = os.pipe()
        answers, writing = os.pipe()
        arguments = [python, worker.__file__, str(reading), str(writing), json.dumps({**task, "parent": os.getpid()})]
        try:
            self._process = subprocess.Popen(
                arguments,
                pass_fds=(reading, writing),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                start_new_session=True,  # Ctrl-C is the parent's business; and the group is stopped as one
            )
        except OSError as error:
            for end in (orders, answers):
                os.close(end)
            raise ChildError(f"{name} could not be started: {error}") from error
        finally:
            for end in (reading, writing):
                os.close(end)
        self._orders, self._answers = orders, answers
        self.ready: dict[str, Any] = {}
        try:
            self.ready = self._answer("it loaded and warmed up")
        except BaseException:
            self.end()
            raise
        self._signal(signal.SIGSTOP)

    def block(self, seconds: float) -> dict[str, Any]:
        """Let it run for a block of so many seconds, and stop it again.

        Raises:
            ChildError: As for the class; the process is ended.
        """
        self._signal(signal.SIGCONT)
        try:
            os.write(self._orders, json.dumps({"seconds": seconds}).encode() + b"\n")
            answer = self._answer("it was timed")
        except BrokenPipeError:
            raise self._death("it was timed") from None
        finally:
            self._signal(signal.SIGSTOP)
        return answer

    def cpu_seconds(self) -> float:
        """Return the CPU time of all its threads, in the kernel's ticks; 0 where it is not told."""
        try:
            with open(f"/proc/{self._process.pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        """Kill it, stopped or not, and close what belongs to it; may be called twice."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        if not self._errors.closed:
            self._errors.close()
            os.close(self._orders)
            os.close(self._answers)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:  # it died meanwhile: whoever waits for its answer will see
                return

    def _answer(self, doing: str) -> dict[str, Any]:
        deadline = time.monotonic() + self.patience
        while b"\n" not in self._told:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise ChildError(
                    f"{self.name} hung: no answer within {self.patience:g} s while {doing}",
                    code=ErrorCode.TIMEOUT,
                    hint="a slow network wants a longer --timeout",
                )
            part = os.read(self._answers, 1 << 16)
            if not part:
                raise self._death(doing)
            self._told += part
        line, _, self._told = self._told.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ChildError(f"{self.name} failed while {doing}: {answer['error']}")
        return answer

    def _death(self, doing: str) -> ChildError:
        status = self._process.wait()
        how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return ChildError(f"{self.name} crashed: it ended {how} while {doing}", hint=lines[-1] if lines else None)
