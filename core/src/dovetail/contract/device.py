"""A device of a backend, as data."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ..ground.records import Record, field

Fact = str | int | float | bool


class Device(Record, frozen=True):
    """A device as its backend states it: what is known without opening it.

    Two devices of one backend may differ, so every question about a layer, a part or an artefact
    comes with the device that it is asked for. The core compares and shows facts; what they mean is
    the backend's own business.

    Attributes:
        index: Its place in `IBackend.devices`.
        name: For people.
        memory_bytes: Memory of its own; None: not said.
        half_precision: Whether it computes in float16; None: not said.
        revision: Of the chip and what else decides what it can do, such as "B1"; empty: not said.
        facts: Whatever else the backend's own code asks for, by name.
    """

    index: int = 0
    name: str = "CPU"
    memory_bytes: int | None = None
    half_precision: bool | None = None
    revision: str = ""
    facts: Mapping[str, Fact] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))

    def __reduce__(self) -> tuple[Any, ...]:
        state = (self.index, self.name, self.memory_bytes, self.half_precision, self.revision, dict(self.facts))
        return type(self), state

    def __hash__(self) -> int:
        return hash((self.index, self.name, self.memory_bytes, self.half_precision, self.revision))

    @property
    def identity(self) -> dict[str, Any]:
        """All that tells devices apart, in JSON's terms, without the index.

        So what was made for one serves its twin.
        """
        return {
            "name": self.name,
            "memory_bytes": self.memory_bytes,
            "half_precision": self.half_precision,
            "revision": self.revision,
            "facts": dict(sorted(self.facts.items())),
        }

    @property
    def description(self) -> str:
        """All that is known of it, for people, in one line."""
        half = {True: "half precision", False: "no half precision", None: ""}[self.half_precision]
        memory = "" if self.memory_bytes is None else f"{self.memory_bytes} bytes of memory"
        revision = f"revision {self.revision}" if self.revision else ""
        facts = [f"{name} {value}" for name, value in sorted(self.facts.items())]
        return ", ".join(filter(None, [self.name, memory, half, revision, *facts]))


DEFAULT_DEVICE = Device()
"""The one device of a backend that lists none: device 0, without facts."""
