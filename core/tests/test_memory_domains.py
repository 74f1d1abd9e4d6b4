"""Test several memories of one backend.

They are chosen by tensor, hold scratch, and are copied by mapping where the host can see.
"""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from fakes.backends import Willing

import dovetail
from dovetail import (
    HOST,
    BackendError,
    Device,
    IMemoryManager,
    ITensorHandle,
    IWorkloadFactory,
    Layer,
    MemoryDomain,
    RunError,
    TensorDomains,
    TensorInfo,
)
from dovetail.contract.backend_id import BackendId
from dovetail.contract.memory import HostMemory
from dovetail.ground.errors import ErrorCode
from dovetail.native import load_backend

MAPPINGS = 6  # of the kinds of things that device.c counts
FEEDS = {"a": np.float32([[-3, 1, 2], [5, -8, 0]]), "b": np.float32([[1, 1, -4], [1, 1, 0.5]])}
TOTAL = FEEDS["a"] + FEEDS["b"]


def network() -> dovetail.Network:
    """relu(a + b) + b, so that a tensor leaves the window and one goes in."""
    made = dovetail.Network("window")
    a, b = made.input("a", (2, 3)), made.input("b", (2, 3))
    positive = made.relu(made.addition(a, b, name="sum"), name="positive")
    made.output(positive, "p")
    made.output(made.addition(positive, b, name="last"), "y")
    return made


def check(result: dict[str, Any]) -> None:
    np.testing.assert_array_equal(result["p"], np.maximum(TOTAL, 0))
    np.testing.assert_array_equal(result["y"], np.maximum(TOTAL, 0) + FEEDS["b"])


# -- behind the table ------------------------------------------------------------------------------


class Table:
    """The simulated device, and what it counted."""

    def __init__(self, build: Any, *flags: str) -> None:
        path = build("device.c", "memories" + "".join(flags), "-pthread", *flags)  # a library that no other test counts in
        self.library = ctypes.CDLL(str(path))
        self.backend = load_backend(path)
        self.copies, self.maps = self.library.count_copies(), self.library.count_maps()

    def load(self, runtime: dovetail.Runtime, **options: Any) -> dovetail.LoadedNetwork:
        return dovetail.load(network(), self.backend, runtime=runtime, passes=False, options={"TableDevice": options})

    @property
    def counts(self) -> tuple[int, int]:
        return self.library.count_copies() - self.copies, self.library.count_maps() - self.maps


@pytest.mark.parametrize("flags", [[], ["-DSYNCHRONOUS"]], ids=["queues", "synchronous"])
def test_a_memory_that_the_host_can_map_needs_no_copy_workload(build: Any, flags: list[str]) -> None:
    table = Table(build, *flags)
    with dovetail.Runtime() as runtime, table.load(runtime, window=True) as net:
        for _ in range(3):
            check(net.run(FEEDS))
        shown = {(copy.tensor, str(copy.source), str(copy.target)): copy for copy in net.placement.copies}
        window, own = "TableDevice:0/window", "TableDevice:0/sram"
        assert {key: copy.mapped for key, copy in shown.items()} == {
            ("a", "host", window): True,
            ("b", "host", window): True,
            ("positive", window, "host"): True,
            ("last", own, "host"): False,
        }
        assert "core, mapped" in net.placement.explain()
        assert shown["last", own, "host"].backend == "TableDevice"
        assert table.counts == (1, 9), "one copy workload; a, b and positive mapped in each of three runs"
    assert table.library.count_alive(MAPPINGS) == 0


@pytest.mark.parametrize("flags", [[], ["-DSYNCHRONOUS"]], ids=["queues", "synchronous"])
def test_a_device_that_shares_the_hosts_memory_needs_no_copy(build: Any, flags: list[str]) -> None:
    table = Table(build, "-DSHARES=1", *flags)
    assert table.backend.importable_domains(0) == {HOST}
    table.library.count_bound.restype = ctypes.c_int
    with dovetail.Runtime() as runtime, table.load(runtime) as net:
        for _ in range(3):
            check(net.run(FEEDS))
        assert table.library.count_bound() == 0
        binding = net.bind(FEEDS)
        for turn in range(1, 4):
            check(binding.run())
            assert table.library.count_bound() == 3 * turn, "every step is told that nothing moves"
        binding.close()
        assert not net.placement.copies
        assert table.counts == (0, 0)


