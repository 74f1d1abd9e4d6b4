"""Be the template of a backend's processes: import everything once, then fork when asked.

`isolation/template.py` starts it. It stays single-threaded, so that a fork is sound, and runs no
network. It collects what its processes write, up to some bytes, and waits for their end: the host
has neither their pipes nor their zombies.
"""

from __future__ import annotations

import faulthandler
import fcntl
import gc
import logging
import os
import pickle
import select
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from ..isolation.channel import die_with_parent
from ..isolation.messages import EndedError, Message, described_error, receive, send
from ..isolation.parts import read

_KEPT_OUTPUT = 16 << 10
_F_SETSIG = 10  # of <fcntl.h>; Python has no name for it before 3.14


class Backend:
    """How the backend is made, and it itself once somebody made it."""

    def __init__(self, how: Mapping[str, Any]) -> None:
        self._how = how
        self._made: Any = None

    def made(self) -> Any:
        """Return the backend.

        Raises:
            Exception: Whatever its import or its class raises.
        """
        if self._made is None:
            if "pickled" in self._how:
                self._made = pickle.loads(self._how["pickled"])
            else:
                from ..discovery.candidates import Candidate
                from ..discovery.opening import open_backend

                self._made = open_backend(Candidate.from_json(self._how["candidate"]))
        return self._made


def main(connection_fd: int, request_fd: int, lifeline: int) -> None:
    """Serve until the host ends, or ends this process."""
    _end_with_host(lifeline)
    connection = socket.socket(fileno=connection_fd)
    for descriptor in (connection_fd, lifeline):
        os.set_inheritable(descriptor, False)
    how = read(request_fd)
    os.close(request_fd)
    logging.getLogger("dovetail").setLevel(logging.ERROR)
    _import_what_workers_need()
    send(connection, {"begun": True})
    backend = Backend(how)
    if not how["cold"]:
        try:
            backend.made()
        except BaseException as error:  # the host raises it
            send(connection, {"error": described_error(error)})
            return
    is_forkable = how["cold"] or _is_single_threaded()
    send(connection, {"ready": True, "is_forkable": is_forkable})
    if is_forkable:
        _be_quiet()
        gc.collect()
        gc.freeze()  # so that collections in the forks write to no page of what is shared
        _Template(connection, backend).serve()


def _end_with_host(lifeline: int) -> None:
    """Have the kernel kill this process and its forks once the host has ended, however it did.

    The host holds the only end of a pipe to which one could write. The signal for parents that die
    would come with the end of the thread that started this process.
    """
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    poller = select.poll()
    poller.register(lifeline, select.POLLHUP)
    if poller.poll(0):  # it ended before that was set up
        os.kill(os.getpid(), signal.SIGKILL)


def _import_what_workers_need() -> None:
    """Import beforehand what each fork would else import anew."""
    from .. import layers, runtime  # noqa: F401  # for the forks
    from ..layers.network import Network
    from ..optimizer import optimize
    from . import isolated_worker  # noqa: F401  # for the forks

    del Network, optimize


def _be_quiet() -> None:
    """Write nowhere from now on: nobody reads any more what this process writes."""
    sys.stdout.flush()
    sys.stderr.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)


def _change_environment(changes: Mapping[str, str | None]) -> None:
    """Set what the host set since it started the template, and unset what it unset."""
    for name, text in changes.items():
        if text is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = text


class _Fork:
    """A process that was forked: what it writes, and what tells that it ended."""

    def __init__(self, pid: int, pidfd: int, output: int) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self.output = output
        self.text = b""

    def take_in(self) -> bool:
        """Take in what it wrote; false once there is nothing more now."""
        try:
            data = os.read(self.output, 1 << 16)
        except BlockingIOError:
            return False
        self.text = (self.text + data)[-_KEPT_OUTPUT:]
        return bool(data)


def _imported(modules: Sequence[str]) -> bool:
    """Import modules; false if one cannot be: it is left to the processes, which tell of it."""
    try:
        for name in modules:
            import_module(name)
    except BaseException:
        return False
    return True


