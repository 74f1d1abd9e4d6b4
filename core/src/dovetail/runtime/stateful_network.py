"""A network that remembers: states are fed to each run and taken from its results."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph.descriptor import Array
from ..ground.errors import ErrorCode, GraphError, InputError, RunError
from .callers_arrays import check_names, checked_array
from .loaded_network import LoadedNetwork

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ..graph.state import State
    from ..optimizer.optimized import TensorSpec
    from .executor import Binding


class NetworkState:
    """What a network remembers of one stream of runs; made by `StatefulNetwork.new_state`.

    A run that fails leaves it as it was. One run uses it at a time.
    """

    __slots__ = ("_busy", "_initial", "_name", "_specs", "_values")

    def __init__(self, name: str, specs: Mapping[str, TensorSpec], initial: Mapping[str, Array | None]) -> None:
        self._name = name
        self._specs = specs
        self._initial = initial
        self._values: dict[str, Array] = {}
        self._busy = threading.Lock()

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


class StatefulNetwork(LoadedNetwork):
    """A loaded network whose runs read what the run before left.

    It has a state of its own, which `run` uses where it is given none: successive runs are one
    stream. Streams beside it have states of theirs, from `new_state`. Two runs at once never share
    a state.
    """

    _states: Mapping[str, State] = {}
    _state: NetworkState

    def remember(self, states: Mapping[str, State]) -> None:
        """Take over the states that the network was made with; called once, before the first run.

        Raises:
            GraphError: One is never written.
        """
        unwritten = [name for name, state in states.items() if not state.output]
        if unwritten:
            raise GraphError(
                f"network {self.name!r} never writes its state {', '.join(map(repr, unwritten))}",
                hint="add network.write_state(name, slot), or make it a constant",
            )
        self._states = states
        self._output_names -= {state.output for state in states.values()}
        self._state = self.new_state()

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, shape and dtype of each input; states are none."""
        return tuple(spec for spec in super().inputs if spec.name not in self._states)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Name, shape and dtype of each output; states are none."""
        written = {state.output for state in self._states.values()}
        return tuple(spec for spec in super().outputs if spec.name not in written)

    @property
    def state(self) -> NetworkState:
        """The state that runs use which are given none."""
        return self._state

    def new_state(self) -> NetworkState:
        """Return a state for another stream of runs, at its beginning."""
        specs = {spec.name: spec for spec in super().inputs if spec.name in self._states}
        return NetworkState(self.name, specs, {name: self._states[name].initial for name in specs})

    def reset_state(self) -> None:
        """Forget all runs: the next one is the first of its stream.

        Raises:
            RunError: A run is using the state (`STATE_IN_USE`).
        """
        self._state.reset()

    def run(
        self,
        feeds: Mapping[str, Any],
        *,
        timeout: float | None = None,
        outputs: Sequence[str] | None = None,
        state: NetworkState | None = None,
    ) -> dict[str, Array]:
        """Run the network once, and remember what it says is to be remembered.

        Args:
            feeds: Array by input name, as for a network without states.
            timeout: Seconds.
            outputs: Names of what to return, as for a network without states; what is to be
                remembered is, whatever they are.
            state: The stream that the run belongs to; default that of the network itself.

        Returns:
            A fresh array by output name.

        Raises:
            InputError: A name, dtype or shape does not fit; nothing ran.
            RunTimeoutError: The deadline passed.
            RunError: Another run is using the state (`STATE_IN_USE`), a step failed, or the network
                was unloaded.
        """
        stream = self._state if state is None else state
        if outputs is not None:
            return self._call(partial(self._run_for, feeds, outputs, timeout, state=stream))
        given = self._as_dict(feeds)
        check_names(self.name, self.inputs, given)
        with stream._in_use():
            results: dict[str, Array] = super().run({**given, **stream._fed(self._sizes(given))}, timeout=timeout)
            stream._values = {one.name: results.pop(one.output) for one in self._states.values()}
        return results

    def submit(
        self,
        feeds: Mapping[str, Any],
        *,
        timeout: float | None = None,
        outputs: Sequence[str] | None = None,
        state: NetworkState | None = None,
    ) -> Future[dict[str, Array]]:
        """Run on a thread of the runtime; returns a future of what `run` returns."""
        self._check_open()
        return self._resources.submitting.submit(self.run, feeds, timeout=timeout, outputs=outputs, state=state)

    def bind(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None = None) -> Binding:
        """Refuse: a binding has fixed arrays, and a state is another array after each run.

        Raises:
            InputError: Always (`BINDING_INVALID`).
        """
        raise InputError(
            f"network {self.name!r} remembers {', '.join(self._states)}: it cannot be bound",
            code=ErrorCode.BINDING_INVALID,
            hint="use run(), or load dovetail.optimize(network), whose states are inputs and outputs",
        )

    def _sizes(self, feeds: Mapping[str, Any]) -> dict[str, int]:
        """Return the sizes that symbolic dimensions have; what does not fit is told later."""
        found: dict[str, int] = {}
        for spec in self.inputs:
            shape = getattr(feeds.get(spec.name), "shape", ())
            found |= {name: size for name, size in zip(spec.shape, shape, strict=False) if isinstance(name, str)}
        return found
