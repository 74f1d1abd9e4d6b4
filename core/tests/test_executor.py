"""The run path on plans made by hand: no optimizer, no backend, workloads from ctypes."""

from __future__ import annotations

import ctypes
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dovetail.contract.abi_version import ABI_VERSION
from dovetail.contract.memory import HostMemory
from dovetail.graph.element_types import DType
from dovetail.ground.errors import BackendError, ErrorCode, InputError, OptionError, RunError, RunTimeoutError
from dovetail.runtime.executor import Binding, NetworkRunner
from dovetail.runtime.memory_plan import Storage
from dovetail.runtime.plans import Plan, ThreadPool
from dovetail.runtime.ports import Ports
from dovetail.runtime.steps import StepInfo
from dovetail.runtime.workload import Workload

# -- workloads from ctypes, laid out as in abi.h ---------------------------------------------------

EXECUTE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
CREATE_RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
RELEASE_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
FAIL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
IS_CANCELLED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class CTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("threads", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class CHost(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t), ("abi_major", ctypes.c_uint32), ("abi_minor", ctypes.c_uint32),
        ("parallel_for", ctypes.c_void_p), ("is_cancelled", IS_CANCELLED), ("fail", FAIL),
        ("profile_mark", ctypes.c_void_p), ("extension", ctypes.c_void_p),
    ]  # fmt: skip


class CCall(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t), ("host", ctypes.POINTER(CHost)), ("context", ctypes.c_void_p),
        ("inputs", ctypes.POINTER(CTensor)), ("outputs", ctypes.POINTER(CTensor)),
        ("n_inputs", ctypes.c_int32), ("n_outputs", ctypes.c_int32), ("workspace", ctypes.c_void_p),
        ("worker_workspace", ctypes.c_void_p), ("worker_stride", ctypes.c_size_t), ("run_data", ctypes.c_void_p),
        ("queue", ctypes.c_void_p), ("workers", ctypes.c_int32),
    ]  # fmt: skip


class CWorkload(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t), ("abi_major", ctypes.c_uint32), ("abi_minor", ctypes.c_uint32), ("flags", ctypes.c_uint32),
        ("concurrency", ctypes.c_uint32), ("state", ctypes.c_void_p), ("execute", EXECUTE), ("release", RELEASE),
        ("workspace", ctypes.c_void_p), ("create_run", CREATE_RUN), ("release_run", RELEASE_RUN), ("aliases", ctypes.c_void_p),
        ("n_aliases", ctypes.c_int32), ("reserved", ctypes.c_int32), ("private_bytes", ctypes.c_size_t),
    ]  # fmt: skip


ctypes.pythonapi.PyMem_RawCalloc.restype = ctypes.c_void_p
ctypes.pythonapi.PyMem_RawCalloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
ctypes.pythonapi.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

KEPT: list[Any] = []  # names of capsules and callbacks must outlive them; these are a few per test


def capsule(execute: Callable[[CCall], int] | None, version: tuple[int, int] = ABI_VERSION, **functions: Any) -> Any:
    """Make the capsule of a workload whose functions are Python's."""
    address = ctypes.pythonapi.PyMem_RawCalloc(1, ctypes.sizeof(CWorkload))
    table = CWorkload.from_address(address)
    table.size, (table.abi_major, table.abi_minor) = ctypes.sizeof(CWorkload), version
    if execute is not None:
        table.execute = EXECUTE(lambda state, call: execute(CCall.from_address(call)))
    for name, function in functions.items():
        setattr(table, name, dict(CWorkload._fields_)[name](function))
    name = ctypes.create_string_buffer(b"dovetail.workload.v0")
    KEPT.append((name, table.execute, table.release, table.create_run, table.release_run))
    return ctypes.pythonapi.PyCapsule_New(address, ctypes.cast(name, ctypes.c_char_p), None)


def floats(tensor: CTensor) -> np.ndarray:
    """See a tensor of one dimension as an array."""
    pointer = ctypes.cast(tensor.data + tensor.byte_offset, ctypes.POINTER(ctypes.c_float))
    return np.ctypeslib.as_array(pointer, (tensor.shape[0],))


def doubling(call: CCall) -> int:
    floats(call.outputs[0])[...] = 2 * floats(call.inputs[0])
    return 0


# -- plans by hand ---------------------------------------------------------------------------------


