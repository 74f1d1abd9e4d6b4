"""Child processes that open the vendor's libraries, seen from the process that asks them."""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from dovetail.ground.errors import ErrorCode
from dovetail.ground.limits import under_way

from ..errors import VsiError
from . import messages

_KEPT = 2000  # bytes of what the libraries printed last, for errors
_LONGEST = 1 << 31  # bytes of a message
_EXIT_SECONDS = 5.0
_TICK_SECONDS = 0.005

_BOOTSTRAP = "import sys; sys.path[:] = {path!r}; from dovetail_npu_vsi.ovx.child import main; main()"


class Child:
    """A child process. One question at a time.

    Attributes:
        what: What it does, for errors: "compiling 'net'".
    """

    def __init__(self, what: str, environment: Mapping[str, str], seconds: float) -> None:
        """Start it.

        Args:
            what: What it does.
            environment: Of the process.
            seconds: That an answer may take; the process is ended then.

        Raises:
            VsiError: No process can be started.
        """
        self.what, self._seconds = what, seconds
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 # open until the process ends
        path = [os.path.abspath(entry) for entry in sys.path if isinstance(entry, str)]
        try:
            if not sys.executable:
                raise FileNotFoundError("this program has no Python interpreter of its own")
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BOOTSTRAP.format(path=path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._printed,
                bufsize=0,
                start_new_session=True,
                env=dict(environment),
            )
            os.set_blocking(self._process.stdin.fileno(), False)  # type: ignore[union-attr] # it was asked for
        except OSError as error:
            self._printed.close()
            raise VsiError(f"{what}: no child process can be started: {error}") from error

    def turn_to(self, what: str, seconds: float) -> bool:
        """Have it do something else from now on, by its name for errors; false if it has ended."""
        self.what, self._seconds = what, seconds
        return self.is_there

    @property
    def is_there(self) -> bool:
        """Whether it runs, and is this process's: after a fork it stays the parent's."""
        return not self._printed.closed and self._process.poll() is None

    def ask(
        self,
        kind: bytes,
        *parts: bytes | memoryview,
        answer: bytes,
        told: Callable[[float, str], None] = lambda fraction, text: None,
    ) -> bytes:
        """Send a message, and return the content of the answer.

        Args:
            kind: Letter of the message.
            parts: Of its content.
            answer: Letter of the answer that is expected.
            told: Called with each progress.

        Raises:
            VsiError: The child says so, ended, or took too long. It is of no use then.
            LoadTimeoutError: The time of the load under way is over. The child was ended.
        """
        self.send(kind, *parts)
        content = self.receive(answer, told)
        assert content is not None, "nothing cancels a question"
        return content

    def send(self, kind: bytes, *parts: bytes | memoryview) -> None:
        """Send a message, whose answer is asked for later.

        Raises:
            VsiError: The child does not read it in time.
        """
        assert self._process.stdin is not None
        self._deadline = time.monotonic() + self._seconds
        descriptor = self._process.stdin.fileno()
        head = messages.HEAD.pack(kind, sum(len(part) for part in parts))
        try:
            for part in (head, *parts):
                view = memoryview(part)
                while view:
                    self._await([], [descriptor])
                    view = view[os.write(descriptor, view) :]
        except BrokenPipeError:
            pass  # that it ended shows when the answer is missing
        except BaseException:
            self.kill()
            raise

    def receive(
        self,
        answer: bytes,
        told: Callable[[float, str], None] = lambda fraction, text: None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> bytes | None:
        """Return the content of the answer to what was sent; as `ask`.

        It is None if `is_cancelled`, which is asked every few milliseconds, said so: the process
        was ended then.
        """
        try:
            while True:
                while not self._is_readable():
                    if is_cancelled():
                        self.kill()
                        return None
                kind, content = self._receive()
                if kind == answer:
                    return content
                if kind == messages.FAILURE:
                    break
                if kind != messages.PROGRESS:
                    raise VsiError(f"{self.what}: the child process answered {kind!r}; {answer!r} was expected")
                told(messages.FRACTION.unpack_from(content)[0], content[messages.FRACTION.size :].decode())
        except BaseException:
            self.kill()
            raise
        printed = self._last_words()
        self.close()
        text, code, hint = pickle.loads(content)
        raise VsiError(f"{self.what}: {text}{printed}", hint=hint, code=ErrorCode(code))

    def _receive(self) -> tuple[bytes, bytes]:
        kind, length = messages.HEAD.unpack(self._exactly(messages.HEAD.size))
        if length > _LONGEST:
            raise VsiError(f"{self.what}: the child process announced an answer of {length} bytes")
        return kind, self._exactly(length)

    def _exactly(self, length: int) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        made = bytearray()
        while len(made) < length:
            self._await([descriptor], [])
            part = os.read(descriptor, min(length - len(made), 1 << 20))
            if not part:
                raise VsiError(f"{self.what}: {self._end()}{self._last_words()}")
            made += part
        return bytes(made)

    def _await(self, readable: list[int], writable: list[int]) -> None:
        while not self._is_ready(readable, writable):
            pass

    def _is_readable(self) -> bool:
        """Tell whether there is something to read, or the end, within a few milliseconds."""
        assert self._process.stdout is not None
        return self._is_ready([self._process.stdout.fileno()], [])

    def _is_ready(self, readable: list[int], writable: list[int]) -> bool:
        load = under_way()
        if load is not None:
            load.check_time()
        return any(select.select(readable, writable, [], min(_TICK_SECONDS, self._left())))

    def _left(self) -> float:
        """Return the seconds that an answer may still take."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise VsiError(
                f"{self.what}: the vendor's libraries did not answer within {self._seconds:g} seconds{self._last_words()}",
                code=ErrorCode.TIMEOUT,
            )
        return left

    def _end(self) -> str:
        """Say how the process ended, after its last word."""
        try:
            code = self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            return "the process that the vendor's libraries are in closed its output"
        if code >= 0:
            return f"the process that the vendor's libraries are in ended with exit code {code}"
        with suppress(ValueError):
            return f"the vendor's libraries ended their process by {signal.Signals(-code).name}"
        return f"the vendor's libraries ended their process by signal {-code}"

    def _last_words(self) -> str:
        """Return what the libraries printed last."""
        size = self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(0, size - _KEPT))
        text = self._printed.read().decode("utf-8", "replace").strip()
        return f"; they printed last:\n{text}" if text else ""

    def kill(self) -> None:
        """End the process now; harmless when called again."""
        if not self._printed.closed:
            self._process.kill()
            self._close()

    def close(self) -> None:
        """Have the process end; harmless when called again."""
        if self._printed.closed:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._close()

    def _close(self) -> None:
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout, self._printed):
            if file is not None:
                file.close()
