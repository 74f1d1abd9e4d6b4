"""The template of a backend's processes: it has imported everything, and forks one when asked.

A new process takes milliseconds so, not the half second that an interpreter, NumPy and a driver's
libraries take. The template is single-threaded and runs no network; it also collects what its
processes write, and how they end.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..discovery.probe import interpreter_flags
from ..ground.errors import BackendError, DovetailError, ErrorCode
from ..ground.limits import under_way
from ..ground.records import Record
from ..ground.settings import PROBE, probe_timeout
from .channel import CHANNEL_BYTES, SharedBytes
from .endings import Ending, ending_of_code, ending_of_status
from .messages import EndedError, rebuilt_error, receive, send
from .parts import shared_memory, written

_BOOTSTRAP = (
    "import sys; sys.path[:] = {path!r}; "
    "from dovetail.loading.isolated_template import main; main({connection}, {request}, {lifeline})"
)
_START_SECONDS = 60.0  # for the interpreter and the core, before the backend's own time begins
_END_SECONDS = 5.0
_LAST_STANDARD = 2  # descriptor of standard error
_KEPT_OUTPUT = 16 << 10

Look = Callable[[], object]


def look_at_limits() -> None:
    """End a wait of the load under way by raising, once it takes too long."""
    budget = under_way()
    if budget is not None:
        budget.check_time()


class Process(Record, eq=False):
    """A process that was forked.

    Attributes:
        number: Of the template's processes.
        connection: Speaks with it.
        pidfd: Refers to it.
        channel: Memory that it shares with the host.
    """

    number: int
    connection: socket.socket
    pidfd: int
    channel: SharedBytes


def environment_of_processes() -> dict[str, str]:
    """Return the environment variables of a process that is forked now: the host's."""
    return {**os.environ, PROBE: "off", "OPENBLAS_NUM_THREADS": "1"}


def changes_between(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str | None]:
    """Return the variables that differ, and what they are now; None: they are not set."""
    changes: dict[str, str | None] = {name: text for name, text in now.items() if before.get(name) != text}
    return changes | {name: None for name in before if name not in now}


def require_system(name: str) -> None:
    """Refuse where the system lacks what isolation is made of.

    Raises:
        BackendError: It does (`BACKEND_UNAVAILABLE`).
    """
    missing = [one for one in ("pidfd_open", "memfd_create", "posix_fallocate") if not hasattr(os, one)]
    if missing:
        raise BackendError(
            f"backend {name!r} cannot be isolated: this Python has no {', '.join(f'os.{one}' for one in missing)}",
            code=ErrorCode.BACKEND_UNAVAILABLE,
            hint="use a Python that was built on Linux 5.3 or newer, or leave isolate= out",
        )


