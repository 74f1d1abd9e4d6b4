"""Try a backend in a child process.

So a crash, a hang or an exit ends the child and not the program that asked.

The child is a new interpreter, never a fork: a fork would carry over threads and locks that native
code then waits for.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

from ..ground.records import Record, field
from ..ground.settings import PROBE, probe_memory, probe_timeout
from .candidates import Candidate
from .content import Files
from .reasons import ReasonCode, Refused

_START_SECONDS = 60.0  # for the interpreter and the core, before the backend's own time begins
_GRACE_SECONDS = 2.0  # for the child to write where it hangs
_EXIT_SECONDS = 5.0
_KEPT = {"reply": 1 << 20, "stdout": 64 << 10, "stderr": 64 << 10}  # bytes, the last ones
_TICK_SECONDS = 0.02

# The path is set before anything of the core is imported; faulthandler writes to the standard error
# that is captured.
READY = "ready"
RESULT = "result"
"""Stages of the child's messages, each a line of JSON."""

_BOOTSTRAP = "import sys; sys.path[:] = {path!r}; from dovetail.loading.probe_child import main; main({request}, {reply})"


class ProbeError(Exception):
    """No child could be started, so nothing is known of the backend; the text says why."""


class ChildError(Exception):
    """What a backend raised in the child process.

    It is the traceback as text, chained to the error that the caller gets.
    """


class Outcome(Record):
    """What a child told, or how it ended.

    Attributes:
        refusal: Why the backend must not be loaded, or None.
        unavailable: State, text and hint if the backend itself says that it cannot be used now.
        notes: What was seen: the self-test, side effects, output.
        drivers: Libraries outside the backend that it loaded.
        signal: The signal that ended the child, or 0.
        trace: Where it was.
        is_lasting: True if the outcome need not be found again until something changes.
        seconds: How long it took.
    """

    refusal: Refused | None = None
    unavailable: tuple[str, str, str] | None = None
    notes: list[str] = field(default_factory=list)
    drivers: list[tuple[str, int, int]] = field(default_factory=list)
    signal: int = 0
    trace: str = ""
    is_lasting: bool = False
    seconds: float = 0.0


def probe(candidate: Candidate, files: Files) -> Outcome:
    """Try a candidate.

    Raises:
        ProbeError: No child process could be started, or it did not get as far as the backend.
    """
    begun = time.monotonic()
    child = _Child(candidate, files.folders, probe_timeout())
    child.watch()
    outcome = _outcome(child)
    outcome.seconds = time.monotonic() - begun
    return outcome


class _Child:
    """A child process and what it says. Used from one thread.

    Attributes:
        is_ready: It is about to touch the backend.
        is_overdue: Its time was over before it ended.
        result: What it told when it was done, or None.
        how: How it ended, see `os.waitid`; None if it was overdue.
    """

    def __init__(self, candidate: Candidate, folders: Sequence[str], timeout: float) -> None:
        if not sys.executable or getattr(sys, "frozen", False):
            raise ProbeError("this program has no Python interpreter of its own to start")
        if not hasattr(os, "waitid"):
            raise ProbeError("this system does not tell how a child process ended")
        self.timeout = timeout
        self.is_ready = False
        self.is_overdue = False
        self.result: Mapping[str, Any] | None = None
        self.how: os.waitid_result | None = None
        self._nonce = secrets.token_hex(16)
        self._output = {"reply": b"", "stdout": b"", "stderr": b""}
        path = [os.path.abspath(entry) for entry in sys.path if isinstance(entry, str)]
        request = {
            "nonce": self._nonce,
            "path": path,
            "candidate": candidate.as_json(),
            "timeout": timeout,
            "memory": probe_memory(),
            "folders": list(folders),
        }
        self._reply, reply_end = os.pipe()
        try:
            with _anonymous_file() as file:
                file.write(json.dumps(request).encode())
                file.seek(0)
                text = _BOOTSTRAP.format(path=path, request=file.fileno(), reply=reply_end)
                self._process = subprocess.Popen(
                    [sys.executable, *interpreter_flags(), "-X", "faulthandler", "-c", text],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    pass_fds=(file.fileno(), reply_end),
                    start_new_session=True,
                    env={**os.environ, PROBE: "off"},
                )
        except OSError as error:
            os.close(self._reply)
            raise ProbeError(f"{sys.executable} cannot be started: {error.strerror}") from error
        finally:
            os.close(reply_end)

    def watch(self) -> None:
        """Read until the child has ended or its time is over; then end what is left of it."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        streams = {"reply": self._reply, "stdout": self._process.stdout.fileno(), "stderr": self._process.stderr.fileno()}
        with self._process.stdout, self._process.stderr, selectors.DefaultSelector() as selector:
            for name, descriptor in streams.items():
                os.set_blocking(descriptor, False)
                selector.register(descriptor, selectors.EVENT_READ, name)
            try:
                self._wait(selector)
            finally:
                self._kill()
                while self._read(selector, 0):
                    continue
                os.close(self._reply)
        self._understand()

    def _wait(self, selector: selectors.BaseSelector) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            self._read(selector, _TICK_SECONDS)
            self.how = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if self.how is not None:
                return
            was_ready, had_result = self.is_ready, self.result is not None
            self._understand()
            if self.is_ready and not was_ready:
                deadline = time.monotonic() + self.timeout + _GRACE_SECONDS
            if self.result is not None and not had_result:
                deadline = time.monotonic() + _EXIT_SECONDS
            if time.monotonic() > deadline:
                self.is_overdue = True
                return

    def _kill(self) -> None:
        """End the child and whatever it started.

        Until it is waited for, its number cannot be that of another process.
        """
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()

    def _read(self, selector: selectors.BaseSelector, seconds: float) -> bool:
        """Take in what is there; false if there is nothing."""
        found = False
        if not selector.get_map():
            time.sleep(seconds)
            return False
        for key, _ in selector.select(seconds):
            try:
                data = os.read(key.fd, 1 << 16)
            except BlockingIOError:
                continue
            if not data:
                selector.unregister(key.fileobj)
                continue
            found = True
            self._output[key.data] = (self._output[key.data] + data)[-_KEPT[key.data] :]
        return found

    def _understand(self) -> None:
        for line in self._output["reply"].splitlines():
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if not isinstance(message, dict) or message.get("nonce") != self._nonce:
                continue
            if message.get("stage") == READY:
                self.is_ready = True
            elif message.get("stage") == RESULT:
                self.result = message

    def text(self, name: str) -> str:
        """Return what it wrote to a stream."""
        return self._output[name].decode("utf-8", "replace").strip()


def _anonymous_file() -> IO[bytes]:
    """Return a file without a name; in memory where possible, as disks may be read-only."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("dovetail-probe"), "w+b")
    from tempfile import TemporaryFile

    return TemporaryFile()


