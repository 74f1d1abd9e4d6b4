"""Calls into backends: whatever they raise comes out as one of ours, with the backend named and the cause kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .errors import BackendError, DovetailError, ErrorCode

_log = logging.getLogger("dovetail")


def notify(hook: Callable[..., None], *arguments: Any) -> None:
    """Tell a backend's context something; what it raises is logged and never stops the others from being told."""
    try:
        hook(*arguments)
    except Exception:
        _log.exception("a backend's %s failed", getattr(hook, "__qualname__", hook))


@contextmanager
def backend_call(
    origin: str,
    method: str,
    *,
    code: ErrorCode = ErrorCode.BACKEND_CONTRACT,
    hint: str = "this is a bug of the backend: tell its vendor",
) -> Iterator[None]:
    """Name the backend in whatever the block raises.

    Args:
        origin: Backend, and layer if there is one, as in "backend 'AcmeNpu', layer 'stem'".
        method: What is called.
        code: Code of the error for an exception that is not ours.
        hint: Its next step.

    Raises:
        DovetailError: One of ours that the backend raised, with `origin` before its message.
        BackendError: For anything else.
    """
    try:
        yield
    except DovetailError as error:
        error.message = f"{origin}: {error.message}"
        error.args = (error.message,)
        raise
    except MemoryError as error:
        raise BackendError(
            f"{origin}: {method}() ran out of memory",
            code=ErrorCode.OUT_OF_MEMORY,
            hint="use a smaller batch, or a machine with more memory",
            method=method,
        ) from error
    except Exception as error:
        raise BackendError(
            f"{origin}: {method}() raised {type(error).__name__}: {error}", code=code, hint=hint, method=method
        ) from error
