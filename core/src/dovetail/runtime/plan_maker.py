"""Make the plans of one network: of an optimized network, or of what an earlier process kept."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ..contract.backend_calls import notify
from ..contract.interfaces import ITensorHandle
from ..graph.descriptor import Array
from ..ground.errors import LimitError
from ..ground.host_exceptions import is_of_host
from ..ground.limits import budget
from ..ground.logs import Log
from ..optimizer.open_sizes import OpenSizes
from ..optimizer.optimized import complete
from .arenas import allocator
from .backends_in_use import BackendKey, BackendsInUse, Factory, OpenBackend, PartFailedError
from .plan_builder import PlanBuilder
from .plan_cache import Planned
from .resources import Resources

if TYPE_CHECKING:
    from ..optimizer.optimized import OptimizedNetwork, TensorSpec
    from .plan_snapshot import PlanSnapshots, Snapshot

_log = Log("dovetail")


class PlanMaker:
    """Makes the plans of one network, with the backends that it opens for them.

    Args:
        name: Of the network.
        inputs: Of the network.
        optimize: Makes the optimized network for sizes and values.
        resources: Of the runtime.
        threads: How many of its threads a run may use.
        snapshots: Where plans are found written down, and kept; None: nowhere.

    Attributes:
        opened: The backends in use.
        factories: What makes their workloads.
        spare_arenas: Host memory that no run context holds.
    """

    def __init__(
        self,
        name: str,
        inputs: tuple[TensorSpec, ...],
        optimize: Callable[[Mapping[str, int], Mapping[str, Array]], OptimizedNetwork | OpenSizes],
        resources: Resources,
        threads: int,
        snapshots: PlanSnapshots | None,
    ) -> None:
        self.opened: dict[BackendKey, OpenBackend] = {}
        self.factories: dict[BackendKey, Factory] = {}
        self.spare_arenas: list[ITensorHandle] = []
        self._name = name
        self._inputs = inputs
        self._optimize = optimize
        self._resources = resources
        self._threads = threads
        self._snapshots = snapshots
        self._network_lock = threading.Lock()
        self._told: set[str] = set()

    def kept(self, symbols: Mapping[str, int], values: Mapping[str, Array]) -> Planned | None:
        """Return what an earlier process planned for these sizes, if it wrote that down."""
        if self._snapshots is None or values:
            return None
        snapshot = self._snapshots.find(symbols)
        try:
            return None if snapshot is None else self.restored(snapshot, symbols)
        except Exception as error:
            if is_of_host(error) or isinstance(error, MemoryError | LimitError):
                raise
            _log.info("network %r: a plan that was kept cannot be used: %s", self._name, error)
            return None

    def restored(self, snapshot: Snapshot, symbols: Mapping[str, int]) -> Planned:
        """Return the plan of a snapshot, which was made for these sizes.

        Raises:
            Exception: Whatever comes of what lay there.
        """
        snapshots = self._snapshots
        assert snapshots is not None  # it came from there
        budget().take_memory(snapshot.nbytes, f"the plan of network {self._name!r}")
        assigned = {name: snapshots.backend(name) for name in snapshot.backends}
        opened = {
            BackendKey(one.request.id, one.request.device): self._resources.open_backend(one) for one in assigned.values()
        }
        with self._opening(opened) as factories:
            used = BackendsInUse(None, opened, factories, self._threads)
            keys = {name: used.open(one) for name, one in assigned.items()}
            parts = snapshot.parts(lambda name, memory: used.restored(keys[name], memory))
            if parts.threads != self._threads:  # each has memory of its own
                raise ValueError(f"it was made for {parts.threads} threads, not for {self._threads}")
            plan = parts.plan(
                {},
                queues=[],
                arenas=[allocator(arena, used.manager(arena.domain), "the core") for arena in parts.arenas],
                serial_locks=[],
                pool=self._resources.pool,
                spare_arenas=self.spare_arenas,
            )
        self._tell(snapshot.facts.told)
        return Planned(plan, lambda: complete(self._optimize(symbols, {})), consumed=False, held=snapshot.nbytes)

    def build(self, optimized: OptimizedNetwork, values: Mapping[str, Array], *, consumes: bool) -> Planned:
        """Plan; a part that its backend cannot compile is placed anew, until there is none."""
        while True:
            try:
                return self._build_once(optimized, values, consumes=consumes)
            except PartFailedError as failed:
                optimized, consumes = optimized.give_back(failed.layer, failed.cause), True

    def _build_once(self, optimized: OptimizedNetwork, values: Mapping[str, Array], *, consumes: bool) -> Planned:
        from ..optimizer.optimized import TensorSpec

        self._tell(optimized.placement.remarks(self._name))
        layers = {layer.name: layer for layer in optimized.graph.inputs}
        inputs = []
        for spec in self._inputs:
            if spec.name in values:
                shape: tuple[int, ...] = values[spec.name].shape
            else:
                shape = layers[spec.name].output.known_info.sizes
            inputs.append(TensorSpec(spec.name, shape, spec.dtype, spec.quantization))
        outputs = []
        for layer, name in zip(optimized.graph.outputs, optimized.output_names, strict=True):
            source = layer.inputs[0].info
            assert source is not None  # an optimized network has an info on every slot
            outputs.append(TensorSpec(name, source.sizes, source.dtype, source.quantization))
        opened = self._open_backends(optimized)
        make: Callable[..., PlanBuilder] = PlanBuilder
        if self._resources.guard is not None:
            from .guarded_plan_builder import GuardedPlanBuilder

            make = partial(GuardedPlanBuilder, guard=self._resources.guard)
        with self._opening(opened) as factories:
            used = BackendsInUse(optimized, opened, factories, self._threads)
            builder = make(used, self._resources.pool, self._network_lock, self.spare_arenas, consumes=consumes)
            planned = Planned(builder.build(inputs, outputs, dict(values)), optimized, consumed=builder.consumed)
            if self._snapshots is not None and not values:
                assert builder.parts is not None  # it has built
                self._snapshots.keep(optimized, symbol_sizes(self._inputs, optimized), builder.parts, factories)
        return planned

    @contextlib.contextmanager
    def _opening(self, opened: Mapping[BackendKey, OpenBackend]) -> Iterator[dict[BackendKey, Factory]]:
        """Tell the contexts of backends that are new here before and after the block makes a plan.

        Gives the factories of the network, to which the block adds; they stay if it succeeds.
        """
        factories = dict(self.factories)
        fresh = [backend.context for key, backend in opened.items() if key not in self.opened and backend.context is not None]
        for context in fresh:
            notify(context.before_load, self._name)
        failure: BaseException | None = None
        try:
            yield factories
        except BaseException as error:
            failure = error.cause if isinstance(error, PartFailedError) else error
            raise
        finally:
            for context in fresh:
                notify(context.after_load, self._name, failure)
            if failure is None:
                self.opened.update(opened)
                self.factories.update(factories)

    def _tell(self, remarks: Iterable[tuple[str, bool, str]]) -> None:
        """Log, once per network, what is not as asked for: each set of sizes has its own plan."""
        for subject, is_warning, text in remarks:
            if subject not in self._told:
                self._told.add(subject)
                (_log.warning if is_warning else _log.info)("%s", text)

    def _open_backends(self, optimized: OptimizedNetwork) -> dict[BackendKey, OpenBackend]:
        """Open what the plan needs, in a fixed order."""
        opened: dict[BackendKey, OpenBackend] = {}
        for assigned in optimized.assignment.values():
            if assigned is not None:
                key = BackendKey(assigned.request.id, assigned.request.device)
                if key not in opened:
                    opened[key] = self._resources.open_backend(assigned)
        return opened


def symbol_sizes(specs: tuple[TensorSpec, ...], optimized: OptimizedNetwork) -> dict[str, int]:
    """Return the sizes that the symbolic dimensions have in an optimized network."""
    layers = {layer.name: layer for layer in optimized.graph.inputs}
    return {
        dimension: size
        for spec in specs
        for dimension, size in zip(spec.shape, layers[spec.name].output.known_info.sizes, strict=True)
        if isinstance(dimension, str)
    }
