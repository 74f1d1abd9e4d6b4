"""Call into backends: whatever they raise becomes an error of ours.

It names the backend and keeps the cause.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..ground.errors import BackendError, DovetailError, ErrorCode
from ..ground.foreign_text import described, one_line, shown
from ..ground.host_exceptions import is_of_host
from ..ground.logs import Log
from .interfaces import Device

if TYPE_CHECKING:
    from .interfaces import IBackend

_log = Log("dovetail")
MAX_DEVICES = 4096
"""Of one backend; a list that never ends must not hold up a load."""


def notify(hook: Callable[..., None], *arguments: Any) -> None:
    """Tell a backend's context something; what it raises is logged.

    It never stops the others from being told.
    """
    try:
        hook(*arguments)
    except BaseException as error:  # SystemExit too: a backend must not end somebody else's program
        if is_of_host(error):
            raise
        _log.exception("a backend's %s failed", getattr(hook, "__qualname__", hook))


def checked(origin: str, method: str, answer: Any, *kinds: type) -> Any:
    """Return an answer of a backend if it is of one of these types.

    Raises:
        BackendError: It is not (`BACKEND_CONTRACT`).
    """
    if isinstance(answer, kinds):
        return answer
    wanted = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
    raise BackendError(
        f"{origin}: {method}() returned {type(answer).__name__!r}, not {wanted}",
        code=ErrorCode.BACKEND_CONTRACT,
        hint="this is a bug of the backend: tell its vendor",
        method=method,
    )


class backend_call:  # used as a function is: `with backend_call(...)`
    """Name the backend in whatever the block raises.

    A class rather than a generator: a load enters some of these for each layer, and a generator
    takes twice as long.

    Args:
        origin: Backend, and layer if there is one, as in "backend 'AcmeNpu', layer 'stem'".
        method: What is called.
        code: Code of the error for an exception that is not ours.
        hint: Its next step.

    Raises:
        DovetailError: One of ours that the backend raised, with `origin` before its message.
        BackendError: For anything else but what the host raised.
    """

    __slots__ = ("code", "hint", "method", "origin")

    def __init__(
        self,
        origin: str,
        method: str,
        *,
        code: ErrorCode = ErrorCode.BACKEND_CONTRACT,
        hint: str = "this is a bug of the backend: tell its vendor",
    ) -> None:
        self.origin = origin
        self.method = method
        self.code = code
        self.hint = hint

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or is_of_host(error):
            return
        if isinstance(error, DovetailError) and _named(error, self.origin):
            return
        if isinstance(error, MemoryError):
            text = described(error).partition(": ")[2]
            raise BackendError(
                f"{self.origin}: {self.method}() ran out of memory" + (f": {text}" if text else ""),
                code=ErrorCode.OUT_OF_MEMORY,
                hint="use a smaller batch, or a machine with more memory",
                method=self.method,
            ) from error
        # SystemExit too: a backend must not end somebody else's program
        raise BackendError(
            f"{self.origin}: {self.method}() raised {described(error)}", code=self.code, hint=self.hint, method=self.method
        ) from error


def _named(error: DovetailError, origin: str) -> bool:
    """Put the origin before an error's message, once; false for an error not made as ours are."""
    try:
        if not error.message.startswith(origin):  # a backend may raise the same object again
            error.message = f"{origin}: {one_line(error.message)}"
            error.args = (error.message,)
    except Exception:  # made without the constructor, or frozen
        return False
    return True


def devices_of(origin: str, backend: IBackend) -> list[Device]:
    """Ask a backend for its devices.

    Raises:
        BackendError: It raised, or answered no list of devices, in order of their index, with facts
            that can be told and kept.
    """
    with backend_call(origin, "devices"):
        devices = list(islice(backend.devices(), MAX_DEVICES + 1))
    if len(devices) > MAX_DEVICES:
        raise BackendError(
            f"{origin}: devices() gave more than {MAX_DEVICES} devices",
            code=ErrorCode.BACKEND_CONTRACT,
            hint="a list of devices ends; tell the backend's vendor",
            method="devices",
        )
    for index, device in enumerate(devices):
        checked(origin, "devices", device, Device)
        if device.index != index:
            raise BackendError(
                f"{origin}: devices() gave entry {index} the index {device.index!r}",
                code=ErrorCode.BACKEND_CONTRACT,
                hint="devices stand in order of their index, from 0; tell the backend's vendor",
                method="devices",
            )
        for name, value in device.facts.items():
            if not isinstance(name, str) or not isinstance(value, str | int | float):  # of which bool is one
                raise BackendError(
                    f"{origin}: devices() gave device {index} the fact {shown(name)}: {shown(value)}",
                    code=ErrorCode.BACKEND_CONTRACT,
                    hint="a fact has a name and is a str, int, float or bool; tell the backend's vendor",
                    method="devices",
                )
    return devices