@dataclass
class Spec:
    name: str
    shape: tuple[int, ...]
    dtype: DType = DType.FLOAT32


class Runner(NetworkRunner):
    """A network that has one plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._name, self._idle_event = plan, "by hand", threading.Event()
        self.refused: list[Any] = []

    def _plan_for(self, feeds: dict[str, Any], timeout: float | None = None) -> Any:
        self.refused.append(feeds)
        raise InputError("does not fit")


def chain(*workloads: Workload, size: int = 4, arenas: Any = None, pool: ThreadPool | None = None) -> Runner:
    """Make a network of steps one after the other, in two tensors that take turns."""
    n = len(workloads)
    stride = -(-4 * size // 64) * 64
    steps = [StepInfo(f"s{i}", "test", "core", (f"s{i}",), inputs=(i,), outputs=(i + 1,)) for i in range(n)]
    middle = [(Storage.ARENA, 0, stride * (i % 2)) for i in range(1, n)]
    plan = Plan(
        inputs=Ports([Spec(sys.intern("x"), (size,))], {}),
        outputs=Ports([Spec(sys.intern("y"), (size,))], {}),
        steps=steps,
        workloads=list(workloads),
        queues=[],
        describe=lambda: (steps, None),
        arenas=arenas or [lambda: HostMemory(2 * stride, 64)],
        constants=[],
        tensors=[(2, 32, (size,))] * (n + 1),
        locations=[(Storage.INPUT, 0, 0), *middle, (Storage.OUTPUT, 0, 0)],
        serial_locks=[],
        pool=pool or ThreadPool(2, 20),
        threads=2,
    )
    return Runner(plan)


def take(made: Any) -> Workload:
    return Workload.take(made, "backend 'Test', layer 's'")


X = np.arange(4, dtype=np.float32)


def test_a_chain_of_copies() -> None:
    for n in (1, 2, 3, 101):
        net = chain(*[Workload.host_copy() for _ in range(n)])
        for _ in range(3):
            assert np.array_equal(net.run({"x": X})["y"], X)


def test_a_long_copy_is_made_of_pieces() -> None:
    size = (5 << 22) + 3  # of float32: two pieces of 32 MiB, and some more
    x = np.arange(size, dtype=np.float32)
    assert np.array_equal(chain(Workload.host_copy(), size=size).run({"x": x})["y"], x)


def test_outputs_are_fresh_and_inputs_are_let_go() -> None:
    net = chain(Workload.host_copy(), Workload.host_copy())
    x = X.copy()
    results = [net.run({"x": x})["y"] for _ in range(5)]
    assert len({r.ctypes.data for r in results}) == 5
    assert not any(np.may_share_memory(r, x) for r in results)
    seen = [weakref.ref(x), *map(weakref.ref, results)]
    del x, results
    assert [ref() for ref in seen] == [None] * 6, "the network holds on to arrays"


def test_contexts_are_pooled_and_can_be_freed() -> None:
    allocated = []

    def allocate() -> HostMemory:
        allocated.append(HostMemory(128, 64))
        return allocated[-1]

    net = chain(Workload.host_copy(), Workload.host_copy(), arenas=[allocate])
    for _ in range(10):
        net.run({"x": X})
    assert len(allocated) == 1
    assert net._plan.contexts == 1
    net._plan.release_memory()
    assert net._plan.contexts == 0
    net.run({"x": X})
    assert len(allocated) == 2


def test_many_threads() -> None:
    net = chain(*[take(capsule(doubling)) for _ in range(3)])
    wrong: list[Any] = []

    def work(i: int) -> None:
        for k in range(200):
            result = net.run({"x": X + i + k})["y"]
            if not np.array_equal(result, 8 * (X + i + k)):
                wrong.append(result)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert wrong == []
    assert 1 <= net._plan.contexts <= 8


@pytest.mark.parametrize(
    "feeds",
    [
        {},
        {"z": X},
        {"x": X, "z": X},
        {"x": X.astype(np.float64)},
        {"x": X.reshape(2, 2)},
        {"x": X[:3]},
        {"x": np.arange(8, dtype=np.float32)[::2]},
        {"x": X.astype(">f4")},
        {"x": [0.0, 1.0, 2.0, 3.0]},
        {"x": None},
    ],
    ids=["none", "name", "too_many", "dtype", "rank", "size", "strided", "byte_order", "list", "null"],
)
def test_what_does_not_fit_leaves_the_fast_path(feeds: dict[str, Any]) -> None:
    net = chain(Workload.host_copy())
    with pytest.raises(InputError):
        net.run(feeds)
    assert net.refused == [feeds]
    assert np.array_equal(net.run({"x": X})["y"], X)


@pytest.mark.parametrize("timeout", [0, -1, "soon", float("nan"), float("inf"), 1e12])
def test_a_timeout_must_be_a_time(timeout: Any) -> None:
    net = chain(Workload.host_copy())
    with pytest.raises(OptionError) as caught:
        net.run({"x": X}, timeout=timeout)
    assert caught.value.code == ErrorCode.OPTION_INVALID
    assert np.array_equal(net.run({"x": X}, timeout=1)["y"], X)


def test_a_timeout_names_the_layer() -> None:
    def wait(call: CCall) -> int:
        while not call.host.contents.is_cancelled(ctypes.addressof(call)):
            pass
        return -2

    net = chain(Workload.host_copy(), take(capsule(wait)), Workload.host_copy())
    with pytest.raises(RunTimeoutError, match="layer 's1'"):
        net.run({"x": X}, timeout=0.05)
    with pytest.raises(RunTimeoutError, match="layer 's1'"):
        net.run({"x": X}, timeout=0.05)


# -- failures --------------------------------------------------------------------------------------


def test_fail_tells_layer_text_and_code() -> None:
    def fail(call: CCall) -> int:
        host, me = call.host.contents, ctypes.addressof(call)
        host.fail(me, 17, "too hot \N{FIRE}".encode())
        return host.fail(me, 18, b"second")

    net = chain(Workload.host_copy(), take(capsule(fail)))
    for _ in range(2):
        with pytest.raises(RunError, match="too hot \N{FIRE}") as caught:
            net.run({"x": X})
        assert "layer 's1'" in str(caught.value)
        assert caught.value.details == {"layer": "s1", "sources": ("s1",), "backend": "core", "status": 17}
    assert net._plan.contexts == 1


@pytest.mark.parametrize("code", [-1, 5, -4])
def test_a_code_without_fail_is_a_failure(code: int) -> None:
    net = chain(take(capsule(lambda call: code)))
    with pytest.raises(RunError, match=f"without saying why \\(code {code}\\)") as caught:
        net.run({"x": X})
    assert caught.value.code == ErrorCode.STEP_FAILED


def test_cancelled_without_anybody_cancelling_is_a_failure() -> None:
    net = chain(take(capsule(lambda call: -2)), Workload.host_copy())
    with pytest.raises(RunError):
        net.run({"x": X})


def test_out_of_memory_has_its_code() -> None:
    net = chain(take(capsule(lambda call: call.host.contents.fail(ctypes.addressof(call), -3, b"no room"))))
    with pytest.raises(RunError, match="no room") as caught:
        net.run({"x": X})
    assert caught.value.code == ErrorCode.OUT_OF_MEMORY


def test_a_long_message_is_cut() -> None:
    net = chain(take(capsule(lambda call: call.host.contents.fail(ctypes.addressof(call), 1, b"x" * 10_000))))
    with pytest.raises(RunError) as caught:
        net.run({"x": X})
    assert 400 < caught.value.message.count("x") < 600


def test_a_failure_in_an_allocation_releases_those_before_it() -> None:
    released = []

    class Memory(HostMemory):
        def release(self) -> None:
            released.append(self)
            super().release()

    def fail() -> HostMemory:
        raise MemoryError("no more")

    net = chain(Workload.host_copy(), Workload.host_copy(), arenas=[lambda: Memory(128, 64), fail])
    for count in (1, 2):
        with pytest.raises(RunError) as caught:
            net.run({"x": X})
        assert caught.value.code is ErrorCode.OUT_OF_MEMORY
        assert "no more" in caught.value.message
        caught.value.__cause__ = None
        del caught  # whose traceback holds the context
        assert len(released) == count


def test_runs_are_prepared_once_and_released() -> None:
    log: list[Any] = []

    def create(state: Any, queue: Any, out: Any) -> int:
        out[0] = 1000 + len(log)
        log.append("create")
        return 0

    def execute(call: CCall) -> int:
        log.append(call.run_data)
        return 0

    net = chain(take(capsule(execute, create_run=create, release_run=lambda state, data: log.append(("release", data)))))
    net.run({"x": X})
    net.run({"x": X})
    net._plan.release_memory()
    assert log == ["create", 1000, 1000, ("release", 1000)]


def test_a_run_that_cannot_be_prepared() -> None:
    log: list[str] = []
    good = capsule(doubling, create_run=lambda *_: log.append("create") or 0, release_run=lambda *_: log.append("release"))
    bad = capsule(doubling, create_run=lambda *_: 9, release_run=lambda *_: log.append("never"))
    net = chain(take(good), take(bad))
    with pytest.raises(RunError, match="layer 's1' could not prepare a run \\(code 9\\)"):
        net.run({"x": X})
    assert log == ["create", "release"]


# -- taking workloads ------------------------------------------------------------------------------


def test_state_is_released_once_when_the_plan_goes() -> None:
    log: list[str] = []
    workload = take(capsule(doubling, release=lambda state: log.append("release")))
    net = chain(workload)
    net.run({"x": X})
    del workload
    assert log == []
    del net
    assert log == ["release"]


def test_a_closed_plan_releases_under_whoever_holds_it() -> None:
    log: list[str] = []
    net = chain(take(capsule(doubling, release=lambda state: log.append("release"))))
    net.run({"x": X})
    plan = net._plan
    plan.close()
    assert log == ["release"]
    assert plan.steps
    plan.close()


def test_a_workload_is_taken_once() -> None:
    made = capsule(doubling)
    kept = take(made)
    with pytest.raises(BackendError, match="twice") as caught:
        take(made)
    assert caught.value.code == ErrorCode.BACKEND_CONTRACT
    assert np.array_equal(chain(kept).run({"x": X})["y"], 2 * X)


@pytest.mark.parametrize("version", [(ABI_VERSION[0], ABI_VERSION[1] + 1), (ABI_VERSION[0] + 1, 0)])
def test_another_version_of_the_protocol_is_refused(version: tuple[int, int]) -> None:
    with pytest.raises(BackendError) as caught:
        take(capsule(doubling, version))
    assert caught.value.code == ErrorCode.ABI_MISMATCH
    text = str(caught.value)
    assert f"ABI {version[0]}.{version[1]}" in text
    assert f"ABI {ABI_VERSION[0]}.{ABI_VERSION[1]}" in text
    assert caught.value.hint


@pytest.mark.parametrize("made", [None, 3, "workload", object(), lambda: None])
def test_what_is_no_workload_is_refused(made: Any) -> None:
    with pytest.raises(BackendError, match="is no workload") as caught:
        take(made)
    assert caught.value.code == ErrorCode.BACKEND_CONTRACT
    assert "backend 'Test'" in str(caught.value)


def test_a_workload_without_execute_is_refused() -> None:
    with pytest.raises(BackendError, match="no execute function"):
        take(capsule(None))


def test_an_object_with_execute_is_a_workload() -> None:
    class Doubling:
        def execute(self, inputs: list[Any], outputs: list[Any]) -> None:
            outputs[0][...] = 2 * inputs[0]
            assert not inputs[0].flags.writeable

    assert np.array_equal(chain(take(Doubling()), Workload.host_copy()).run({"x": X})["y"], 2 * X)


# -- bindings --------------------------------------------------------------------------------------


def test_a_closed_binding_leaves_the_network_as_it_is() -> None:
    net = chain(take(capsule(doubling)))
    first, second = (Binding(net, net._plan, {"x": X.copy()}, {"y": np.zeros(4, np.float32)}) for _ in range(2))
    first.close()
    first.close()
    with pytest.raises(RunError) as caught:
        first.run()
    assert caught.value.code == ErrorCode.BINDING_INVALID
    assert np.array_equal(second.run()["y"], 2 * X)
    assert np.array_equal(net.run({"x": X})["y"], 2 * X)


def test_a_binding_reads_and_writes_in_place() -> None:
    net = chain(*[take(capsule(doubling)) for _ in range(2)])
    x, y = X.copy(), np.zeros(4, np.float32)
    binding = Binding(net, net._plan, {"x": x}, {"y": y})
    for i in range(3):
        x[...] = i
        assert binding.run()["y"] is y
        assert np.array_equal(y, np.full(4, 4 * i))
    net._closed = True
    with pytest.raises(RunError) as caught:
        binding.run()
    assert caught.value.code == ErrorCode.NETWORK_UNLOADED
    binding.close()
