"""The runtime: one thread pool, the contexts of the backends in use, the loaded networks."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..graph.descriptor import Array, Constant
from ..graph.graph import Graph
from ..graph.graph_limits import check_graph
from ..ground.close_names import named_arguments
from ..ground.errors import ErrorCode, OptionError, RunError
from ..ground.fixed_to_process import FixedToProcess
from ..ground.gc_deferral import gc_deferred, network_dropped
from ..ground.limits import budget, limited
from ..ground.logs import Log
from ..ground.progress import listening
from ..ground.usable_cores import usable_cores
from ..layers.network import Network
from ..optimizer import (
    CompileRequest,
    NetworkSource,
    OptimizedNetwork,
    TensorSpec,
    compile_network,
    require_network,
)
from ..optimizer.open_sizes import OpenSizes
from ..optimizer.oracles import oracles_kept_running, with_oracles
from .loaded_network import LoadedNetwork
from .plan_cache import DEFAULT_BYTES
from .resources import Resources
from .workload import inside_python_workload

if TYPE_CHECKING:
    from ..graph.state import State
    from ..optimizer import SharedConstants
    from .guard import Guard
    from .plan_snapshot import PlanSnapshots, Snapshot

_log = Log("dovetail")


def _check_guard(guard: object) -> None:
    from .guard import Guard

    if not isinstance(guard, Guard):
        raise OptionError(f"guard={guard!r} is no Guard", code=ErrorCode.OPTION_INVALID, hint="dovetail.runtime.Guard()")


class Runtime(FixedToProcess):
    """Loads networks and runs them.

    Several may live in one process; nothing is shared between them but the backends' code.

    Args:
        threads: CPU threads that kernels may use, the caller's included; default all usable cores.
        spin_us: How long an idle worker spins for its next job before it sleeps, in microseconds.
        guard: Watch what kernels touch, to find one that reads or writes past an end; for
            debugging, and slow. See `Guard`.

    Raises:
        OptionError: A number is out of range.
    """

    elsewhere = "threads can share it; make another one in another process"

    @named_arguments("Runtime")
    def __init__(self, *, threads: int | None = None, spin_us: int = 50, guard: Guard | None = None) -> None:
        count = usable_cores() if threads is None else threads
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= 1023:
            raise OptionError(f"threads={threads!r} is not a count", code=ErrorCode.OPTION_INVALID, hint="1 to 1023")
        if not isinstance(spin_us, int) or not 0 <= spin_us <= 1_000_000:
            raise OptionError(f"spin_us={spin_us!r} is out of range", code=ErrorCode.OPTION_INVALID, hint="0 to 1,000,000")
        if guard is not None:
            _check_guard(guard)
        self._resources = Resources(count, spin_us, guard)
        self._lock = threading.RLock()
        self._networks: weakref.WeakSet[LoadedNetwork] = weakref.WeakSet()
        # A runtime that is dropped rather than closed gives its devices back all the same.
        self._finalizer = weakref.finalize(self, self._resources.close)
        self._finalizer.atexit = False

    @property
    def threads(self) -> int:
        """CPU threads that kernels may use, the caller's included."""
        return self._resources.threads

    @property
    def keeps_plans(self) -> bool:
        """Whether plans are those that other runtimes make, too: not where kernels are watched."""
        return self._resources.guard is None

    @named_arguments("Runtime.load", lambda: CompileRequest._fields)
    def load(
        self,
        network: Network | NetworkSource | OptimizedNetwork,
        *,
        threads: int | None = None,
        name: str | None = None,
        optimize: CompileRequest | Mapping[str, Any] | None = None,
        plan_cache_bytes: int | None = None,
        snapshots: PlanSnapshots | None = None,
    ) -> LoadedNetwork:
        """Make a network ready to run.

        Args:
            network: An optimized network, or one that is optimized here; a `NetworkSource` if its
                weights may be consumed.
            threads: At most this many of the runtime's threads.
            name: For reports; default the network's own.
            optimize: What is asked for a network that is not optimized yet: a `CompileRequest`, or
                arguments of `dovetail.optimize` by name. Symbolic dimensions that stay open, and
                inputs whose value shapes the result, are fixed by each run, and planned for if they
                are new. Its `limits` count for an optimized network too.
            plan_cache_bytes: How many bytes those plans may hold besides what they share (weights,
                what CPU backends pack from them, memory of runs), 256 MiB by default; beyond that
                the least recently used are dropped. The latest is kept in any case, and not
                counted.
            snapshots: Where its plans are found written down, and kept; None: nowhere.

        Raises:
            DovetailError: Whatever optimizing or a backend reports.
        """
        plan_cache_bytes = self._checked(threads, plan_cache_bytes)
        request = CompileRequest.of(optimize)
        # The listener is of this load only: plans that are made later have none.
        later = request.replaced(progress=None, limits=None)
        with gc_deferred(), listening(request.progress), limited(request.limits), oracles_kept_running():
            return self._load(network, threads, name, later, plan_cache_bytes, snapshots=snapshots)

    def restore(
        self,
        snapshot: Snapshot,
        source: NetworkSource,
        snapshots: PlanSnapshots,
        *,
        threads: int | None = None,
        optimize: CompileRequest,
        plan_cache_bytes: int | None = None,
    ) -> LoadedNetwork:
        """Make a network ready to run that an earlier process wrote down.

        Args:
            snapshot: Of the network, with its plan unless sizes are open. Then `snapshots` is asked
                for each plan, also for one that this has.
            source: Where the network itself comes from, should somebody ask for it.
            snapshots: Where its other plans are.
            threads: As for `load`.
            optimize: What was asked for.
            plan_cache_bytes: As for `load`.

        Raises:
            DovetailError: A backend cannot be opened.
            ValueError: A backend cannot use what it wrote.
        """
        plan_cache_bytes = self._checked(threads, plan_cache_bytes)
        facts, threads = snapshot.facts, min(threads or self.threads, self.threads)
        request = with_oracles(optimize.replaced(progress=None, limits=None, threads=threads), run_once)
        is_open = facts.outputs is None
        shared: list[SharedConstants] = []  # there is none before somebody asks: importing it takes as long as a small load

        def again(shapes: Mapping[str, int], values: Mapping[str, Array]) -> OptimizedNetwork | OpenSizes:
            if is_open:
                source.keep()  # each set of sizes is planned from the network, weights included
                shared[:] = shared or [_shared_constants()]
            asked = request.replaced(shapes={**request.shapes, **shapes}, values=values)
            with oracles_kept_running():
                return compile_network(source, asked, shared[0] if shared else None)

        def outputs() -> tuple[TensorSpec, ...] | None:
            return _open_outputs(source, {})() if facts.outputs is None else facts.outputs

        with gc_deferred():
            loaded = _kind(facts.states)(
                self._resources,
                self._forget,
                facts.name,
                facts.inputs,
                again,
                None,
                outputs,
                facts.output_names,
                partial(self._load_with_outputs, source, facts.states, threads, facts.name, request, plan_cache_bytes),
                threads,
                consumable=True,
                metadata=facts.metadata,
                plan_cache_bytes=plan_cache_bytes,
                snapshots=snapshots,
            )
            if not is_open:
                loaded.restore(snapshot)
        return self._take(loaded, facts.states)

    def _checked(self, threads: object, plan_cache_bytes: object) -> int:
        """Check arguments of a load; return how many bytes plans may hold.

        Raises:
            OptionError: One is out of range.
            RunError: The runtime was closed.
        """
        self._resources.check_open()
        if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool) or threads < 1):
            raise OptionError(f"threads={threads!r} is not a count", code=ErrorCode.OPTION_INVALID, hint="1 or more")
        if plan_cache_bytes is None:
            return DEFAULT_BYTES
        if not isinstance(plan_cache_bytes, int) or isinstance(plan_cache_bytes, bool) or plan_cache_bytes < 0:
            text = f"plan_cache_bytes={plan_cache_bytes!r} is not a number of bytes"
            raise OptionError(text, code=ErrorCode.OPTION_INVALID, hint="0 or more")
        return plan_cache_bytes

    def _take(self, loaded: LoadedNetwork, states: Mapping[str, State]) -> LoadedNetwork:
        """Take over a network that was loaded."""
        if states:
            loaded.remember(states)  # type: ignore[attr-defined]  # it is a StatefulNetwork
        with self._lock:
            self._networks.add(loaded)
        self._resources.used_by(loaded.finalizer)
        return loaded

    def _load(
        self,
        network: Network | NetworkSource | OptimizedNetwork,
        threads: int | None,
        name: str | None,
        request: CompileRequest,
        plan_cache_bytes: int,
        with_outputs: Callable[[Sequence[str]], LoadedNetwork] | None = None,
        snapshots: PlanSnapshots | None = None,
    ) -> LoadedNetwork:
        threads = min(threads or self.threads, self.threads)
        origin: NetworkSource
        again: Callable[[Mapping[str, int], Mapping[str, Array]], OptimizedNetwork | OpenSizes]
        source: NetworkSource | None = None
        tell_outputs: Callable[[], tuple[TensorSpec, ...] | None]
        states: Mapping[str, State] = {}  # an optimized network's are inputs and outputs like others
        is_own = False
        if isinstance(network, OptimizedNetwork):
            if request != CompileRequest():
                raise OptionError("the network is optimized already", code=ErrorCode.OPTION_INVALID, hint="give no `optimize`")
            check_graph(budget(), network.graph)
            optimized: OptimizedNetwork | None = network
            inputs = network.inputs
            output_names, tell_outputs = network.output_names, network.tell_outputs
            again = network.replan_as_far_as_known
            origin, asked = network.source, network.request.replaced(limits=None)
        else:
            source = origin = network if isinstance(network, NetworkSource) else NetworkSource(require_network(network))
            is_own, graph, states = source.is_consumable, source.network, source.states
            check_graph(budget(), graph)
            asked = request = with_oracles(request.replaced(threads=threads), run_once)
            output_names = tuple(source.labels.get(layer.name, layer.name) for layer in graph.outputs)
            fixed = request.values
            infos = {layer.name: layer.output.known_info for layer in graph.inputs if layer.name not in fixed}
            if not all(info.is_concrete for info in infos.values()):
                source.keep()  # each set of sizes is planned from the network, weights included
            del graph  # weights that may be consumed are held by nobody else
            made = compile_network(source, request)
            optimized = None if isinstance(made, OpenSizes) else made
            del made
            if optimized is None:
                source.keep()  # so is each set of values that shape results
            tell_outputs = _open_outputs(source, fixed) if optimized is None else optimized.tell_outputs
            inputs = tuple(TensorSpec(name, info.shape, info.dtype, info.quantization) for name, info in infos.items())
            shared = None if source.is_consumable else _shared_constants()  # else it is made of other arrays each time

            def again(shapes: Mapping[str, int], values: Mapping[str, Array]) -> OptimizedNetwork | OpenSizes:
                with oracles_kept_running():
                    return compile_network(origin, request.replaced(shapes=shapes, values={**fixed, **values}), shared)

        loaded = _kind(states)(
            self._resources,
            self._forget,
            name or network.name,
            inputs,
            again,
            optimized,
            tell_outputs,
            output_names,
            with_outputs or partial(self._load_with_outputs, origin, states, threads, name, asked, plan_cache_bytes),
            threads,
            consumable=optimized is not network,
            metadata=origin.metadata,
            plan_cache_bytes=plan_cache_bytes,
            snapshots=snapshots,
        )
        if snapshots is not None and optimized is None:
            snapshots.keep_open(loaded.name, inputs, output_names, states, origin.metadata)
        if source is not None:  # nobody else has what was made of it
            weights = 0
            if is_own:
                weights = loaded.memory.constant_bytes if source.is_consumable else _constant_bytes(source.network)
            graph = source.network if optimized is None else optimized.graph
            weakref.finalize(loaded, network_dropped, len(graph), weights).atexit = False
        return self._take(loaded, states)

    def _load_with_outputs(
        self,
        origin: NetworkSource,
        states: Mapping[str, State],
        threads: int,
        name: str | None,
        request: CompileRequest,
        plan_cache_bytes: int,
        names: Sequence[str],
    ) -> LoadedNetwork:
        """Load a network with other outputs, in the limits of the load under way.

        The result does the same for further ones: names are always of the original network.
        """
        again = partial(self._load_with_outputs, origin, states, threads, name, request, plan_cache_bytes)
        with gc_deferred(), oracles_kept_running():
            return self._load(origin.with_outputs(names, states), threads, name, request, plan_cache_bytes, again)

    def __repr__(self) -> str:
        held = "closed" if self.is_closed else f"{len(self._networks)} network(s)"
        return f"<Runtime: {self.threads} thread(s), {held}>"

    @property
    def is_closed(self) -> bool:
        """True once `close` was called."""
        return self._resources.is_closed

    @property
    def networks(self) -> tuple[LoadedNetwork, ...]:
        """Networks that are loaded, those of `LoadedNetwork.with_outputs` included."""
        return tuple(sorted(self._networks, key=lambda network: network.name))

    def _forget(self, network: LoadedNetwork) -> None:
        with self._lock:
            self._networks.discard(network)

    def close(self) -> None:
        """Unload everything and give the devices back. Idempotent.

        Raises:
            RunError: It was called from inside a run of one of its networks, which would wait for
                itself.
        """
        networks = list(self._networks)
        if any(one._is_inside() for one in networks) or (inside_python_workload() and any(one._active for one in networks)):
            raise RunError("a runtime cannot be closed from inside one of its runs", hint="close it once the run has returned")
        if not self._resources.begin_to_close():
            return
        for network in list(self._networks):
            network.unload()
        self._finalizer.detach()
        self._resources.close()

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run_once(source: NetworkSource, request: CompileRequest, seconds: float) -> list[Array]:
    """Run a network without inputs on one thread, in so many seconds; return its outputs.

    Raises:
        DovetailError: Whatever optimizing it, loading it or the run reports.
    """
    with Runtime(threads=1) as runtime, runtime.load(source, optimize=request) as loaded:
        return list(loaded.run({}, timeout=seconds).values())


