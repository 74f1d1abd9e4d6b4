"""Tell how far a long preparation is: a device's compiler may need minutes, and a caller who waits wants to know.

A backend calls `report` while it is asked to optimize a subgraph or to create a workload; a caller listens::

    dovetail.load(model, backends=["AcmeNpu"], progress=lambda backend, fraction, what: print(backend, fraction, what))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, float, str], None]
"""Called with a backend's id, the fraction done from 0 to 1, and what is being done. What it raises ends the preparation."""


class _Abandoned(KeyboardInterrupt):
    """What a listener raised, on its way out; no code between it and the caller takes it for a backend's failure."""


_listener: ContextVar[Progress | None] = ContextVar("dovetail_progress", default=None)


@contextmanager
def listening(progress: Progress | None) -> Iterator[None]:
    """Send what backends report in this block, on this thread, to a function; None leaves whoever listens."""
    if progress is None:
        yield
        return
    token = _listener.set(progress)
    try:
        yield
    except _Abandoned as abandoned:
        raise abandoned.__cause__ or abandoned from None
    finally:
        _listener.reset(token)


def report(backend: str, fraction: float, what: str) -> None:
    """Tell whoever listens how far a backend is."""
    progress = _listener.get()
    if progress is None:
        return
    try:
        progress(backend, fraction, what)
    except BaseException as error:
        raise _Abandoned from error