def _outcome(child: _Child) -> Outcome:
    if child.result is None:
        return _without_result(child)
    result = child.result
    if "unavailable" in result:
        state, text, hint = (str(result[name]) for name in ("unavailable", "text", "hint"))
        return Outcome(unavailable=(state, text, hint))
    if "code" in result:
        code = ReasonCode[result["code"]]
        facts = {str(name): value for name, value in dict(result["facts"]).items()}
        refusal = Refused(code, result["text"], hint=result["hint"], path=result.get("path"), **facts)
        refusal.phase = result.get("phase") or str(code.step)
        if result["trace"]:
            refusal.__cause__ = ChildError(f"in the child process:\n{result['trace']}")
        return Outcome(refusal, trace=result["trace"], is_lasting=code is ReasonCode.PROBE_LIMIT)
    notes = [str(note) for note in result["notes"]]
    for name in ("stdout", "stderr"):
        if child.text(name):
            notes.append(f"{ReasonCode.SIDE_EFFECT}: it writes to {name}: {_first_line(child.text(name))!r}")
    if child.is_overdue:
        notes.append(f"{ReasonCode.SIDE_EFFECT}: it keeps the process from ending")
    elif child.how is not None and child.how.si_code != os.CLD_EXITED:
        notes.append(f"{ReasonCode.SIDE_EFFECT}: the process ends by {signal.Signals(child.how.si_status).name} at exit")
    elif child.how is not None and child.how.si_status != 0:
        notes.append(f"{ReasonCode.SIDE_EFFECT}: the process ends with exit code {child.how.si_status}")
    return Outcome(
        notes=notes, drivers=[(str(a), int(b), int(c)) for a, b, c in result["drivers"]], is_lasting=not result["postponed"]
    )


def _without_result(child: _Child) -> Outcome:
    """Tell how a child ended that did not say that it was done."""
    errors = child.text("stderr")
    if not child.is_ready:
        raise ProbeError(f"the child process did not get as far as the backend: {_last_line(errors) or 'it said nothing'}")
    if child.is_overdue or "Timeout (" in errors:
        text = f"it did not come back within {child.timeout:g} s"
        return _quarantined(ReasonCode.PROBE_TIMEOUT, text, errors, 0)
    assert child.how is not None
    if child.how.si_code == os.CLD_EXITED:
        text = f"it ended the process with exit code {child.how.si_status}"
        return _quarantined(ReasonCode.PROBE_EXITED, text, errors, 0)
    number = int(child.how.si_status)
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    if number == signal.SIGKILL:  # nobody but the kernel, for want of memory, or a person
        return Outcome(Refused(ReasonCode.PROBE_LIMIT, f"the child process was killed ({name})", signal=number), signal=number)
    if number == signal.SIGXCPU:
        return _quarantined(ReasonCode.PROBE_LIMIT, f"it used up its time ({name})", errors, number)
    return _quarantined(ReasonCode.PROBE_CRASHED, f"it crashed with {name}{_place(errors)}", errors, number)


def _quarantined(code: ReasonCode, text: str, trace: str, number: int) -> Outcome:
    refusal = Refused(code, text, signal=number, trace=trace[-8192:])
    return Outcome(refusal, signal=number, trace=trace[-8192:], is_lasting=True)


def _place(trace: str) -> str:
    """Return the line of Python at which faulthandler saw the crash."""
    for line in trace.splitlines():
        text = line.strip()
        if text.startswith("File ") and "importlib" not in text and "dovetail/discovery" not in text:
            return f", in {text.removeprefix('File ')}"
    return ""


def interpreter_flags() -> list[str]:
    """Return the flags of this interpreter, so that the child finds what it finds."""
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
    return [flag for flag in flags if not flag.startswith("-W")]


def _first_line(text: str) -> str:
    return text.splitlines()[0][:120] if text else ""


def _last_line(text: str) -> str:
    return text.splitlines()[-1][:300] if text else ""
