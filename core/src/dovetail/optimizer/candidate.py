"""A backend that was asked for and is ready, and what it may say of a layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..contract.backend_id import BackendId, BackendRequest
from ..contract.interfaces import Device, IBackend
from ..ground.errors import BackendUnavailableError
from ..ground.records import NamedTuple

BY_THE_CALLER = frozenset({"forbidden", "required", "no_fallback", "policy"})
"""Codes of refusals that are a constraint of the caller's, not an answer of the backend's."""


class Registry(Protocol):
    """What the optimizer and the runtime ask of a registry, and tell it."""

    def get(self, id: BackendId) -> IBackend:
        """Return a backend.

        Raises:
            BackendUnavailableError: It is not ready; ``details["state"]`` says why.
        """
        ...

    def default_preferences(self) -> Sequence[BackendId]:
        """Return the backends to use where the caller names none, best first."""
        ...

    def device_failed(self, backend: IBackend, error: BackendUnavailableError) -> None:
        """Hear that a device of a backend could not be opened."""
        ...

    def device_opened(self, backend: IBackend) -> None:
        """Hear that a device of a backend was opened."""
        ...


class Opened(NamedTuple):
    """A backend that is there, with its options and its device."""

    backend: IBackend
    options: Any
    device: Device


class Absent(NamedTuple):
    """A backend that may be absent, and is.

    Attributes:
        request: As it was written.
        state: The registry's word for it, such as ``not_installed``.
        reason: A sentence.
    """

    request: BackendRequest
    state: str
    reason: str


class Assigned:
    """A backend as it was asked for, which is opened when it is first looked at.

    Args:
        request: What was asked for; once it is opened, with the device that it is.
        registry: Where it comes from.
        open: Opens it.

    Attributes:
        found: What opening it gave; None before.
    """

    __slots__ = ("_label", "_open", "found", "registry", "request")

    def __init__(self, request: BackendRequest, registry: Registry, open: Callable[[], Opened | Absent]) -> None:
        self.request = request
        self.registry = registry
        self.found: Opened | Absent | None = None
        self._open = open
        self._label = ""

    def opened(self) -> Opened | Absent:
        """Open it, unless it was; return what that gave."""
        if self.found is None:
            self.found = self._open()
            if isinstance(self.found, Opened):  # options may name the device
                self.request = self.request._replace(device=self.found.device.index)
                self._label = ""
        return self.found

    @property
    def absence(self) -> Absent | None:
        """Why it is not there; None if it is."""
        found = self.opened()
        return found if isinstance(found, Absent) else None

    @property
    def backend(self) -> IBackend:
        """The backend itself."""
        return self._opened.backend

    @property
    def options(self) -> Any:
        """An instance of its `options_type`."""
        return self._opened.options

    @property
    def device(self) -> Device:
        """Its device that was asked for."""
        return self._opened.device

    @property
    def label(self) -> str:
        """Id, and device where it is not the first."""
        if not self._label:  # which each layer that is asked about would spell anew
            self._label = str(self.request).rstrip("?")
        return self._label

    @property
    def _opened(self) -> Opened:
        found = self.opened()
        if isinstance(found, Absent):
            raise BackendUnavailableError(found.reason, state=found.state)
        return found

    def __repr__(self) -> str:
        return f"<Assigned {self.label}>"


class Refusal(NamedTuple):
    """Why a backend does not run a layer.

    Attributes:
        backend: Id, with the device where it is not the first.
        code: What kind of refusal; besides the backend's own words: "version" (an attribute younger
            than the backend), "contract" (it raised or answered nonsense),
            "absent" (nobody named it, and it cannot be opened), "failed" (it gave the
            layer back), "forbidden", "required", "no_fallback" (the caller), "policy" (the
            placement policy).
        reason: A sentence.
        attribute: The offending attribute or input.
    """

    backend: str
    code: str
    reason: str
    attribute: str | None = None

    def __str__(self) -> str:
        return f"{self.backend}: [{self.code}] {self.reason}{f' (attribute {self.attribute})' if self.attribute else ''}"


class GivenBack(NamedTuple):
    """A part that a backend claimed and could not compile.

    Attributes:
        backend: Id, with the device where it is not the first.
        sources: Names of the layers of the original network that the part stands for.
        reason: What went wrong.
    """

    backend: str
    sources: tuple[str, ...]
    reason: str
