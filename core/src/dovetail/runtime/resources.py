"""Hold what a runtime's networks use: threads and devices, opened on first use, given back once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..contract.backend_calls import backend_call, checked, devices_of, notify
from ..contract.interfaces import HostResources, IBackendContext
from ..ground.errors import BackendError, BackendUnavailableError, ErrorCode, RunError
from ..ground.logs import Log
from .backend_resources import resources_for
from .backends_in_use import BackendKey, OpenBackend
from .plans import ThreadPool
from .run_errors import lack_of_memory

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from ..optimizer.candidate import Assigned
    from .guard import Guard

_log = Log("dovetail")


class Resources:
    """Threads and devices of one runtime.

    Args:
        threads: CPU threads that kernels may use, the caller's included.
        spin_us: How long an idle worker spins for its next job before it sleeps, in microseconds.
        guard: Watch what kernels touch; None for no guard.

    Raises:
        RunError: There is no memory for them (`OUT_OF_MEMORY`).
    """

    def __init__(self, threads: int, spin_us: int, guard: Guard | None) -> None:
        self.guard = guard
        try:
            self.pool = ThreadPool(threads, spin_us)
        except MemoryError as error:
            raise lack_of_memory("runtime", error)  # noqa: B904  # its cause is set
        self.is_closed = False
        self._lock = threading.RLock()
        self._backends: dict[tuple[BackendKey, Any], OpenBackend] = {}
        self._users: list[Callable[[], object]] = []
        self._submitting: ThreadPoolExecutor | None = None
        self._submitting_pid = 0

    @property
    def threads(self) -> int:
        """CPU threads that kernels may use, the caller's included."""
        count: int = self.pool.threads
        return count

    @property
    def submitting(self) -> ThreadPoolExecutor:
        """Threads that carry out `LoadedNetwork.submit`."""
        with self._lock:
            self.check_open()
            if self._submitting is None or self._submitting_pid != os.getpid():  # a fork leaves the threads behind
                from concurrent.futures import ThreadPoolExecutor  # few programs submit, and it takes long to import

                self._submitting_pid = os.getpid()
                self._submitting = ThreadPoolExecutor(max(4, 2 * (os.cpu_count() or 1)), "dovetail-submit")
            return self._submitting

    def open_backend(self, assigned: Assigned) -> OpenBackend:
        """Return the context of a backend's device, opening it on first use.

        Raises:
            BackendError: There is no such device, or it cannot be opened.
        """
        backend, device, options = assigned.backend, assigned.request.device, assigned.options
        # By identity too: backends may be handed over as objects, and two of them may have the same
        # id.
        key = (BackendKey(backend.id, device), (id(backend), _hashable(options)))
        with self._lock:
            self.check_open()
            if key not in self._backends:
                devices = devices_of(f"backend {str(backend.id)!r}", backend)
                if device >= len(devices):
                    raise BackendError(
                        f"backend {str(backend.id)!r} has no device {device}",
                        code=ErrorCode.BACKEND_UNAVAILABLE,
                        hint=f"its devices are {', '.join(f'{one.index}: {one.name}' for one in devices) or 'none'}",
                    )
                lent = resources_for(backend, device, options, self.threads)
                context = _create_context(assigned, lent)
                self._backends[key] = OpenBackend(backend, device, context, _device_lock(key[0]))
            return self._backends[key]

    def used_by(self, end: Callable[[], object]) -> None:
        """Remember how to end a network that uses devices.

        It is used when they are given back before the network is unloaded.
        """
        with self._lock:
            self._users[:] = [one for one in self._users if getattr(one, "alive", False)]
            self._users.append(end)

    def check_open(self) -> None:
        """Refuse to go on with a runtime that was closed.

        Raises:
            RunError: It was (`RUNTIME_CLOSED`).
        """
        if self.is_closed:
            raise RunError("this runtime was closed", code=ErrorCode.RUNTIME_CLOSED, hint="make a new dovetail.Runtime()")

    def begin_to_close(self) -> bool:
        """Refuse new work and wait for what was submitted; False if another call did so."""
        with self._lock:
            if self.is_closed:
                return False
            self.is_closed = True
        if self._submitting is not None and self._submitting_pid == os.getpid():
            self._submitting.shutdown(wait=True)
        return True

    def close(self) -> None:
        """Give the devices back, once every network has released them.

        The collector may find both in either order.
        """
        for end in self._users:
            end()
        self._users.clear()
        for opened in self._backends.values():
            if opened.stuck:
                _log.error(
                    "backend %s still holds memory of a run that it did not end; its device is not closed", opened.backend.id
                )
            elif opened.context is not None:
                notify(opened.context.close)
        self._backends.clear()


def _hashable(options: Any) -> Any:
    return repr(options)


_device_locks: dict[BackendKey, threading.Lock] = {}
_device_locks_guard = threading.RLock()


def _device_lock(key: BackendKey) -> threading.Lock:
    """Return the lock of a device that wants one run at a time, for all options and runtimes."""
    with _device_locks_guard:
        return _device_locks.setdefault(key, threading.Lock())


def _create_context(assigned: Assigned, lent: HostResources) -> Any:
    """Open a device, and tell the registry how that went."""
    backend, device = assigned.backend, assigned.request.device
    origin = f"backend {str(backend.id)!r}, device {device}"
    try:
        with backend_call(
            origin,
            "create_context",
            code=ErrorCode.BACKEND_UNAVAILABLE,
            hint="check the driver; without this backend, name another one",
        ):
            context = backend.create_context(device, lent, assigned.options)
    except BackendUnavailableError as error:
        assigned.registry.device_failed(backend, error)
        raise
    checked(origin, "create_context", context, IBackendContext, type(None))
    assigned.registry.device_opened(backend)
    return context
