"""A network that remembers: states are fed to each run and taken from its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..graph.descriptor import Array
from ..ground.errors import ErrorCode, GraphError, InputError
from . import run_errors
from .callers_arrays import check_names
from .loaded_network import NO_FEEDS, LoadedNetwork
from .network_state import NetworkState, check_fits

if TYPE_CHECKING:
    from typing import Never

    from ..graph.state import State
    from ..optimizer.optimized import TensorSpec
    from .executor import Binding


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
        /,
        feeds: Mapping[str, Any] = NO_FEEDS,
        *_more: Any,
        timeout: float | None = None,
        outputs: Sequence[str] | None = None,
        state: NetworkState | None = None,
        **_unknown: Never,
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
            TypeError: There is more than one argument by position, as other libraries have it.
        """
        if _more:
            raise run_errors.called_as_elsewhere(feeds, _more)
        if _unknown:
            raise run_errors.no_argument("run", _unknown, self.inputs)
        stream = self._state
        if state is not None:
            check_fits(state, stream)
            stream = state
        if outputs is not None:
            return self._call(partial(self._run_for, feeds, outputs, timeout, state=stream))
        given = self._as_dict(feeds)
        check_names(self.name, self.inputs, given)
        with stream._in_use():
            results: dict[str, Array] = super().run({**given, **stream._fed(self._sizes(given))}, timeout=timeout)
            stream._values = {one.name: results.pop(one.output) for one in self._states.values()}
        return results

    def bind(
        self, /, inputs: Mapping[str, Any] = NO_FEEDS, outputs: Mapping[str, Any] | None = None, **_unknown: Never
    ) -> Binding:
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