class Template:
    """A template process, started when a first process is asked for, and again if it died.

    Args:
        name: The backend's id.
        how: How the backend is made: JSON, and what is pickled.
    """

    def __init__(self, name: str, how: Mapping[str, Any]) -> None:
        self.name = name
        self._how = dict(how)
        self._lock = threading.RLock()
        self._running: _Running | None = None
        self._begun: _Running | None = None
        self._is_cold = False
        _templates.add(self)

    def start_ahead(self) -> None:
        """Begin to start it, if it does not run; who needs it waits then, and hears of faults."""
        if self._lock.acquire(blocking=False):  # else somebody is about to start it
            try:
                if self._running is None and self._begun is None:
                    with contextlib.suppress(BackendError):
                        self._begun = self._new()
            finally:
                self._lock.release()

    def _new(self) -> _Running:
        return _Running(self.name, {**self._how, "cold": self._is_cold})

    def fork(self, look: Look) -> Process:
        """Fork a process.

        Args:
            look: Called while nothing happens; ends the wait by raising.

        Raises:
            BackendError: The backend cannot be imported, or the template died.
        """
        with self._held(look):
            running = self._started(look)
            try:
                return self._forked(running, look)
            except EndedError as error:
                ending = self._end()
                raise self._died(f"the process that it is forked from {ending.text}", ending) from error
            except OSError as error:
                if isinstance(error, DovetailError):  # the time of the load, or of the run, is over
                    raise
                raise BackendError(
                    f"backend {self.name!r} cannot have a process of its own: {error.strerror}",
                    code=ErrorCode.BACKEND_BROKEN,
                    hint="leave isolate= out, or see the limits of this process",
                    backend=self.name,
                ) from error

    def _forked(self, running: _Running, look: Look) -> Process:
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            connection, their_end = socket.socketpair()
            ours.callback(connection.close)
            theirs.callback(their_end.close)
            descriptor = shared_memory(CHANNEL_BYTES, f"dovetail-{self.name}-channel")
            theirs.callback(os.close, descriptor)
            number, pidfd = running.fork(their_end.fileno(), descriptor, look)
            process = Process(number, connection, pidfd, SharedBytes(descriptor, CHANNEL_BYTES, True))
            ours.pop_all()  # which leaves it open
            return process

    def learn(self, modules: Sequence[str]) -> None:
        """Have it import modules, unless they start threads; nobody waits for that."""
        with self._lock:
            if self._running is not None and not self._is_cold and modules:
                with contextlib.suppress(EndedError):  # who asks next finds out
                    self._running.learn(modules)

    def ending(self, number: int) -> Ending:
        """Return how a process ended that has ended or was killed."""
        with self._lock:
            running = self._running
            if running is None:
                return Ending("was ended with the process that it was forked from", "")
            try:
                return running.ending(number)
            except EndedError:
                ending = self._end()
                return Ending(f"was ended with the process that it was forked from, which {ending.text}", ending.output)

    def close(self) -> None:
        """End the template and all its processes; it starts again when it is needed."""
        with self._lock:
            self._end()

    def forget(self) -> None:
        """In a forked child of the host: release processes that are the parent's."""
        self._lock = threading.RLock()
        for one in (self._running, self._begun):
            if one is not None:
                one.forget()
        self._running = self._begun = None

    @contextlib.contextmanager
    def _held(self, look: Look) -> Any:
        while not self._lock.acquire(timeout=0.01):
            look()
        try:
            yield
        finally:
            self._lock.release()

    def _started(self, look: Look) -> _Running:
        if self._running is not None and self._running.has_ended():
            self._end()
        if self._running is None:
            running, self._begun = self._begun or self._new(), None
            try:
                if running.wait_until_ready(look):
                    self._running = running
                else:  # its import started threads, with which no process can be forked soundly
                    self._is_cold = True
                    running.end()
                    return self._started(look)
            except EndedError as error:
                ending = running.end()
                raise self._died(f"it {ending.text} while it was imported", ending) from error
            except TimeoutError as error:
                ending = running.end()
                if isinstance(error, DovetailError):  # the time of the load, or of the run, is over
                    raise
                text = f"it did not come back from its import within {probe_timeout():g} s"
                raise self._died(text, ending, "give it more time with DOVETAIL_PROBE_TIMEOUT, or tell its makers") from error
            except BaseException:
                running.end()
                raise
        return self._running

    def _end(self) -> Ending:
        if self._begun is not None:
            self._begun.end()
            self._begun = None
        running, self._running = self._running, None
        return Ending("was not running", "") if running is None else running.end()

    def _died(self, text: str, ending: Ending, hint: str = "tell its makers") -> BackendError:
        return BackendError(
            f"backend {self.name!r}, in a process of its own: {text}{ending.shown_output}",
            code=ErrorCode.ISOLATED_PROCESS_DIED,
            hint=hint,
            backend=self.name,
            signal=ending.signal,
            output=ending.output,
        )