def _kind(states: Mapping[str, State]) -> type[LoadedNetwork]:
    if not states:
        return LoadedNetwork
    from .stateful_network import StatefulNetwork

    return StatefulNetwork


def _shared_constants() -> SharedConstants:
    from ..optimizer import SharedConstants

    return SharedConstants()


def _open_outputs(source: NetworkSource, values: Mapping[str, Any]) -> Callable[[], tuple[TensorSpec, ...] | None]:
    """Return what describes the outputs of a network whose sizes are open."""
    from ..optimizer.symbolic import open_specs, symbolic_outputs

    if values:
        specs = symbolic_outputs(source.network, values, source.labels)
        return lambda: specs
    infos, labels = source.output_infos_later(), source.labels
    return lambda: open_specs(infos(), labels)


def _constant_bytes(network: Graph) -> int:
    values = (layer.descriptor.value for layer in network if isinstance(layer.descriptor, Constant))
    return sum({value.__array_interface__["data"][0]: value.nbytes for value in values}.values())


_default: Runtime | None = None
_default_lock = threading.RLock()  # a signal's handler may load a network while this thread makes the runtime


def default_runtime() -> Runtime:
    """Return the runtime that `dovetail.load` uses.

    There is one per process, made on first use, never closed by dovetail.
    """
    global _default
    with _default_lock:
        while _default is None or _default.is_closed:
            made = Runtime()
            if _default is None or _default.is_closed:
                _default = made
            else:  # a handler was first
                made.close()
        return _default
