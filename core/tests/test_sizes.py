"""Test plans for different sizes: made once, found without a lock, dropped by bytes, one memory."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from dovetail.contract.backend_id import BackendId
from dovetail.contract.interfaces import IBackend, IWorkloadFactory, Support
from dovetail.graph.descriptor import Array
from dovetail.graph.layer import Layer
from dovetail.ground.errors import BackendError, ErrorCode, InputError, OptionError, RunError, RunTimeoutError
from dovetail.layers.network import Network
from dovetail.runtime import LoadedNetwork, Runtime
from dovetail.runtime.plan_cache import STEP_BYTES

WEIGHTS = np.arange(2048, dtype=np.float32)  # more than 4 KiB: large enough to be shared


class Workload:
    """Adds its second input, or whatever constant it was made for, to the first."""

    def __init__(self, factory: Factory, layer: Layer) -> None:
        self.backend, self.name, self.constant = factory.backend, layer.name, layer.constant(1)

    def execute(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self.backend.during(self.name, outputs[0])
        np.add(inputs[0], inputs[1], out=outputs[0])


class Factory(IWorkloadFactory):
    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def create_workload(self, layer: Layer) -> Any:
        self.backend.planning(layer)
        workload = Workload(self, layer)
        self.backend.made.append(weakref.ref(workload))
        return workload


class Backend(IBackend):
    """Counts what it is asked for."""

    def __init__(self) -> None:
        self.factories = 0
        self.planned: list[tuple[int, ...]] = []
        self.made: list[weakref.ref[Workload]] = []
        self.constants: list[Array | None] = []
        self.hook: Callable[[Layer], None] = lambda layer: None
        self.during: Callable[[str, Array], None] = lambda name, output: None

    id = BackendId("Acme")

    def supports(self, layer: Layer, options: Any, device: Any) -> Support:
        return Support.yes()

    def create_workload_factory(self, context: Any, resources: Any, options: Any) -> IWorkloadFactory:
        self.factories += 1
        return Factory(self)

    def planning(self, layer: Layer) -> None:
        self.planned.append(layer.output.known_info.sizes)
        if layer.constant(1) is not None:
            self.constants.append(layer.constant(1))
        self.hook(layer)


@pytest.fixture
def backend() -> Backend:
    return Backend()


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    with Runtime(threads=1) as runtime:
        yield runtime


def chain(layers: int = 2, *, folded: bool = False) -> Network:
    """x [N, 2048] + weights + x + x ..., whose tensors take an arena.

    `folded`: weights that the optimizer works out.
    """
    network = Network("sizes")
    x = network.input("x", ("N", WEIGHTS.size))
    weights = network.constant(WEIGHTS)
    if folded:
        weights = network.unary(network.unary(weights, "neg"), "neg")
    y = network.addition(x, weights)
    for _ in range(layers - 1):
        y = network.addition(y, x)
    network.output(y, "y")
    return network


def expected(x: Array, layers: int = 2) -> Array:
    return layers * x + WEIGHTS


def feed(batch: int, seed: int = 0) -> dict[str, Array]:
    return {"x": np.random.default_rng(seed).integers(-99, 99, (batch, WEIGHTS.size)).astype(np.float32)}


def load(runtime: Runtime, backend: Backend, network: Network | None = None, **arguments: Any) -> LoadedNetwork:
    return runtime.load(network or chain(), optimize={"backends": [backend]}, **arguments)


def run(net: LoadedNetwork, batch: int, seed: int = 0, layers: int = 2) -> None:
    given = feed(batch, seed)
    np.testing.assert_array_equal(net.run(given)["y"], expected(given["x"], layers))


# -- how often is what done ------------------------------------------------------------------------


def test_each_size_is_planned_once_and_by_one_factory(runtime: Runtime, backend: Backend) -> None:
    net = load(runtime, backend)
    sizes = [*range(1, 41)]
    for seed in range(3):
        random.Random(seed).shuffle(sizes)
        for batch in sizes:
            run(net, batch, seed)
    assert len(backend.planned) == 2 * 40
    assert backend.factories == 1


def test_planned_sizes_are_found_without_python(runtime: Runtime, backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    net = load(runtime, backend)
    for batch in (1, 2, 3):
        run(net, batch)

    def never(*_: object) -> None:
        raise AssertionError("a planned size was looked up in Python")

    monkeypatch.setattr(LoadedNetwork, "_plan_for", never)
    for batch in (3, 1, 2, 1, 3, 2):
        run(net, batch)
        assert net.plan.inputs.specs[0].shape[0] == batch
        assert net.memory.peak_bytes >= batch * WEIGHTS.nbytes


def test_what_does_not_fit_is_still_refused(runtime: Runtime, backend: Backend) -> None:
    net = load(runtime, backend)
    run(net, 1)
    run(net, 2)
    for given in ({"x": np.zeros((2, 3), np.float32)}, {"x": np.zeros(2, np.float32)}, {"y": np.zeros(2, np.float32)}, {}):
        with pytest.raises(InputError):
            net.run(given)
    with pytest.raises(InputError, match="float64"):
        net.run({"x": np.zeros((1, WEIGHTS.size))})
    strided = np.asfortranarray(feed(2)["x"])
    np.testing.assert_array_equal(net.run({"x": strided})["y"], expected(strided))
    assert len(backend.planned) == 4


def test_many_inputs_are_looked_up_in_python(runtime: Runtime, backend: Backend) -> None:
    network = Network("many")
    slots = [network.input(f"x{i}", ("N", 1, 1, 1)) for i in range(40)]  # more sizes than the key in C holds
    total = slots[0]
    for slot in slots[1:]:
        total = network.addition(total, slot)
    network.output(total, "y")
    net = load(runtime, backend, network)
    for batch in (2, 3, 2, 3):
        arrays = {f"x{i}": np.full((batch, 1, 1, 1), i, np.float32) for i in range(40)}
        np.testing.assert_array_equal(net.run(arrays)["y"].ravel(), np.full(batch, 780.0))
    assert len(backend.planned) == 2 * 39


def test_constants_that_are_worked_out_are_the_same_arrays_in_all_plans(runtime: Runtime, backend: Backend) -> None:
    net = load(runtime, backend, chain(folded=True))
    for batch in (1, 2, 3):
        run(net, batch)
    assert len(backend.constants) == 3
    assert len({array.__array_interface__["data"][0] for array in backend.constants if array is not None}) == 1


def test_the_latest_plan_is_the_one_that_is_described(runtime: Runtime, backend: Backend) -> None:
    net = load(runtime, backend)
    run(net, 1)
    run(net, 5)
    run(net, 1)
    assert net.plan.inputs.specs[0].shape[0] == 1
    assert net.optimized.graph.inputs[0].output.known_info.sizes[0] == 1
    run(net, 5)
    assert net.optimized.graph.inputs[0].output.known_info.sizes[0] == 5


# -- memory ----------------------------------------------------------------------------------------


def test_plans_run_in_memory_that_they_share(runtime: Runtime, backend: Backend) -> None:
    net = load(runtime, backend, chain(3))
    first: list[int] = []
    backend.during = lambda name, output: first.append(output.__array_interface__["data"][0])
    for batch in (8, 3, 8, 1, 5):
        run(net, batch, layers=3)
    assert len(net._plans) == 4
    assert len(set(first[::3])) == 1  # what the first layer writes begins the arena
    assert sum(planned.plan.contexts for planned in net._plans) == 4
    assert not net._maker.spare_arenas  # the plan that ran last has the only one


def test_memory_of_runs_may_be_freed_at_any_time(runtime: Runtime, backend: Backend) -> None:
    net = load(runtime, backend, chain(3))
    with ThreadPoolExecutor(2) as pool:
        for batch in (3, 5, 3, 4):
            run(net, batch, layers=3)
            for planned in net._plans:
                planned.plan.release_memory()
                assert planned.plan.contexts == 0
            list(pool.map(lambda size: run(net, size, layers=3), (3, 5)))
    binding = net.bind(feed(4))
    run(net, 5, layers=3)
    np.testing.assert_array_equal(binding.run()["y"], expected(feed(4)["x"], 3))


def test_larger_sizes_get_larger_memory(runtime: Runtime, backend: Backend) -> None:
    net = load(runtime, backend, chain(4))
    for batch in (1, 2, 64, 3, 128, 1, 64, 128):
        run(net, batch, layers=4)


def test_concurrent_runs_have_memory_of_their_own(runtime: Runtime, backend: Backend) -> None:
    net = load(runtime, backend, chain(6))
    inside = threading.Barrier(2, timeout=30)
    arrived: set[int] = set()

    def meet(name: str, output: Array) -> None:
        if threading.get_ident() not in arrived:
            arrived.add(threading.get_ident())
            inside.wait()

    run(net, 3, layers=6)
    run(net, 4, layers=6)
    backend.during = meet
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda batch: run(net, batch, batch, 6), (3, 4)))
    backend.during = lambda name, output: None
    assert len(net._maker.spare_arenas) + sum(planned.plan.contexts for planned in net._plans) >= 2
    for batch in (4, 3, 4):
        run(net, batch, layers=6)


def test_least_recently_used_plans_are_dropped_beyond_the_bytes(runtime: Runtime, backend: Backend) -> None:
    net = load(runtime, backend, plan_cache_bytes=6 * STEP_BYTES)  # plans of two steps; weights are no plan's own
    for batch in (1, 2, 3, 4):
        run(net, batch)
    run(net, 1)  # so that 2 is the oldest
    run(net, 5)
    planned = len(backend.planned)
    run(net, 1)
    run(net, 5)
    assert len(backend.planned) == planned
    run(net, 2)
    assert len(backend.planned) > planned
    assert len(net._plans) <= 5
    assert {planned.plan.key for planned in net._plans} == set(net._by_shapes or {})


def test_without_a_cache_the_latest_plan_is_kept(runtime: Runtime, backend: Backend) -> None:
    net = load(runtime, backend, plan_cache_bytes=0)
    for batch in (1, 1, 2, 2, 1):
        run(net, batch)
    assert [shape[0] for shape in backend.planned] == [1, 1, 2, 2, 1, 1]
    gc.collect()
    assert sum(ref() is not None for ref in backend.made) == 2


@pytest.mark.parametrize("value", [-1, 1.5, True, "1"])
def test_bytes_of_the_cache_are_checked(runtime: Runtime, backend: Backend, value: Any) -> None:
    with pytest.raises(OptionError, match="plan_cache_bytes"):
        load(runtime, backend, plan_cache_bytes=value)


def test_unloading_frees_all_plans(runtime: Runtime, backend: Backend) -> None:
    net = load(runtime, backend)
    for batch in range(1, 20):
        run(net, batch)
    plans = list(net._plans)
    net.unload()
    assert len(net._plans) == 0
    assert not net._maker.spare_arenas
    assert not net._maker.factories
    assert all(planned.plan.contexts == 0 for planned in plans)
    del plans
    gc.collect()
    assert [ref for ref in backend.made if ref() is not None] == []
    with pytest.raises(RunError) as raised:
        net.run(feed(1))
    assert raised.value.code == ErrorCode.NETWORK_UNLOADED


# -- threads ---------------------------------------------------------------------------------------


def held_planning(backend: Backend) -> tuple[threading.Event, threading.Event]:
    """Hold plans up where they ask the backend.

    The first event says that one is there, the second lets it go on.
    """
    planning, go_on = threading.Event(), threading.Event()

    def wait(layer: Layer) -> None:
        planning.set()
        assert go_on.wait(30)

    backend.hook = wait
    return planning, go_on


def test_a_planned_size_runs_while_another_is_planned(runtime: Runtime, backend: Backend) -> None:
    net = load(runtime, backend)
    run(net, 1)
    run(net, 2)
    planning, go_on = held_planning(backend)
    with ThreadPoolExecutor(1) as pool:
        new = pool.submit(run, net, 7)
        assert planning.wait(30)
        for batch in (1, 2, 1):
            run(net, batch)
            strided = np.asfortranarray(feed(batch)["x"])
            np.testing.assert_array_equal(net.run({"x": strided})["y"], expected(strided))
        with net.profiling() as profile:
            run(net, 2)
        assert profile.runs == 1
        assert not new.done()
        with pytest.raises(RunTimeoutError):
            net.run(feed(8), timeout=0.05)  # its plan waits for that of 7
        go_on.set()
        new.result(30)


def test_two_threads_that_need_the_same_size_plan_it_once(runtime: Runtime, backend: Backend) -> None:
    net = load(runtime, backend)
    run(net, 1)
    planning, go_on = held_planning(backend)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(run, net, 7)
        assert planning.wait(30)
        others = [pool.submit(run, net, 7) for _ in range(3)]
        go_on.set()
        for future in (first, *others):
            future.result(30)
    assert sum(shape[0] == 7 for shape in backend.planned) == 2  # layers of one plan


def test_a_plan_that_fails_is_made_again_by_who_waited(runtime: Runtime, backend: Backend) -> None:
    net = load(runtime, backend)
    run(net, 1)
    failures = iter([ValueError("no such layer")])

    def fail(layer: Layer) -> None:
        error = next(failures, None)
        if error is not None:
            raise error

    backend.hook = fail
    with pytest.raises(Exception, match="no such layer"):
        run(net, 2)
    run(net, 2)
    run(net, 1)


def rewire(layer: Layer) -> None:
    layer.inputs[0].source = layer.inputs[1].source


def rewire_and_raise(layer: Layer) -> None:
    rewire(layer)
    raise ValueError("and more")


CHANGES: dict[str, Callable[[Layer], None]] = {
    "source": rewire,
    "source, and it raises": rewire_and_raise,
    "descriptor": lambda layer: setattr(layer, "descriptor", None),
    "info": lambda layer: setattr(layer.output, "info", None),
    "info of what it reads": lambda layer: setattr(layer.inputs[0].source, "info", None),
    "name": lambda layer: setattr(layer, "name", "mine"),
    "inputs": lambda layer: layer.inputs.clear(),
    "outputs": lambda layer: layer.outputs.clear(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_factory_that_changes_its_layer_is_refused(runtime: Runtime, backend: Backend, change: str) -> None:
    net = load(runtime, backend)
    run(net, 1)
    backend.hook = CHANGES[change]
    said = "and more" if "raises" in change else r"create_workload\(\) changed the layer that it was shown"
    with pytest.raises(BackendError, match=f"backend 'Acme', layer 'add.*{said}"):
        run(net, 2)
    backend.hook = lambda layer: None
    run(net, 2)


def test_random_sizes_on_many_threads(runtime: Runtime, backend: Backend) -> None:
    net = load(runtime, backend, chain(3), plan_cache_bytes=20 * STEP_BYTES)

    def work(seed: int) -> None:
        luck = random.Random(seed)
        for step in range(150):
            run(net, luck.randint(1, 12), seed * 1000 + step, 3)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert len(net._maker.spare_arenas) + sum(planned.plan.contexts for planned in net._plans) >= 1


def test_a_child_plans_new_sizes_though_a_thread_did_when_it_was_forked() -> None:
    subprocess.run([sys.executable, __file__, "fork"], check=True, timeout=60)


def fork_while_planning() -> None:
    backend = Backend()
    net = load(Runtime(threads=1), backend)
    run(net, 1)
    planning, go_on = threading.Event(), threading.Event()

    def wait(layer: Layer) -> None:
        planning.set()
        go_on.wait(30)

    backend.hook = wait
    thread = threading.Thread(target=run, args=(net, 2))
    thread.start()
    planning.wait(30)
    backend.hook = lambda layer: None
    child = os.fork()
    if child == 0:
        run(net, 1)
        run(net, 3)
        os._exit(0)
    go_on.set()
    thread.join(30)
    assert os.waitpid(child, 0)[1] == 0
    run(net, 3)


if __name__ == "__main__":
    fork_while_planning()
