"""A backend that was asked for and is ready, and what it may say of a layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..contract.backend_id import BackendId, BackendRequest
from ..contract.interfaces import Device, IBackend
from ..ground.errors import BackendUnavailableError
from ..ground.records import NamedTuple, Record

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


class Assigned(Record, frozen=True, eq=False):
    """A ready backend as it was asked for, with its options, device and source registry."""

    request: BackendRequest
    backend: IBackend
    options: Any
    device: Device
    registry: Registry

    @property
    def label(self) -> str:
        """Id, and device where it is not the first."""
        return str(self.request).rstrip("?")

    def __repr__(self) -> str:
        return f"<Assigned {self.label}>"


class Refusal(NamedTuple):
    """Why a backend does not run a layer.

    Attributes:
        backend: Id, with the device where it is not the first.
        code: What kind of refusal; besides the backend's own words: "version" (an attribute younger
            than the backend), "contract" (it raised or answered nonsense), "failed" (it gave the
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