def test_without_the_window_everything_is_copied_by_the_device(build: Any) -> None:
    table = Table(build)
    with dovetail.Runtime() as runtime, table.load(runtime) as net:
        check(net.run(FEEDS))
        assert not any(copy.mapped for copy in net.placement.copies)
        assert table.counts == (len(net.placement.copies), 0)


def test_a_tensor_is_copied_between_two_memories_of_one_device(build: Any) -> None:
    made = dovetail.Network("twice")
    a, b = made.input("a", (2, 3)), made.input("b", (2, 3))
    made.output(made.addition(made.addition(a, b, name="sum"), b), "y")
    table = Table(build)
    with (
        dovetail.Runtime() as runtime,
        dovetail.load(made, table.backend, runtime=runtime, passes=False, options={"TableDevice": {"window": True}}) as net,
    ):
        np.testing.assert_array_equal(net.run(FEEDS)["y"], TOTAL + FEEDS["b"])
        inner = [copy for copy in net.placement.copies if copy.tensor == "sum"]
        assert [(str(one.source), str(one.target), one.backend) for one in inner] == [
            ("TableDevice:0/sram", "TableDevice:0/window", "TableDevice")
        ]


@pytest.mark.parametrize("window", [False, True])
def test_scratch_lies_in_memory_of_the_device(build: Any, window: bool) -> None:
    table = Table(build)
    with dovetail.Runtime() as runtime, table.load(runtime, scratch=1, window=window) as net:
        for _ in range(3):
            check(net.run(FEEDS))
        domains = {arena.domain.kind for arena in net.memory.plan.arenas}
        assert "sram" in domains
        assert [step.workspace_bytes for step in net.plan.steps if step.name in ("sum", "last")] == [64, 64]


@pytest.mark.parametrize("side", ["end", "start"])
def test_guarded_runs_have_scratch_of_the_device(build: Any, side: str) -> None:
    table = Table(build)
    with dovetail.Runtime(guard=dovetail.Guard(side)) as runtime, table.load(runtime, scratch=1) as net:
        for _ in range(2):
            check(net.run(FEEDS))


def test_scratch_in_a_memory_that_is_not_there_is_refused(build: Any) -> None:
    with (
        dovetail.Runtime() as runtime,
        pytest.raises(BackendError, match="wants its workspace in memory 7") as caught,
    ):
        Table(build).load(runtime, scratch=7)
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT


def test_memory_that_cannot_be_mapped_now_ends_the_run_and_not_the_network(build: Any) -> None:
    table = Table(build)
    with dovetail.Runtime() as runtime, table.load(runtime, window=True) as net:
        table.library.set_refuse_maps(1)
        try:
            with pytest.raises(RunError, match="the window cannot show these bytes"):
                net.run(FEEDS)
        finally:
            table.library.set_refuse_maps(0)
        check(net.run(FEEDS))
    assert table.library.count_alive(MAPPINGS) == 0


# -- in Python -------------------------------------------------------------------------------------

PRIVATE, VISIBLE = MemoryDomain("Py", 0, "private"), MemoryDomain("Py", 0, "visible", True)


class Handle(ITensorHandle):
    """Bytes that the host sees a copy of; the address is a handle, not a pointer."""

    numbers = iter(range(1, 1 << 30))

    def __init__(self, manager: Manager, nbytes: int) -> None:
        self.domain, self.nbytes, self.manager = manager.domain, nbytes, manager
        self.block = HostMemory(nbytes, 64)
        self._address = next(self.numbers)
        self.seen: Any = None
        manager.backend.handles[self._address] = self

    @property
    def address(self) -> int:
        return self._address

    def release(self) -> None:
        del self.manager.backend.handles[self._address]

    def map(self, offset: int, nbytes: int, *, writes: bool) -> int:
        assert self.domain.host_visible
        assert self.seen is None
        view = ctypes.create_string_buffer(nbytes)
        self.seen = (view, offset, nbytes, writes)
        self.manager.backend.maps += 1
        if not writes:
            ctypes.memmove(view, self.block.address + offset, nbytes)
        return ctypes.addressof(view)

    def unmap(self) -> None:
        view, offset, nbytes, writes = self.seen
        self.seen = None
        if writes:
            ctypes.memmove(self.block.address + offset, view, nbytes)


class Manager(IMemoryManager):
    pointers = False
    offsets = False

    def __init__(self, backend: Py, domain: MemoryDomain) -> None:
        self.backend, self.domain = backend, domain

    def allocate(self, nbytes: int, alignment: int) -> ITensorHandle:
        return Handle(self, nbytes)


