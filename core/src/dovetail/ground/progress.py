"""How far a load is: backends that compile report, whoever listens is told.

The listener belongs to the load that it was given to, and to its thread: loads on other threads,
and the plans that a network makes later for other sizes, have none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

Listener: TypeAlias = Callable[[str, float, str], object]
"""Called with the backend's id, the fraction done (0 to 1) and what is being done."""


class _Listening:
    """One listener, and what it raised."""

    def __init__(self, callback: Listener) -> None:
        self.callback = callback
        self.error: BaseException | None = None


class _Thread(threading.local):
    """A load runs on one thread from end to end.

    A `ContextVar` would make each array that NumPy makes in it look further.
    """

    listening: _Listening | None = None


_thread = _Thread()


@contextmanager
def listening(callback: Listener | None) -> Iterator[None]:
    """Tell `callback` of all progress inside the block; None changes nothing.

    What it raises ends the load.
    """
    if callback is None:
        yield
        return
    before = _thread.listening
    try:
        _thread.listening = _Listening(callback)  # inside: a signal's handler may raise right after it
        yield
    finally:
        _thread.listening = before


def report(backend: str, fraction: float, what: str = "") -> None:
    """Tell whoever listens how far a backend is.

    For backends, from the thread that they were called on.

    Args:
        backend: Its id.
        fraction: Part done; what lies outside 0 to 1 counts as its nearest end.
        what: What is being done.

    Raises:
        BaseException: What the listener raised: the backend ends what it does, and lets it through.
    """
    current = _thread.listening
    if current is None:
        return
    try:
        current.callback(backend, min(max(float(fraction), 0.0), 1.0), what)
    except BaseException as error:
        current.error = error
        raise


def is_of_listener(error: BaseException) -> bool:
    """Tell whether an error came from the listener.

    If so, it is no fault of the backend that let it through.
    """
    current = _thread.listening
    return current is not None and current.error is error
