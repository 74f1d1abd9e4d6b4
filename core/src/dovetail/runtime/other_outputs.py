"""The networks that a loaded network makes of itself to show tensors from its inside."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from itertools import count
from typing import Generic, TypeVar

from . import run_errors
from .executor import NetworkRunner

_Network = TypeVar("_Network", bound=NetworkRunner)

KEPT = 8
"""Sets of outputs whose network is kept while nobody else holds it."""


def output_names(outputs: object) -> tuple[str, ...]:
    """Check names of outputs, and return each once.

    Raises:
        InputError: They are no list of names (`OUTPUT_NAME`).
    """
    names = tuple(outputs) if isinstance(outputs, Sequence) and not isinstance(outputs, str | bytes | bytearray) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise run_errors.no_output_names(outputs)
    return tuple(dict.fromkeys(names))


class OtherOutputs(Generic[_Network]):
    """Networks by the names of their outputs.

    Looking up takes no lock: what is looked up is replaced, never changed. Who adds holds the lock
    for planning of the network they are made of.

    Args:
        make: Loads the network with outputs of these names.
    """

    def __init__(self, make: Callable[[Sequence[str]], _Network]) -> None:
        self._make = make
        self._kept: dict[tuple[str, ...], _Network] = {}
        self._uses: dict[tuple[str, ...], int] = {}
        self._count = count()
        self._loaded: tuple[weakref.ref[_Network], ...] = ()

    def get(self, names: tuple[str, ...]) -> _Network | None:
        """Return the network with these outputs, None if there is none, or it was unloaded."""
        found = self._kept.get(names)
        if found is None or found._closed:
            return None
        self._uses[names] = next(self._count)
        return found

    def add(self, names: tuple[str, ...]) -> _Network:
        """Load the network with these outputs; the least recently used of too many is let go."""
        made = self._make(names)
        others = {others: network for others, network in self._kept.items() if others != names}
        if len(others) >= KEPT:
            del others[min(others, key=lambda one: self._uses.get(one, -1))]
        self._kept = {**others, names: made}
        self._uses = {one: self._uses.get(one, -1) for one in others} | {names: next(self._count)}
        self._loaded = (*(one for one in self._loaded if one() is not None), weakref.ref(made))
        return made

    @property
    def loaded(self) -> list[_Network]:
        """Those that still are, kept or held by somebody else."""
        found = [one() for one in self._loaded]
        return [network for network in found if network is not None and not network._closed]
