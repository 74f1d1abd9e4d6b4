"""What a network remembers of one stream of runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph.descriptor import Array
from ..ground.errors import ErrorCode, InputError, RunError
from .callers_arrays import checked_array

if TYPE_CHECKING:
    from ..optimizer.optimized import TensorSpec


class NetworkState:
    """What a network remembers of one stream of runs; made by `StatefulNetwork.new_state`.

    A run that fails leaves it as it was. One run uses it at a time. A copy (`copy.copy`, `pickle`)
    is another stream, which goes on from the same values.
    """

    __slots__ = ("_busy", "_initial", "_name", "_specs", "_values")

    def __init__(self, name: str, specs: Mapping[str, TensorSpec], initial: Mapping[str, Array | None]) -> None:
        self._name = name
        self._specs = specs
        self._initial = initial
        self._values: dict[str, Array] = {}
        self._busy = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._name, dict(self._specs), dict(self._initial), self.values)

    def __repr__(self) -> str:
        told = [f"{name!r}{'' if name in self._values else ' at its beginning'}" for name in self._specs]
        return f"<NetworkState of {self._name!r}: {', '.join(told) or 'nothing'}>"

    def reset(self) -> None:
        """Forget all runs: the next one reads the initial values.

        Raises:
            RunError: A run is using it (`STATE_IN_USE`).
        """
        with self._in_use():
            self._values = {}

    @property
    def values(self) -> dict[str, Array]:
        """Copies of the values by name; those that no run has written yet are left out."""
        return {name: value.copy() for name, value in self._values.items()}

    def set(self, values: Mapping[str, Any]) -> None:
        """Replace values by name, such as those that `values` gave before.

        Raises:
            InputError: A name, type or shape does not fit; nothing is replaced.
            RunError: A run is using it (`STATE_IN_USE`).
        """
        unknown = [str(name) for name in values if name not in self._specs]
        if unknown:
            raise InputError(
                f"network {self._name!r} has no state {', '.join(map(repr, unknown))}",
                code=ErrorCode.INPUT_NAME,
                hint=f"its states are {', '.join(map(repr, self._specs))}",
            )
        symbols: dict[str, int] = {}
        taken = {name: np.array(checked_array(self._specs[name], value, symbols)) for name, value in values.items()}
        with self._in_use():
            self._values = {**self._values, **taken}

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise RunError(
                f"network {self._name!r}: another run is using this state",
                code=ErrorCode.STATE_IN_USE,
                hint="give each stream a state of its own: net.run(feeds, state=net.new_state())",
            )
        try:
            yield
        finally:
            self._busy.release()

    def _fed(self, symbols: Mapping[str, int]) -> dict[str, Array]:
        """Return the value of each state; sizes of those that were never written come by symbol."""
        return {name: self._values[name] if name in self._values else self._first(name, symbols) for name in self._specs}

    def _first(self, name: str, symbols: Mapping[str, int]) -> Array:
        initial, spec = self._initial[name], self._specs[name]
        if initial is not None:
            return initial
        shape = [size if isinstance(size, int) else symbols.get(size) for size in spec.shape]
        if None in shape:
            raise InputError(
                f"network {self._name!r}: the inputs do not tell the sizes of state {name!r} of shape {list(spec.shape)}",
                code=ErrorCode.INPUT_SHAPE,
                hint="load it with shapes={...}",
            )
        zero = spec.quantization.zero_point[0] if spec.quantization is not None else 0
        return np.full([size or 0 for size in shape], zero, spec.dtype.numpy)


def _restored(
    name: str, specs: Mapping[str, TensorSpec], initial: Mapping[str, Array | None], values: dict[str, Array]
) -> NetworkState:
    """Make a state of what `__reduce__` told."""
    state = NetworkState(name, specs, initial)
    state._values = values
    return state


def check_fits(state: object, own: NetworkState) -> None:
    """Refuse what a network cannot take for its own state.

    Args:
        state: What a caller gave.
        own: A state of the network.

    Raises:
        InputError: It is no state, or that of a network that remembers something else.
    """
    if not isinstance(state, NetworkState):
        found = f"{type(state).__name__!r} is no state"
    elif state._specs.keys() != own._specs.keys():
        held = ", ".join(map(repr, state._specs)) or "nothing"
        found = f"a state of network {state._name!r} was given, which remembers {held}"
    else:
        return
    raise InputError(
        f"network {own._name!r}: {found}", code=ErrorCode.INPUT_NAME, hint="make it by new_state() of the network that is run"
    )
