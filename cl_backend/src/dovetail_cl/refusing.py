"""What a driver refuses, as errors of the core."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dovetail import BackendUnavailableError, ErrorCode

from .driver.errors import DriverError, Forked

ID = "GpuAcc"


@contextmanager
def unavailable_without_driver() -> Iterator[None]:
    """Turn what the driver refuses in the block into the core's error, with the next step.

    Raises:
        BackendUnavailableError: It refused; `state` in its details says in which way.
    """
    try:
        yield
    except DriverError as error:
        raise BackendUnavailableError(
            f"backend {ID}: {error}",
            code=ErrorCode.FORKED if isinstance(error, Forked) else None,
            hint=error.hint,
            state=error.state,
            backend=ID,
        ) from error