def _is_single_threaded() -> bool:
    return len(os.listdir("/proc/self/task")) == 1


class _Template:
    def __init__(self, connection: socket.socket, backend: Backend) -> None:
        self._connection = connection
        self._backend = backend
        self._forks: dict[int, _Fork] = {}
        self._poller = select.poll()
        self._poller.register(connection, select.POLLIN)
        self._by_descriptor: dict[int, int] = {}
        self._trials: dict[int, tuple[int, list[str]]] = {}

    def serve(self) -> None:
        """Fork, and tell of ends, until the host is gone."""
        while True:
            for descriptor, _ in self._poller.poll():
                number = self._by_descriptor.get(descriptor)
                if descriptor in self._trials:
                    self._judge(descriptor)
                elif number is None:
                    if descriptor == self._connection.fileno() and not self._take_message():
                        return
                elif descriptor == self._forks[number].output:
                    if not self._forks[number].take_in():  # closed: else poll would come back at once
                        self._poller.unregister(descriptor)
                        del self._by_descriptor[descriptor]
                else:
                    self._bury(number)

    def _take_message(self) -> bool:
        try:
            message, descriptors = receive(self._connection)
        except EndedError:
            return False
        if "fork" in message:
            self._fork(message, *descriptors)
        else:
            self._try(message["learn"])
        return True

    def _try(self, modules: list[str]) -> None:
        """Import modules in a fork: they may start threads, crash or hang."""
        new = [name for name in modules if name not in sys.modules]
        if not new:
            return
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                die_with_parent(signal.SIGKILL)
                if os.getppid() == parent and _imported(new) and _is_single_threaded():
                    code = 0
            finally:
                os._exit(code)
        descriptor = os.pidfd_open(pid)
        self._trials[descriptor] = pid, new
        self._poller.register(descriptor, select.POLLIN)

    def _judge(self, descriptor: int) -> None:
        """Import here what a fork could import."""
        pid, modules = self._trials.pop(descriptor)
        self._poller.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        if status == 0 and _imported(modules):
            gc.collect()
            gc.freeze()

    def _fork(self, message: Message, connection: int, channel: int) -> None:
        reading, writing = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become_worker(parent, connection, channel, reading, writing, message["environment"])
        pidfd = os.pidfd_open(pid)
        for descriptor in (connection, channel, writing):
            os.close(descriptor)
        os.set_blocking(reading, False)
        number = int(message["fork"])
        self._forks[number] = _Fork(pid, pidfd, reading)
        for descriptor in (pidfd, reading):
            self._by_descriptor[descriptor] = number
            self._poller.register(descriptor, select.POLLIN)
        send(self._connection, {"forked": number}, [pidfd])

    def _become_worker(
        self, parent: int, connection: int, channel: int, reading: int, writing: int, environment: Mapping[str, str | None]
    ) -> None:
        """Serve in a fork; does not return."""
        code = 1
        try:
            die_with_parent(signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            os.dup2(writing, 1)
            os.dup2(writing, 2)
            for descriptor in (reading, writing, self._connection.detach(), *self._by_descriptor, *self._trials):
                os.close(descriptor)
            faulthandler.enable(2)  # where it crashed is among its last words
            _change_environment(environment)
            from .isolated_worker import serve

            serve(socket.socket(fileno=connection), channel, self._backend)
            code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)  # nothing of the template's is to be ended here

    def _bury(self, number: int) -> None:
        """Wait for a fork that has ended, and tell the host."""
        fork = self._forks.pop(number)
        _, status = os.waitpid(fork.pid, 0)
        while fork.take_in():
            continue
        for descriptor in (fork.pidfd, fork.output):
            if self._by_descriptor.pop(descriptor, None) is not None:
                self._poller.unregister(descriptor)
            os.close(descriptor)
        send(self._connection, {"ended": number, "status": status, "output": fork.text.decode("utf-8", "replace")})
