"""A network and its plans: one for the sizes and values of each run, found or made."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph.descriptor import Array
from ..ground.errors import ErrorCode, LoadTimeoutError, RunError, RunTimeoutError
from ..ground.limits import budget, limited
from ..optimizer.open_sizes import OpenSizes
from . import run_errors
from .callers_arrays import check_names, checked_array
from .executor import NetworkRunner
from .plan_cache import PlanCache, Planned
from .plan_maker import PlanMaker, symbol_sizes
from .plans import Plan
from .steps import PlannedMemory

if TYPE_CHECKING:
    from ..optimizer.optimized import OptimizedNetwork, TensorSpec
    from ..optimizer.placement import Placement
    from .plan_snapshot import Snapshot


class PlannedNetwork(NetworkRunner):
    """The part of a loaded network that plans its runs, and tells of the latest plan."""

    def __init__(
        self,
        name: str,
        inputs: tuple[TensorSpec, ...],
        optimize: Callable[[Mapping[str, int], Mapping[str, Array]], OptimizedNetwork | OpenSizes],
        tell_outputs: Callable[[], tuple[TensorSpec, ...] | None],
        maker: PlanMaker,
        *,
        metadata: Mapping[str, str],
        plan_cache_bytes: int,
    ) -> None:
        self._name = name
        self._inputs = inputs
        self._metadata = metadata
        self._optimize = optimize
        self._limits = budget().limits
        self._tell_outputs = tell_outputs
        self._outputs: tuple[TensorSpec, ...] | None = None
        self._maker = maker
        self._planning_lock = threading.Lock()
        self._planned: Planned | None = None  # what is told of the latest plan, also after it was dropped
        self._plans = PlanCache(plan_cache_bytes)
        self._value_inputs: frozenset[str] = frozenset()
        self._copy_times: dict[str, float] = {}  # milliseconds, of the latest profile

    def _begin_with(self, optimized: OptimizedNetwork, *, consumes: bool) -> None:
        """Make the first plan, of what was optimized already."""
        planned = self._maker.build(optimized, {}, consumes=consumes)
        self._keep(_plan_key(symbol_sizes(self._inputs, optimized), {}), planned)
        self._change_to(planned.plan)

    def restore(self, snapshot: Snapshot) -> None:
        """Take the plan of a snapshot as the first one; called once, before the first run.

        Raises:
            DovetailError: A backend cannot be opened.
            ValueError: A backend cannot use what it wrote.
        """
        symbols = snapshot.symbols
        assert symbols is not None  # there is a plan
        planned = self._maker.restored(snapshot, symbols)
        self._keep(_plan_key(symbols, {}), planned)
        self._change_to(planned.plan)

    # -- describing --------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name of the network."""
        return self._name

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, shape (a string is a symbolic size) and dtype of each input."""
        return self._inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Name, shape (a string is a size that depends on the inputs) and dtype of each output.

        Raises:
            RunError: They depend on the value of an input, and nothing was run yet.
        """
        if self._outputs is None:
            self._outputs = self._tell_outputs()
        return self._outputs if self._outputs is not None else self._latest.optimized.outputs

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the model file says of itself, as text by name; see `Network.metadata`."""
        from ..graph.metadata import ReadOnlyMetadata

        return ReadOnlyMetadata(self._metadata)

    @property
    def optimized(self) -> OptimizedNetwork:
        """The optimized network behind the latest plan.

        It is made again if backends released its weights while it was loaded.

        Raises:
            ModelError: It would be made of the model file, which is not there any more, or is
                another.
            RunError: Nothing was planned yet, since symbolic dimensions are open; run it once, or
                give `shapes`.
        """
        latest = self._latest
        if latest.consumed:
            latest.optimized, latest.consumed = latest.optimized.replan(), False
        return latest.optimized

    @property
    def _latest(self) -> Planned:
        if self._planned is None or self._plan is not self._planned.plan:
            self._planned = self._plans.of(self._plan) or self._planned  # kept when the network is unloaded
        if self._planned is None:
            raise RunError(
                f"network {self._name!r} is not planned yet: its symbolic dimensions are open",
                code=ErrorCode.SHAPE_UNKNOWN,
                hint="run it once, or load it with shapes={...}",
            )
        return self._planned

    @property
    def placement(self) -> Placement:
        """Which layer went where, and why; `print(net.placement.explain())`.

        Copies between memories have the times of the latest profile.
        """
        placement = self._latest.optimized.placement
        return placement.with_copy_times(self._copy_times) if self._copy_times else placement

    @property
    def memory(self) -> PlannedMemory:
        """What the latest plan needs in memory."""
        memory: PlannedMemory = self.plan.memory
        return memory

    @property
    def plan(self) -> Plan:
        """The latest plan: its steps, memory and pool of run contexts.

        Raises:
            RunError: The network was unloaded, or nothing was planned yet.
        """
        self._latest  # noqa: B018  # raises if nothing is planned
        plan: Plan | None = self._plan
        if plan is None:
            raise run_errors.unloaded(self._name)
        return plan

    def dump_plan(self) -> dict[str, Any]:
        """Describe the latest plan as data: steps, tensors, places of bytes; see `plan_dump`."""
        from .plan_dump import dump_plan

        return dump_plan(self.plan)

    # -- planning ----------------------------------------------------------------------------------

    def _plan_for(self, feeds: dict[str, Any], timeout: float | None = None) -> tuple[Plan, dict[str, Array]]:
        """Check feeds that do not fit the latest plan as they are; find or make a plan for them.

        Raises:
            InputError: A name, dtype or shape does not fit.
            RunTimeoutError: Making the plan took longer than the run may take.
        """
        check_names(self._name, self._inputs, feeds)
        arrays: dict[str, Array] = {}
        symbols: dict[str, int] = {}
        for spec in self._inputs:
            arrays[spec.name] = checked_array(spec, feeds[spec.name], symbols)
        plan = self._find_plan(arrays, symbols, timeout)
        return plan, arrays

    def _find_plan(self, arrays: Mapping[str, Array], symbols: Mapping[str, int], timeout: float | None) -> Plan:
        planned = self._plans.get(self._key(arrays, symbols))
        if planned is None:
            if self._planner == threading.get_ident():
                raise run_errors.reentrant(self._name)
            planned = self._plan_alone(partial(self._plan_anew, arrays, symbols), timeout)
        self._change_to(planned.plan)
        return planned.plan

    def _key(self, arrays: Mapping[str, Array], symbols: Mapping[str, int]) -> Any:
        return _plan_key(symbols, {name: arrays[name] for name in self._value_inputs})

    def _plan_anew(self, arrays: Mapping[str, Array], symbols: Mapping[str, int], timeout: float | None) -> Planned:
        """Plan, unless another thread did meanwhile."""
        while True:
            values = {name: np.array(arrays[name]) for name in sorted(self._value_inputs)}
            key = _plan_key(symbols, values)
            planned = self._plans.get(key)
            if planned is not None:
                return planned
            made = self._make_plan(symbols, values, timeout)
            if isinstance(made, Planned):
                self._keep(key, made)
                return made
            wanted = set(made.inputs) & set(arrays) - self._value_inputs
            if not wanted:
                raise made.error
            self._value_inputs |= wanted
            del made  # and with it the graph that could not be planned

    def _keep(self, key: Any, planned: Planned) -> None:
        self._plans.add(key, planned)
        self._by_shapes = self._plans.by_shapes

    def _make_plan(self, symbols: Mapping[str, int], values: Mapping[str, Array], timeout: float | None) -> Planned | OpenSizes:
        with self._in_time(timeout):
            kept = self._maker.kept(symbols, values)
            if kept is not None:
                return kept
            optimized = self._optimize(symbols, values)
            return optimized if isinstance(optimized, OpenSizes) else self._maker.build(optimized, values, consumes=True)

    @contextlib.contextmanager
    def _in_time(self, timeout: float | None) -> Iterator[None]:
        """Hold what the block plans to this network's limits, and to the time that a run has."""
        try:
            with limited(self._limits, seconds=timeout):
                yield
        except LoadTimeoutError as error:
            if timeout is None:
                raise
            raise self._late() from error

    def _late(self) -> RunTimeoutError:
        return RunTimeoutError(
            f"network {self._name!r}: the deadline passed while a plan was made for these sizes",
            hint="give more time, or run it once with these sizes beforehand",
        )

    @property
    def _told_of_plans(self) -> str:
        return "unloaded" if self._closed else f"{len(self._plans)} plan(s)"


def _plan_key(symbols: Mapping[str, int], values: Mapping[str, Array]) -> Any:
    named = tuple(sorted((name, array.shape, array.tobytes()) for name, array in values.items()))
    return tuple(sorted(symbols.items())), named
