"""A network that is ready to run."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..contract.backend_calls import notify
from ..contract.interfaces import IBackendContext, ITensorHandle
from ..graph.descriptor import Array
from ..ground.close_names import NamedElsewhere
from ..ground.errors import ErrorCode, RunError
from ..ground.fixed_to_process import FixedToProcess
from ..optimizer.open_sizes import OpenSizes
from . import run_errors
from .backends_in_use import BackendKey, Factory, OpenBackend
from .callers_arrays import binding_error, bound_outputs, check_names, host_array, same_memory
from .executor import Binding
from .other_outputs import OtherOutputs
from .other_outputs import output_names as names_of
from .plan_cache import PlanCache
from .plan_maker import PlanMaker
from .planned_network import PlannedNetwork
from .resources import Resources
from .workload import inside_python_workload

if TYPE_CHECKING:
    from concurrent.futures import Future
    from typing import Never

    from ..optimizer.optimized import OptimizedNetwork, TensorSpec
    from .network_state import NetworkState
    from .plan_snapshot import PlanSnapshots
    from .profile import Profile

NO_FEEDS: Mapping[str, Any] = {}
"""What a network without inputs is run with, and what any is where arrays were given otherwise."""


class LoadedNetwork(FixedToProcess, PlannedNetwork):
    """A network loaded into a runtime; made by `dovetail.load` or `Runtime.load`.

    Safe to run from many threads at once: each run has memory of its own. Use it as a context
    manager, or call `unload`.
    """

    elsewhere = (
        "threads can share it; another process loads it from the path of its model, or from the dovetail.Network, which "
        "can be pickled"
    )

    def __init__(
        self,
        resources: Resources,
        on_unload: Callable[[LoadedNetwork], object],
        name: str,
        inputs: tuple[TensorSpec, ...],
        optimize: Callable[[Mapping[str, int], Mapping[str, Array]], OptimizedNetwork | OpenSizes],
        optimized: OptimizedNetwork | None,
        tell_outputs: Callable[[], tuple[TensorSpec, ...] | None],
        output_names: tuple[str, ...],
        with_outputs: Callable[[Sequence[str]], LoadedNetwork],
        threads: int,
        *,
        consumable: bool,
        metadata: Mapping[str, str],
        plan_cache_bytes: int,
        snapshots: PlanSnapshots | None = None,
    ) -> None:
        maker = PlanMaker(name, inputs, optimize, resources, threads, snapshots)
        super().__init__(name, inputs, optimize, tell_outputs, maker, metadata=metadata, plan_cache_bytes=plan_cache_bytes)
        self._resources = resources
        self._on_unload = on_unload
        self._output_names = frozenset(output_names)
        self._others: OtherOutputs[LoadedNetwork] = OtherOutputs(with_outputs)
        self._state_lock = threading.RLock()  # a signal's handler may call this network where this thread holds it
        self._profiles: list[Profile] = []
        self._outer_profiles: tuple[Profile, ...] = ()  # of the network that this one is made of
        self._idle_event = threading.Event()
        self._released = False
        # A network that is dropped rather than unloaded tells the backends' contexts all the same,
        # before the runtime may go.
        self.finalizer = weakref.finalize(self, _let_go, maker.opened, maker.factories, self._plans, maker.spare_arenas, name)
        self.finalizer.atexit = False
        self._bindings: weakref.WeakSet[Binding] = weakref.WeakSet()
        _networks.add(self)
        if optimized is not None:
            self._begin_with(optimized, consumes=consumable)

    # -- running -----------------------------------------------------------------------------------

    def submit(
        self,
        /,
        feeds: Mapping[str, Any] = NO_FEEDS,
        *_more: Any,
        timeout: float | None = None,
        outputs: Sequence[str] | None = None,
        state: NetworkState | None = None,
        **_unknown: Never,
    ) -> Future[dict[str, Array]]:
        """Run on a thread of the runtime; returns a future of what `run` returns."""
        if _more:
            raise run_errors.called_as_elsewhere(feeds, _more, "submit")
        if _unknown:
            raise run_errors.no_argument("submit", _unknown, self.inputs)
        self._check_open()
        return self._resources.submitting.submit(self.run, feeds, timeout=timeout, outputs=outputs, state=state)

    async def run_async(
        self,
        /,
        feeds: Mapping[str, Any] = NO_FEEDS,
        *_more: Any,
        timeout: float | None = None,
        outputs: Sequence[str] | None = None,
        state: NetworkState | None = None,
        **_unknown: Never,
    ) -> dict[str, Array]:
        """Run on a thread of the runtime, and let the event loop do other things meanwhile.

        Arguments, result and errors are those of `run`. A task that is cancelled waits no longer: a
        run that has not begun is left out, one that has goes on to its end, and reads its inputs
        until then.

        A run that is known to be brief is carried out by the event loop's own thread: the latest
        runs of these sizes took less than 0.1 ms on the CPU alone, and another thread would cost
        the loop about as much. A task that does nothing but await such runs lets the loop turn
        every 5 ms; of many tasks that begin at once, all run before the loop does anything else.
        `submit` never does so.
        """
        from .awaited_runs import run_beside_loop

        if _more:
            raise run_errors.called_as_elsewhere(feeds, _more, "run_async")
        if _unknown:
            raise run_errors.no_argument("run_async", _unknown, self.inputs)
        hand_over = partial(self._hand_over, feeds, timeout, outputs, state)
        return await run_beside_loop(self, feeds, timeout, hand_over, is_plain=outputs is None and state is None)

    def _hand_over(
        self, feeds: Mapping[str, Any], timeout: float | None, outputs: Sequence[str] | None, state: NetworkState | None
    ) -> Future[dict[str, Array]]:
        """Begin an awaited run on a thread, timed unless a process that others use takes part."""
        self._is_timed = not any(getattr(one.backend, "is_isolated", False) for one in self._maker.opened.values())
        return self.submit(feeds, timeout=timeout, outputs=outputs, state=state)

    @property
    def state(self) -> NetworkState:
        """The state that runs use which are given none; empty as that of `new_state`."""
        return self.new_state()

    def new_state(self) -> NetworkState:
        """Return a state for another stream of runs, at its beginning.

        It is empty where the network remembers nothing.
        """
        from .network_state import NetworkState

        return NetworkState(self.name, {}, {})

    def reset_state(self) -> None:
        """Forget all runs, which a network that remembers nothing has done already.

        Raises:
            RunError: A run is using the state (`STATE_IN_USE`).
        """

    def _check_state(self, state: NetworkState) -> None:
        """Refuse what is no state of a network that remembers as much as this one."""
        from .network_state import check_fits

        check_fits(state, self.new_state())

    def _check_open(self) -> None:
        if self._closed:
            raise run_errors.unloaded(self._name)

    def with_outputs(self, outputs: Sequence[str]) -> LoadedNetwork:
        """Return this network with other outputs, such as tensors from its inside.

        It is a network of its own, made from the original one for the same backends: what is asked
        for is computed as the original network says, no layer behind it is fused with it, and what
        leads to nothing that is asked for is left out. It has plans, memory of runs and weights, as
        far as backends pack them, of its own. It is kept for later calls with the same names, and
        unloaded with this network, at the latest.

        Args:
            outputs: Names of outputs, or of tensors of the original network as `OutputSlot.name`
                says them: a layer's name, with the index, as in ``split:1``, if the layer has
                several outputs. Each counts once.

        Raises:
            InputError: There is nothing of this name (`OUTPUT_NAME`).
            ModelError: The model was loaded from a file that is not there any more, or is another.
            RunError: The network was unloaded.
            DovetailError: Whatever loading reports.
        """
        return self._call(self._with_outputs, names_of(outputs), None)

    def _having(self, outputs: Sequence[str], timeout: float | None) -> tuple[LoadedNetwork, tuple[str, ...]]:
        """Return what has outputs of these names: this network, if they are its own."""
        names = names_of(outputs)
        return (self if self._output_names.issuperset(names) else self._with_outputs(names, timeout)), names

    @run_errors.typed_lack_of_memory
    def _with_outputs(self, names: tuple[str, ...], timeout: float | None) -> LoadedNetwork:
        found = self._others.get(names)
        if found is not None:
            return found
        if self._planner == threading.get_ident():
            raise run_errors.reentrant(self._name)
        return self._plan_alone(partial(self._load_with_outputs, names), timeout)

    def _load_with_outputs(self, names: tuple[str, ...], timeout: float | None) -> LoadedNetwork:
        """Load what has these outputs, unless another thread did meanwhile."""
        found = self._others.get(names)
        if found is None:
            with self._in_time(timeout):
                found = self._others.add(names)
            with self._state_lock:
                self._show_profiles()
        return found

    @run_errors.typed_lack_of_memory
    def bind(
        self, /, inputs: Mapping[str, Any] = NO_FEEDS, outputs: Mapping[str, Any] | None = None, **_unknown: Never
    ) -> Binding:
        """Fix the arrays of a run; `binding.run()` uses them in place, without checks or copies.

        Where values of inputs decide what is computed (shapes, positions, conditions), a run of the
        binding looks at these, and changes to the plan for other values; outputs that have another
        shape with them are an error there.

        Args:
            inputs: NumPy array, or anything with `__dlpack__` in host memory, by input name;
                C-contiguous, of the exact dtype.
            outputs: The same by output name, writeable; those left out are allocated.

        Raises:
            InputError: A name, dtype or shape does not fit, an array is not contiguous, or arrays
                overlap (`BINDING_INVALID`).
            RunError: The network was unloaded.
        """
        if _unknown:
            raise run_errors.no_argument("bind", _unknown, self.inputs)
        return self._call(self._bind, inputs, outputs)

    def _bind(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None) -> Binding:
        given_outputs = {} if outputs is None else self._as_dict(outputs, "bind", "output")
        feeds = self._as_dict(inputs, "bind")
        check_names(self._name, self._inputs, feeds)
        arrays = {name: host_array(name, value) for name, value in feeds.items()}
        plan, given = self._plan_for(dict(arrays))
        for name, array in arrays.items():
            if given[name] is not array and not same_memory(given[name], array):
                raise binding_error(name, "it is not C-contiguous, aligned and in native byte order")
        results = bound_outputs(self._name, plan.outputs.specs, given_outputs, arrays)
        binding = Binding(self, plan, {name: given[name] for name in arrays}, results)
        with self._state_lock:
            if self._closed:  # another thread waits to unload it
                binding.close()
                raise run_errors.unloaded(self._name)
            self._bindings.add(binding)
        return binding

    @contextlib.contextmanager
    def profiling(self) -> Iterator[Profile]:
        """Measure each layer of the runs inside the block."""
        from .profile import Profile

        profile = Profile(self._name)
        with self._state_lock:
            self._profiles.append(profile)
            self._show_profiles()
        try:
            yield profile
        finally:
            with self._state_lock:
                self._profiles[:] = [one for one in self._profiles if one is not profile]
                self._show_profiles()
            self._copy_times.update(profile.copy_times())

    def _show_profiles(self) -> None:
        """Show the profiles to runs from now on, as a new tuple; runs in flight keep theirs."""
        shown: tuple[Profile, ...] | None = None
        while shown != (*self._outer_profiles, *self._profiles):  # again if a signal's handler changed them meanwhile
            shown = (*self._outer_profiles, *self._profiles)
            self._profile = shown or None
            for other in self._others.loaded:
                other._outer_profiles = shown
                other._show_profiles()

    # -- the end -----------------------------------------------------------------------------------

    def unload(self) -> None:
        """Free workloads and memory, once the runs in flight have ended; idempotent.

        Runs from now on are refused.

        Raises:
            RunError: It was called from inside a run or a `bind` of this network, which would wait
                for itself: by a workload, an array's `__dlpack__`, a signal's handler.
        """
        networks = [self, *self._others.loaded]
        if any(one._active and (inside_python_workload() or one._is_inside()) for one in networks):
            raise RunError(
                f"network {self._name!r} cannot be unloaded from inside one of its runs",
                code=ErrorCode.STEP_FAILED,
                hint="unload it from another thread, or once the run has returned",
            )
        self._closed = True
        while self._active:  # Ctrl-C may end this wait; unload() can then be called again
            self._idle_event.wait(0.05)
        with self._state_lock:
            if self._released:
                return
            self._released = True
        self.finalizer.detach()
        for other in self._others.loaded:
            other.unload()
        for binding in list(self._bindings):
            binding.release()
        self._planned = self._plans.of(self._plan) or self._planned
        self._plan, self._by_shapes = None, None
        _let_go(self._maker.opened, self._maker.factories, self._plans, self._maker.spare_arenas, self._name)
        self._on_unload(self)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in _NAMED_ELSEWHERE]

    def __enter__(self) -> LoadedNetwork:
        return self

    def __exit__(self, *_: object) -> None:
        self.unload()

    def __repr__(self) -> str:
        return f"<LoadedNetwork {self._name!r}: {self._told_of_plans}>"

    def __str__(self) -> str:
        """Describe it: inputs, outputs, and of the latest plan backends and memory."""
        from .network_text import text_of

        return text_of(self, self._told_of_plans)


_NAMED_ELSEWHERE = frozenset(
    name
    for line in (
        "predict infer forward execute evaluate invoke create_infer_request infer_new_request",
        "get_signature_runner start_async async_infer get_inputs get_input_details input_names",
        "input get_outputs get_output_details output_names output set_tensor set_input_tensor",
        "resize_tensor_input reshape get_tensor get_output_tensor io_binding run_with_iobinding",
        "allocate_tensors eval train compile to cuda cpu set_providers get_providers half float",
        "end_profiling profile get_modelmeta get_rt_info reset_all_variables reset_states close release",
        "layers summary state_dict",
    )
    for name in line.split()
)
"""Attributes that other libraries have; `ground.names_elsewhere`, imported for none, says of each
what to use."""

for _name in _NAMED_ELSEWHERE:
    setattr(LoadedNetwork, _name, NamedElsewhere(_name))


def _contexts(opened: Mapping[BackendKey, OpenBackend]) -> list[IBackendContext]:
    return [one.context for one in opened.values() if one.context is not None]


_networks: weakref.WeakSet[LoadedNetwork] = weakref.WeakSet()


def _renew_locks() -> None:
    """Give networks new locks in a forked child, and forget runs of other threads.

    Who held a lock, to plan, does not exist here.
    """
    for network in list(_networks):
        network._state_lock, network._planning_lock, network._planner = threading.RLock(), threading.Lock(), 0
        network._forget_threads()


os.register_at_fork(after_in_child=_renew_locks)


def _let_go(
    opened: Mapping[BackendKey, OpenBackend],
    factories: dict[BackendKey, Factory],
    plans: PlanCache,
    spare_arenas: list[ITensorHandle],
    name: str,
) -> None:
    """Free workloads and memory, the backends' contexts being told before and after."""
    contexts = _contexts(opened)
    for context in contexts:
        notify(context.before_unload, name)
    for plan in plans.clear():
        plan.close()  # whoever still holds the plan, or a binding, holds no memory of a backend
        for one in opened.values():
            one.stuck = one.stuck or (plan.is_stuck and bool(plan.queues))
    factories.clear()
    while spare_arenas:
        notify(spare_arenas.pop().release)
    for context in contexts:
        notify(context.after_unload, name)
