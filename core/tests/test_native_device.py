"""A table with queues, contexts and memory of its own, whose addresses the host cannot follow."""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dovetail
from dovetail import BackendError, BackendUnavailableError, HostResources, PlacementError, RunError, RunTimeoutError
from dovetail.contract import interfaces
from dovetail.contract.artefacts import ArtefactStore
from dovetail.contract.backend_id import BackendId, BackendRequest
from dovetail.ground.errors import ErrorCode
from dovetail.layers.activation import Activation, ActivationFunction
from dovetail.layers.elementwise import BinaryOperation, ElementwiseBinary
from dovetail.native import NativeBackend, load_backend

THINGS = ("contexts", "memories", "queues", "queue tables", "workloads")
SHAPE = (3, 5)


class Device:
    """The library from its other side: what of it is alive, and how its devices are."""

    def __init__(self, path: Any) -> None:
        self.backend: NativeBackend = load_backend(path)
        self.library = ctypes.CDLL(str(path))

    def alive(self) -> dict[str, int]:
        gc.collect()
        return {name: count for i, name in enumerate(THINGS) if (count := self.library.count_alive(i))}


@pytest.fixture
def device(build: Any) -> Iterator[Device]:
    made = Device(build("device.c", "device", "-pthread"))
    tables = made.library.count_alive(len(THINGS))
    yield made
    assert made.alive() == {}
    made.backend.close()
    assert made.library.count_alive(len(THINGS)) == tables - 1


def add(operation: str = "add") -> ElementwiseBinary:
    return ElementwiseBinary(operation=BinaryOperation(operation))


def network(shape: tuple[int, ...] = SHAPE) -> dovetail.Network:
    """Two inputs, a constant and two outputs."""
    made = dovetail.Network("device")
    a, b = made.input("a", shape), made.input("b", shape)
    total = made.add(add(), a, b, name="total").output
    shifted = made.add(add(), total, np.full(shape, -0.5, np.float32), name="shifted").output
    made.output(made.add(Activation(function=ActivationFunction("relu")), shifted, name="relu").output, "out")
    made.output(total, "total_out")
    return made


def feeds(seed: int = 0, shape: tuple[int, ...] = SHAPE) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape).astype(np.float32) for name in "ab"}


def check(results: dict[str, np.ndarray], given: dict[str, np.ndarray]) -> None:
    total = given["a"] + given["b"]
    np.testing.assert_array_equal(results["total_out"], total)
    np.testing.assert_array_equal(results["out"], np.maximum(total - np.float32(0.5), 0))


def load(runtime: dovetail.Runtime, backends: Any, net: dovetail.Network | None = None, **keywords: Any) -> Any:
    return dovetail.load(net or network(), backends, runtime=runtime, **keywords)


def test_devices_state_their_facts_and_hear_them_in_questions(device: Device) -> None:
    facts = {"cores": 4, "lossless": True, "clock": 1.5, "firmware": "7b"}
    first = interfaces.Device(0, "first", 1 << 20, half_precision=False, revision="B1", facts=facts)
    assert tuple(device.backend.devices()) == (first, interfaces.Device(1, "second"))
    made = dovetail.Network("softmax")
    layer = made.softmax(made.input("x", SHAPE)).layer
    reasons = [device.backend.supports(layer, device.backend.options_type(), one).reason for one in device.backend.devices()]
    assert reasons[0] == "device 0 (first, revision B1) with 4 cores has no Softmax"
    assert reasons[1] == "device 1 (second, revision ) with 0 cores has no Softmax"


@pytest.mark.parametrize("passes", [True, False])
def test_runs_as_numpy_says(device: Device, passes: bool) -> None:
    with dovetail.Runtime() as runtime, load(runtime, device.backend, passes=passes) as loaded:
        for seed in range(3):
            check(loaded.run(feeds(seed)), feeds(seed))
        assert device.alive()["contexts"] == 1
        assert {one.backend for one in loaded.placement.layers} == {"TableDevice"}
    assert device.alive() == {}