class _Running:
    """A template process that runs."""

    def __init__(self, name: str, how: Mapping[str, Any]) -> None:
        self.name = name
        self._numbers = 0
        self._forked: dict[int, int | None] = {}  # None: what refers to it found no descriptor free
        self._abandoned: set[int] = set()
        self._endings: dict[int, Ending] = {}
        self._output = b""
        if not sys.executable or getattr(sys, "frozen", False):
            raise BackendError(
                f"backend {name!r} cannot be isolated: this program has no Python interpreter to start",
                code=ErrorCode.BACKEND_BROKEN,
                hint="leave isolate= out",
            )
        self._environment = environment_of_processes()
        path = [os.path.abspath(entry) for entry in sys.path if isinstance(entry, str)]
        try:
            with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
                self._connection, connection = map(_above_standard, socket.socketpair())
                ours.callback(self._connection.close)
                theirs.callback(connection.close)
                # Once nobody holds the end for writing, the kernel ends the process.
                life_of_child, self._lifeline = map(_raised, os.pipe())
                ours.callback(os.close, self._lifeline)
                theirs.callback(os.close, life_of_child)
                request = _raised(written({**how, "path": path, "name": name}, "dovetail-template"))
                theirs.callback(os.close, request)
                descriptors = (connection.fileno(), request, life_of_child)
                text = _BOOTSTRAP.format(path=path, connection=descriptors[0], request=request, lifeline=life_of_child)
                self._process = subprocess.Popen(
                    [sys.executable, *interpreter_flags(), "-X", "faulthandler", "-c", text],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    pass_fds=descriptors,
                    start_new_session=True,  # Ctrl-C in a terminal is the host's; and one signal ends all of them
                    env=self._environment,
                )
                ours.pop_all()  # which leaves them open
        except OSError as error:
            raise BackendError(
                f"backend {name!r} cannot be isolated: {sys.executable} cannot be started: {error.strerror}",
                code=ErrorCode.BACKEND_BROKEN,
                hint="leave isolate= out, or see the limits of this process",
            ) from error
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._finalizer = weakref.finalize(self, _end_process, self._process, self._connection, self._lifeline, os.getpid())

    def wait_until_ready(self, look: Look) -> bool:
        """Wait for the import of the backend; false if it must be left to each process.

        Raises:
            EndedError: It died.
            TimeoutError: It took too long.
            DovetailError: The import raised.
        """
        deadline = time.monotonic() + _START_SECONDS

        def wait() -> None:
            look()
            self._drain()
            if self.has_ended():
                raise EndedError("it ended")
            if time.monotonic() > deadline:
                raise TimeoutError("its time is over")

        receive(self._connection, wait)  # it begins
        deadline = time.monotonic() + probe_timeout()
        message, _ = receive(self._connection, wait)
        if "error" in message:
            raise rebuilt_error(message["error"], f"backend {self.name!r}")
        return message.get("is_forkable") is True

    def fork(self, connection: int, channel: int, look: Look) -> tuple[int, int]:
        """Have it fork; return the number of the process and what refers to it.

        Raises:
            OSError: This process may open no more descriptors.
        """
        self._numbers += 1
        number = self._numbers
        try:
            changes = changes_between(self._environment, environment_of_processes())
            send(self._connection, {"fork": number, "environment": changes}, [connection, channel])
            while number not in self._forked:
                self._take_in(look)
            pidfd = self._forked.pop(number)
            if pidfd is None:  # it ends with its connection
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        except BaseException:
            self._abandoned.add(number)
            raise
        return number, pidfd

    def learn(self, modules: Sequence[str]) -> None:
        """Have it import modules."""
        send(self._connection, {"learn": list(modules)})

    def ending(self, number: int) -> Ending:
        """Return how a process ended, which it does about now."""
        until = time.monotonic() + _END_SECONDS

        def wait() -> None:
            if time.monotonic() > until:
                raise EndedError("it does not answer")

        while number not in self._endings:
            self._take_in(wait)
        return self._endings.pop(number)

    def _take_in(self, look: Look) -> None:
        """Take in one message."""
        message, descriptors = receive(self._connection, look)
        number = message.get("forked")
        if isinstance(number, int) and len(descriptors) == 1:
            if number in self._abandoned:
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(descriptors[0], signal.SIGKILL)
                os.close(descriptors[0])
            else:
                self._forked[number] = descriptors[0]
            return
        for one in descriptors:
            os.close(one)
        if isinstance(number, int):
            self._forked[number] = None
            return
        number = message.get("ended")
        status, output = message.get("status"), message.get("output")
        if isinstance(number, int) and isinstance(status, int) and isinstance(output, str) and number not in self._abandoned:
            self._endings[number] = ending_of_status(status, output)

    def has_ended(self) -> bool:
        """Tell whether it has ended."""
        return self._process.poll() is not None

    def end(self) -> Ending:
        """End it and all its processes; return how it had ended before, if it had."""
        before = self._process.poll()
        if before is None:  # it may be about to: its connection ends first
            with contextlib.suppress(subprocess.TimeoutExpired):
                before = self._process.wait(0.05)
        self._drain()  # while it ends it may write more than a pipe holds
        _stop(self._process)
        self._drain()
        self._finalizer()
        for pidfd in self._forked.values():
            if pidfd is not None:
                os.close(pidfd)
        output = self._output.decode("utf-8", "replace")
        return Ending("was ended", output) if before is None else ending_of_code(before, output)

    def forget(self) -> None:
        """Close what a forked child of the host has of it."""
        self._finalizer.detach()
        self._connection.close()
        os.close(self._lifeline)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.returncode = 0  # it is no child of this process

    def _drain(self) -> None:
        """Take in what it wrote while it imported, so that it does not wait for a reader."""
        stream = self._process.stdout
        if stream is None or stream.closed:
            return
        while True:
            try:
                data = os.read(stream.fileno(), 1 << 16)
            except BlockingIOError:
                return
            if not data:
                return
            self._output = (self._output + data)[-_KEPT_OUTPUT:]


def _raised(descriptor: int) -> int:
    """Return a descriptor above those of the standard streams, which a daemon may have closed."""
    if descriptor > _LAST_STANDARD:
        return descriptor
    raised = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _LAST_STANDARD + 1)
    os.close(descriptor)
    return raised


def _above_standard(connection: socket.socket) -> socket.socket:
    return socket.socket(fileno=_raised(connection.detach()))


def _end_process(process: subprocess.Popen[bytes], connection: socket.socket, lifeline: int, host: int) -> None:
    """End a template and its processes, all of which are in its group; the host has no zombies."""
    if os.getpid() != host:
        return
    _stop(process)
    assert process.stdout is not None
    process.stdout.close()
    connection.close()
    os.close(lifeline)


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
    process.wait()


_templates: weakref.WeakSet[Template] = weakref.WeakSet()


def _forget_all() -> None:
    """In a forked child of the host: its parent's processes are not its own."""
    for template in list(_templates):
        template.forget()


os.register_at_fork(after_in_child=_forget_all)
