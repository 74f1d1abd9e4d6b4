"""The state of the process that loading a backend must not change.

It is seen before and after, and put back where that is possible.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from ..ground.records import NamedTuple

_SIGNALS = sorted(set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}) if os.name == "posix" else []
_SIGACTION_BYTES = 256  # more than any C library's struct
_FENV_BYTES = 256
_SA_RESTORER = 0x04000000  # the C library sets it whenever anything is set
LASTING = ("the working folder", "signal handlers", "floating-point flags")
"""How the changes begin that code which runs later must not make either."""


@cache
def _libraries() -> tuple[Any, Any] | None:
    """Return the C library and its mathematics, or None where there is no sigaction."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    try:
        c, m = ctypes.CDLL(None), ctypes.CDLL("libm.so.6")
        for function in (c.sigaction, m.fegetenv, m.fesetenv):
            function.restype = ctypes.c_int
    except (OSError, AttributeError):  # another C library
        return None
    return c, m


def _floating_point() -> bytes:
    """Return the floating-point environment of this thread."""
    libraries = _libraries()
    if libraries is None:
        return b""
    import ctypes

    buffer = ctypes.create_string_buffer(_FENV_BYTES)
    libraries[1].fegetenv(buffer)
    return buffer.raw


def _floating_point_control(environment: bytes) -> tuple[int, ...]:
    """Return rounding, flushing and masks, without the flags that any computation sets."""
    word = [int.from_bytes(environment[i : i + 4], sys.byteorder) for i in range(0, 32, 4)]
    if platform.machine() in ("x86_64", "AMD64"):  # fenv_t: the x87 control word first, MXCSR last
        return word[0] & 0xFFFF, word[7] & ~0x3F
    if platform.machine() == "aarch64":  # fpcr, fpsr
        return (word[0],)
    return ()


def _signal_actions() -> dict[int, bytes]:
    libraries = _libraries()
    if libraries is None:
        return {}
    import ctypes

    buffer, sigaction = ctypes.create_string_buffer(_SIGACTION_BYTES), libraries[0].sigaction
    return {int(number): buffer.raw for number in _SIGNALS if sigaction(number, None, buffer) == 0}


def _meaning(action: bytes) -> tuple[bytes, int]:
    """Return the function and the flags of a struct sigaction of Linux.

    The rest of it is a mask and what lay on the stack.
    """
    return action[:8], int.from_bytes(action[136:140], sys.byteorder) & ~_SA_RESTORER


def _working_folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


class HostState(NamedTuple):
    """What is looked at. Take it by `capture`."""

    folder: str | None
    handlers: dict[int, Any]
    actions: dict[int, bytes]
    floating_point: bytes
    path: tuple[str, ...]
    environment: dict[str, str]
    threads: int
    locale: str | None
    warning_filters: int
    exit_functions: int

    @classmethod
    def capture(cls) -> HostState:
        """Look at the process now."""
        import atexit
        import locale

        count: Callable[[], int] = getattr(atexit, "_ncallbacks", lambda: 0)
        return cls(
            _working_folder(),
            {int(number): signal.getsignal(number) for number in _SIGNALS},
            _signal_actions(),
            _floating_point(),
            tuple(sys.path),
            dict(os.environ),
            _thread_count(),
            locale.setlocale(locale.LC_ALL),
            hash(tuple(map(repr, warnings.filters))),
            count(),
        )

    def changes_to(self, now: HostState) -> list[str]:
        """Name what is different now."""
        found = []
        if now.folder != self.folder:
            found.append(f"the working folder, to {now.folder}")
        numbers = {n for n in self.handlers if now.handlers[n] is not self.handlers[n] and now.handlers[n] != self.handlers[n]}
        numbers |= {n for n, action in self.actions.items() if _meaning(now.actions[n]) != _meaning(action)}
        if numbers:
            found.append(
                f"signal handlers: {', '.join(signal.Signals(n).name if n in _NAMED else str(n) for n in sorted(numbers))}"
            )
        if _floating_point_control(now.floating_point) != _floating_point_control(self.floating_point):
            found.append("floating-point flags (rounding, or flushing of tiny numbers to zero)")
        if now.path != self.path:
            added = [entry for entry in now.path if entry not in self.path]
            found.append(f"sys.path{f', by {added[0]!r}' if added else ''}")
        names = {*now.environment, *self.environment}
        changed = sorted(n for n in names if now.environment.get(n) != self.environment.get(n))
        if changed:
            found.append(f"environment variables: {', '.join(changed)}")
        if now.threads > self.threads:
            found.append(f"threads: {now.threads - self.threads} started")
        if now.locale != self.locale:
            found.append(f"the locale, to {now.locale}")
        if now.warning_filters != self.warning_filters:
            found.append("the filters of warnings")
        if now.exit_functions > self.exit_functions:
            found.append(f"functions to call at exit: {now.exit_functions - self.exit_functions} registered")
        return found


_NAMED = {int(number) for number in signal.Signals}


def _thread_count() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()


@contextmanager
def restored(changes: list[str] | None = None) -> Iterator[None]:
    """Put back working folder, signal handlers and this thread's FPU flags after the block.

    Args:
        changes: Gets the names of all that the block changed, whether it is put back or not.
    """
    before = HostState.capture() if changes is not None else None
    folder, floating_point, actions = _working_folder(), _floating_point(), _signal_actions()
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        if changes is not None and before is not None:
            changes += before.changes_to(HostState.capture())
        if folder is not None and _working_folder() != folder:
            with contextlib.suppress(OSError):
                os.chdir(folder)
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                if handler is not None and signal.getsignal(number) is not handler:
                    signal.signal(number, handler)
        libraries = _libraries()
        if libraries is not None:
            now = _signal_actions()
            for one, action in actions.items():
                if now.get(one, action) != action and _meaning(now[one]) != _meaning(action):
                    libraries[0].sigaction(one, action, None)
            if _floating_point_control(_floating_point()) != _floating_point_control(floating_point):
                libraries[1].fesetenv(floating_point)


@contextmanager
def interrupts_told_apart() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether somebody pressed Ctrl-C within the block.

    It tells so whatever the code in the block raises.
    """
    pressed = False
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield lambda: False  # Python delivers Ctrl-C to its main thread alone, and only if a function takes it
        return

    def handle(number: int, frame: Any) -> None:
        nonlocal pressed
        pressed = True
        previous(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: pressed
    finally:
        if signal.getsignal(signal.SIGINT) is handle:
            signal.signal(signal.SIGINT, previous)