def test_runs_at_once_have_queues_and_memory_of_their_own(device: Device) -> None:
    with (
        dovetail.Runtime() as runtime,
        load(runtime, device.backend, options={"TableDevice": {"delay_us": 5000}}) as loaded,
    ):
        waiting = [(seed, loaded.submit(feeds(seed))) for seed in range(4)]
        for seed, future in waiting:
            check(future.result(timeout=60), feeds(seed))
        assert device.alive()["queues"] > 1


@pytest.mark.parametrize("passes", [True, False])
def test_mixed_with_a_backend_of_the_host(device: Device, build: Any, passes: bool) -> None:
    """A broadcast addition is the host's: its input is copied there, and its result back."""
    made = dovetail.Network("mixed")
    a, b = made.input("a", SHAPE), made.input("b", SHAPE)
    total = made.add(add(), a, b, name="total").output
    row = made.add(add(), total, np.float32([[1, 2, 3, 4, 5]]), name="row").output
    made.output(made.add(add(), row, total, name="last").output, "out")
    host = load_backend(build("per_layer.c"))
    with dovetail.Runtime() as runtime, load(runtime, [device.backend, host], made, passes=passes) as loaded:
        placed = {one.name: one.backend for one in loaded.placement.layers}
        assert (placed["total"], placed["row"], placed["last"]) == ("TableDevice", "TableCpu", "TableDevice")
        total_value = sum(feeds().values())
        np.testing.assert_array_equal(loaded.run(feeds())["out"], total_value + np.float32([[1, 2, 3, 4, 5]]) + total_value)


@pytest.mark.parametrize("flags", [[], ["-DNO_CONTEXT"]], ids=["context", "no context"])
def test_second_device(build: Any, flags: list[str]) -> None:
    """Memory, queues and contexts are of the device asked for, with and without contexts."""
    one = Device(build("device.c", "device" + "".join(flags), "-pthread", *flags))
    backend = one.backend
    context = backend.create_context(1, HostResources(1, ArtefactStore("TableDevice", "", dict)), backend.options_type())
    domain = backend.memory_domains(1)[0]
    manager = backend.create_memory_manager(context, domain)
    assert manager is not None
    assert (manager.domain, manager.alignment) == (domain, 1024)
    assert set(backend.memory_domains(0)).isdisjoint(backend.memory_domains(1))
    assert [(one.kind, one.host_visible) for one in backend.memory_domains(1)] == [("dram", False), ("window", True)]
    del manager
    if context is not None:
        context.close()
    registry = dovetail.discovery.registry.default_registry()
    registry.register(backend)
    try:
        for name in ("TableDevice:1", "TableDevice", BackendRequest(BackendId("TableDevice"), 1)):
            with dovetail.Runtime() as runtime, load(runtime, [name]) as loaded:
                check(loaded.run(feeds()), feeds())
                (row,) = {(one.backend, one.device) for one in loaded.placement.layers}
                assert row == ("TableDevice", 0 if name == "TableDevice" else 1)
        with dovetail.Runtime() as runtime, load(runtime, ["TableDevice:1", "TableDevice"]) as loaded:
            check(loaded.run(feeds()), feeds())
        with dovetail.Runtime() as runtime, pytest.raises(BackendError, match=r"has no device 2.*first, second"):
            load(runtime, ["TableDevice:2"])
    finally:
        registry.unregister("TableDevice")
    assert one.alive() == {}
    backend.close()


@pytest.mark.parametrize(("number", "state"), [(1, "driver_missing"), (2, "no_device"), (3, "device_busy")])
def test_a_device_that_is_away(device: Device, number: int, state: str) -> None:
    device.library.set_device(0, number)
    try:
        with (
            dovetail.Runtime() as runtime,
            pytest.raises(BackendUnavailableError, match="device 0 of the test is away") as caught,
        ):
            load(runtime, device.backend)
    finally:
        device.library.set_device(0, 0)
    assert caught.value.details["state"] == state
    with dovetail.Runtime() as runtime, load(runtime, device.backend) as loaded:
        check(loaded.run(feeds()), feeds())


