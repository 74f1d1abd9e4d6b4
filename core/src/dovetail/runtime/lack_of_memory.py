"""Type any lack of memory while a network runs: NumPy and Python raise a plain `MemoryError`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from ..ground.errors import ErrorCode, RunError
from ..ground.host_exceptions import is_of_host

_Function = TypeVar("_Function", bound=Callable[..., Any])


def lack_of_memory(what: str, error: MemoryError) -> BaseException:
    """Return the error for memory that could not be had.

    Args:
        what: Who wanted it, such as "network 'digits'".
        error: What was raised; it is returned itself if it is the host's own.
    """
    if is_of_host(error):
        return error
    text = str(error)
    result = RunError(
        f"{what}: memory for a run could not be had" + (f": {text}" if text else ""),
        code=ErrorCode.OUT_OF_MEMORY,
        hint="use a smaller batch, run fewer at once, or free memory",
    )
    result.__cause__ = error
    return result


def typed_lack_of_memory(function: _Function) -> _Function:
    """Decorate a method of an object with a `name`: raise `MemoryError` as `RunError`.

    The code of that error is `OUT_OF_MEMORY`.
    """

    @wraps(function)
    def typed(self: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return function(self, *arguments, **options)
        except MemoryError as error:
            raise lack_of_memory(f"network {self.name!r}", error)  # noqa: B904  # its cause is set

    return typed  # type: ignore[return-value]  # of the same signature