class Py(Willing):
    """Adds and copies in two memories; results of the network lie where the host sees them."""

    def __init__(self, chosen: Any = None) -> None:
        super().__init__("Py")
        self.handles: dict[int, Handle] = {}
        self.maps = 0
        self.chosen = chosen

    def memory_domains(self, device: int) -> Sequence[MemoryDomain]:
        return (PRIVATE, VISIBLE)

    def tensor_domains(self, layer: Layer, options: Any, device: Device) -> Any:
        if self.chosen is not None:
            return self.chosen(layer)
        last = any(consumer.layer.kind.endswith("Output") for consumer in layer.output.consumers)
        return TensorDomains([VISIBLE] * len(layer.inputs), [VISIBLE if last else PRIVATE])

    def create_memory_manager(self, context: Any, domain: MemoryDomain) -> IMemoryManager:
        return Manager(self, domain)


def test_the_core_maps_what_a_python_backend_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor goes in and out by mapping; between the two it is moved by the backend."""
    backend = Py()
    made = dovetail.Network("through")
    made.output(made.relu(made.input("a", (2, 3))), "y")
    copied: list[tuple[str, str]] = []

    class Factory(IWorkloadFactory):
        def create_workload(self, layer: Layer) -> Any:
            return Moving(backend, np.maximum)

        def create_copy(self, source: MemoryDomain, target: MemoryDomain, info: TensorInfo) -> Any:
            copied.append((source.kind, target.kind))
            raise NotImplementedError

    monkeypatch.setattr(backend, "create_workload_factory", lambda *_: Factory())
    with dovetail.Runtime() as runtime, dovetail.load(made, backend, runtime=runtime, passes=False) as net:
        for _ in range(2):
            np.testing.assert_array_equal(net.run({"a": FEEDS["a"]})["y"], np.maximum(FEEDS["a"], 0))
        assert [(copy.source.kind, copy.target.kind, copy.mapped, copy.backend) for copy in net.placement.copies] == [
            ("host", "visible", True, None),
            ("visible", "host", True, None),
        ]
        assert backend.maps == 4
        assert backend.handles
        net.bind({"a": FEEDS["a"]}).run()
    assert copied == []
    assert not backend.handles, "every allocation was released"


class Moving:
    """ReLU on bytes that only the backend finds: the arrays that it is shown are of handles."""

    def __init__(self, backend: Py, function: Any) -> None:
        self.backend, self.function = backend, function

    def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
        numbers = [one.__array_interface__["data"][0] for one in (inputs[0], outputs[0])]
        # An offset in an allocation would be added to its handle: with one tensor in each
        # allocation there is none.
        source, target = (self.backend.handles[number].block.address for number in numbers)
        nbytes = inputs[0].nbytes
        values = np.frombuffer(ctypes.string_at(source, nbytes), np.float32)
        ctypes.memmove(target, self.function(values, 0).astype(np.float32).tobytes(), nbytes)


class MovingFactory(IWorkloadFactory):
    def __init__(self, backend: Py) -> None:
        self.backend = backend

    def create_workload(self, layer: Layer) -> Any:
        return Moving(self.backend, np.maximum)


class Interrupted(Handle):
    """Raises something, once, at a moment of its mapping."""

    moment, what = "", ""

    def map(self, offset: int, nbytes: int, *, writes: bool) -> int:
        self.interrupt("before map")
        address = super().map(offset, nbytes, writes=writes)
        self.interrupt("after map")
        return address

    def unmap(self) -> None:
        if self.seen is None:
            return
        self.interrupt("before unmap")
        super().unmap()
        self.interrupt("after unmap")

    def interrupt(self, moment: str) -> None:
        if moment != Interrupted.moment:
            return
        Interrupted.moment = ""
        if Interrupted.what == "error":
            raise OSError("the window is stuck")
        signal.raise_signal(signal.SIGINT if Interrupted.what == "Ctrl-C" else signal.SIGUSR1)


@pytest.fixture
def mapping(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Yield a network whose inputs and outputs are mapped in Python, and its backend."""

    def leave(number: int, frame: Any) -> None:
        raise SystemExit(7)

    backend = Py()
    monkeypatch.setattr(backend, "create_workload_factory", lambda *_: MovingFactory(backend))
    monkeypatch.setattr(Manager, "allocate", lambda self, nbytes, alignment: Interrupted(self, nbytes))
    made = dovetail.Network("through")
    made.output(made.relu(made.input("a", (2, 3))), "y")
    before = signal.signal(signal.SIGUSR1, leave)
    with dovetail.Runtime() as runtime, dovetail.load(made, backend, runtime=runtime, passes=False) as net:
        yield net, backend
    signal.signal(signal.SIGUSR1, before)
    assert not backend.handles, "every allocation was released"