@pytest.mark.parametrize("state", ["driver_missing", "no_device", "device_busy"])
def test_a_device_that_does_not_open(device: Device, state: str) -> None:
    device.library.set_open(state.encode())
    try:
        with dovetail.Runtime() as runtime, pytest.raises(BackendUnavailableError, match=f"opening gave {state}") as caught:
            load(runtime, device.backend)
    finally:
        device.library.set_open(b"")
    assert caught.value.details["state"] == state


def test_opening_that_fails_for_another_reason(device: Device) -> None:
    device.library.set_open(b"voltage")
    try:
        with dovetail.Runtime() as runtime, pytest.raises(BackendError, match="opening gave voltage") as caught:
            load(runtime, device.backend)
    finally:
        device.library.set_open(b"")
    assert not isinstance(caught.value, BackendUnavailableError)
    assert caught.value.details["reason"] == "voltage"


def test_an_unknown_device_state_breaks_the_contract(device: Device) -> None:
    device.library.set_device(0, 17)
    try:
        with dovetail.Runtime() as runtime, pytest.raises(BackendError, match=r"device_state\(\)") as caught:
            load(runtime, device.backend)
    finally:
        device.library.set_device(0, 0)
    assert "17" in caught.value.message or "away" in caught.value.message


def test_failure_of_work_in_flight_is_the_runs(device: Device) -> None:
    with (
        dovetail.Runtime() as runtime,
        load(runtime, device.backend, options={"TableDevice": {"fail": True}}) as loaded,
        pytest.raises(RunError, match="the multiplier caught fire") as caught,
    ):
        loaded.run(feeds())
    assert caught.value.code is ErrorCode.STEP_FAILED
    assert caught.value.details["backend"] == "TableDevice"


def test_timeout_ends_a_run_that_hangs(device: Device) -> None:
    with (
        dovetail.Runtime() as runtime,
        load(runtime, device.backend, options={"TableDevice": {"hang": True}}) as loaded,
    ):
        begin = time.monotonic()
        with pytest.raises(RunTimeoutError):
            loaded.run(feeds(), timeout=0.05)
        assert time.monotonic() - begin < 5


def test_no_wait_is_longer_than_what_a_run_has_left(device: Device) -> None:
    """So that a device that takes a few milliseconds is late as soon as the deadline passed."""
    device.library.longest_wait.restype = ctypes.c_int64
    with (
        dovetail.Runtime() as runtime,
        load(runtime, device.backend, options={"TableDevice": {"hang": True}}) as loaded,
    ):
        device.library.longest_wait()
        with pytest.raises(RunTimeoutError):
            loaded.run(feeds(), timeout=0.003)
        assert 0 <= device.library.longest_wait() <= 3_000_000


def test_memory_that_does_not_suffice(device: Device) -> None:
    shape = (200, 1000)
    backend = device.backend
    with dovetail.Runtime() as runtime:
        with load(runtime, backend, network(shape)) as loaded, pytest.raises(BackendError, match="cannot allocate") as caught:
            loaded.run(feeds(0, shape))
        assert caught.value.code is ErrorCode.OUT_OF_MEMORY
        assert "of 1048576" in str(caught.value.__cause__)
        with load(runtime, backend) as loaded:
            check(loaded.run(feeds()), feeds())


def test_a_copy_that_cannot_be_made(device: Device) -> None:
    shape = (600, 1000)
    with dovetail.Runtime() as runtime, pytest.raises(BackendError, match="takes 1 MiB") as caught:
        load(runtime, device.backend, network(shape))
    assert caught.value.code is ErrorCode.OUT_OF_MEMORY


def test_a_network_outlives_close(device: Device) -> None:
    """The table closes with the last that uses it; then nothing can be made of it any more."""
    with dovetail.Runtime() as runtime, load(runtime, device.backend) as loaded:
        device.backend.close()
        for seed in range(2):
            check(loaded.run(feeds(seed)), feeds(seed))
    with dovetail.Runtime() as runtime, pytest.raises(PlacementError, match="was closed"):
        load(runtime, device.backend)