@pytest.mark.parametrize("moment", ["before map", "after map", "before unmap", "after unmap"])
@pytest.mark.parametrize(("what", "expected"), [("Ctrl-C", KeyboardInterrupt), ("handler", SystemExit)])
def test_what_interrupts_a_mapping_in_python_ends_the_run(mapping: Any, moment: str, what: str, expected: Any) -> None:
    """It reaches the caller as it is, nothing stays mapped, and the network runs again."""
    net, backend = mapping
    for _ in range(2):
        Interrupted.moment, Interrupted.what = moment, what
        with pytest.raises(expected):
            net.run({"a": FEEDS["a"]})
        assert Interrupted.moment == "", "it was interrupted"
        assert all(handle.seen is None for handle in backend.handles.values())
        np.testing.assert_array_equal(net.run({"a": FEEDS["a"]})["y"], np.maximum(FEEDS["a"], 0))


@pytest.mark.parametrize("moment", ["before map", "before unmap"])
def test_an_error_of_a_mapping_in_python_is_the_cause_of_that_of_the_run(mapping: Any, moment: str) -> None:
    net, backend = mapping
    Interrupted.moment, Interrupted.what = moment, "error"
    with pytest.raises(RunError, match=r"the window is stuck|could not be unmapped") as caught:
        net.run({"a": FEEDS["a"]})
    assert caught.value.code is ErrorCode.STEP_FAILED
    assert isinstance(caught.value.__cause__, OSError)
    for handle in backend.handles.values():  # an unmap that fails is the backend's own matter
        handle.seen = None
    np.testing.assert_array_equal(net.run({"a": FEEDS["a"]})["y"], np.maximum(FEEDS["a"], 0))


@pytest.mark.parametrize(
    "answer",
    [
        TensorDomains([PRIVATE], [PRIVATE, PRIVATE]),
        TensorDomains([], [PRIVATE]),
        TensorDomains([MemoryDomain("Other")], [PRIVATE]),
        "private",
    ],
    ids=["too many", "too few", "of somebody else", "no domains"],
)
def test_a_choice_that_is_none_is_refused(answer: Any) -> None:
    made = dovetail.Network("bad")
    made.output(made.relu(made.input("a", (2, 3))), "y")
    with pytest.raises(BackendError, match=r"'relu.*tensor_domains\(\)|tensor_domains\(\)") as caught:
        dovetail.optimize(made, [Py(lambda layer: answer)])
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT


def test_two_devices_whose_memory_the_host_sees_need_no_stop_between_them() -> None:
    """The core maps both; where an owner reaches the other, it copies."""

    class Other(Py):
        imports: frozenset[MemoryDomain] = frozenset()

        @property
        def id(self) -> BackendId:
            return BackendId("Other")

        def memory_domains(self, device: int) -> Sequence[MemoryDomain]:
            return (MemoryDomain("Other", 0, "seen", True),)

        def importable_domains(self, device: int) -> frozenset[MemoryDomain]:
            return self.imports

    def copies(other: Other) -> list[tuple[str, str, bool, str | None]]:
        made = dovetail.Network("two")
        made.output(made.unary(made.relu(made.input("a", (2, 3)), name="here"), "exp", name="there"), "y")
        placed = dovetail.optimize(
            made, [Py(lambda layer: TensorDomains([VISIBLE], [VISIBLE])), other], require={"here": "Py", "there": "Other"}
        )
        return [(str(one.source), str(one.target), one.mapped, one.backend) for one in placed.placement.copies]

    plain = Other(lambda layer: None)
    assert copies(plain) == [
        (str(HOST), "Py:0/visible", True, None),
        ("Py:0/visible", "Other:0/seen", True, None),
        ("Other:0/seen", str(HOST), True, None),
    ]
    reaching = Other(lambda layer: None)
    reaching.imports = frozenset({VISIBLE})
    assert [one[:2] for one in copies(reaching)] == [(str(HOST), "Py:0/visible"), ("Other:0/seen", str(HOST))]
