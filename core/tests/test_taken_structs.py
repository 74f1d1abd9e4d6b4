"""Test structs of workloads and queues that are older than the core's or of no plausible size.

Only what `size` covers is read.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Any

import pytest

from dovetail.contract.abi_version import ABI_VERSION
from dovetail.ground.errors import BackendError, ErrorCode
from dovetail.runtime.workload import Queues, Workload

EXECUTE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int)
HEAD = [("size", ctypes.c_size_t), ("abi_major", ctypes.c_uint32), ("abi_minor", ctypes.c_uint32)]


class CWorkload(ctypes.Structure):
    _fields_ = [
        *HEAD, ("flags", ctypes.c_uint32), ("concurrency", ctypes.c_uint32), ("state", ctypes.c_void_p), ("execute", EXECUTE),
        ("release", RELEASE), ("workspace", ctypes.c_void_p), ("create_run", ctypes.c_void_p), ("release_run", ctypes.c_void_p),
        ("aliases", ctypes.c_void_p), ("n_aliases", ctypes.c_int32), ("reserved", ctypes.c_int32),
        ("private_bytes", ctypes.c_size_t),
        ("snapshot", ctypes.c_void_p),
    ]  # fmt: skip


class CQueues(ctypes.Structure):
    _fields_ = [
        *HEAD, ("state", ctypes.c_void_p), ("queue_create", FUNCTION), ("queue_wait", FUNCTION), ("queue_abort", FUNCTION),
        ("queue_destroy", FUNCTION), ("queue_error", FUNCTION), ("release", RELEASE), ("queue_profile", FUNCTION),
        ("queue_span", FUNCTION), ("queue_clock", FUNCTION),
    ]  # fmt: skip


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
allocate = ctypes.pythonapi.PyMem_RawMalloc
allocate.restype, allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]

GARBAGE = 0xEE
WORKLOAD, QUEUES = b"dovetail.workload.v0", b"dovetail.queues.v0"


def end_of(kind: type[ctypes.Structure], field: str) -> int:
    descriptor = getattr(kind, field)
    return int(descriptor.offset + descriptor.size)


def capsule(name: bytes, kind: type[ctypes.Structure], said: int, meant: int, **fields: Any) -> Any:
    """Make a capsule of a struct that claims `said` bytes; garbage follows the first `meant`."""
    address = allocate(1024)
    ctypes.memset(address, 0, meant)
    ctypes.memset(address + meant, GARBAGE, 1024 - meant)
    whole = kind()
    whole.size, whole.abi_major, whole.abi_minor = said, *ABI_VERSION
    for field, value in fields.items():
        setattr(whole, field, value)
    ctypes.memmove(address, ctypes.addressof(whole), meant)
    return new_capsule(address, name, None)


@pytest.fixture
def released() -> list[int]:
    return []


@pytest.fixture
def functions(released: list[int]) -> dict[str, Any]:
    return {
        "execute": EXECUTE(lambda state, call: 0),
        "release": RELEASE(lambda state: released.append(state or 0)),
        "state": 7,
    }


@pytest.fixture
def queue_functions(released: list[int]) -> dict[str, Any]:
    nothing = FUNCTION(lambda: 0)
    needed = ("queue_create", "queue_wait", "queue_abort", "queue_destroy")
    made: dict[str, Any] = dict.fromkeys((*needed, "queue_profile", "queue_span"), nothing)
    return {**made, "release": RELEASE(lambda state: released.append(state or 0)), "state": 9}


def test_an_older_workload_has_the_defaults_of_what_it_does_not_know(functions: dict[str, Any], released: list[int]) -> None:
    size = end_of(CWorkload, "release")
    taken = Workload.take(capsule(WORKLOAD, CWorkload, size, size, **functions), "a test")
    assert (taken.private_bytes, taken.aliases, taken.workspace([], [], 1)) == (0, [], (0, 0))
    assert not taken.asynchronous
    del taken
    gc.collect()
    assert released == [7]


def test_a_workload_that_ends_with_execute_is_never_released(functions: dict[str, Any], released: list[int]) -> None:
    size = end_of(CWorkload, "execute")
    taken = Workload.take(capsule(WORKLOAD, CWorkload, size, size, **functions), "a test")
    assert taken.aliases == []
    del taken
    gc.collect()
    assert released == []


def test_half_a_field_is_none(functions: dict[str, Any], released: list[int]) -> None:
    size = end_of(CWorkload, "release") - 4
    Workload.take(capsule(WORKLOAD, CWorkload, size, end_of(CWorkload, "release"), **functions), "a test")
    gc.collect()
    assert released == []


SIZES = [0, 8, 15, 16, end_of(CWorkload, "execute") - 1, ctypes.sizeof(CWorkload) + 8, 1 << 40, (1 << 64) - 1]


@pytest.mark.parametrize("size", SIZES)
def test_a_workload_of_a_bogus_size(functions: dict[str, Any], released: list[int], size: int) -> None:
    made = capsule(WORKLOAD, CWorkload, size, ctypes.sizeof(CWorkload), **functions)
    with pytest.raises(BackendError, match=rf"a test: .*dovetail_workload has {size} bytes") as caught:
        Workload.take(made, "a test")
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT
    assert released == []


@pytest.mark.parametrize("size", [ctypes.sizeof(CWorkload) + 8, 16])
def test_the_version_is_told_before_the_size(functions: dict[str, Any], size: int) -> None:
    """A struct of tomorrow is larger: that it is of tomorrow is what helps."""
    tomorrow = {**functions, "abi_minor": ABI_VERSION[1] + 1}
    with pytest.raises(BackendError) as caught:
        Workload.take(capsule(WORKLOAD, CWorkload, size, ctypes.sizeof(CWorkload), **tomorrow), "a test")
    assert caught.value.code is ErrorCode.ABI_MISMATCH


@pytest.mark.parametrize("count", [-1, 3])
def test_aliases_that_are_not_there(functions: dict[str, Any], count: int) -> None:
    size = ctypes.sizeof(CWorkload)
    with pytest.raises(BackendError, match=f"{count} aliases") as caught:
        Workload.take(capsule(WORKLOAD, CWorkload, size, size, **functions, n_aliases=count), "a test")
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT


def test_a_workload_without_execute() -> None:
    size = ctypes.sizeof(CWorkload)
    with pytest.raises(BackendError, match="no execute function"):
        Workload.take(capsule(WORKLOAD, CWorkload, size, size), "a test")


def test_older_queues(queue_functions: dict[str, Any], released: list[int]) -> None:
    size = end_of(CQueues, "queue_destroy")
    Queues.take(capsule(QUEUES, CQueues, size, size, **queue_functions), "a test")
    gc.collect()
    assert released == []
    size = ctypes.sizeof(CQueues)
    Queues.take(capsule(QUEUES, CQueues, size, size, **queue_functions), "a test")
    gc.collect()
    assert released == [9]


@pytest.mark.parametrize("size", [0, 15, end_of(CQueues, "queue_destroy") - 8, ctypes.sizeof(CQueues) + 8])
def test_queues_of_a_bogus_size(queue_functions: dict[str, Any], released: list[int], size: int) -> None:
    with pytest.raises(BackendError, match=f"dovetail_queues has {size} bytes") as caught:
        Queues.take(capsule(QUEUES, CQueues, size, ctypes.sizeof(CQueues), **queue_functions), "a test")
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT
    assert released == []


@pytest.mark.parametrize("name", ["queue_create", "queue_wait", "queue_abort", "queue_destroy"])
def test_queues_without_a_function(queue_functions: dict[str, Any], name: str) -> None:
    size = ctypes.sizeof(CQueues)
    del queue_functions[name]
    with pytest.raises(BackendError, match=f"its queues lack {name}") as caught:
        Queues.take(capsule(QUEUES, CQueues, size, size, **queue_functions), "a test")
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT


@pytest.mark.parametrize("name", ["queue_profile", "queue_span"])
def test_queues_that_note_what_they_cannot_tell(queue_functions: dict[str, Any], name: str) -> None:
    size = ctypes.sizeof(CQueues)
    del queue_functions["queue_profile"], queue_functions["queue_span"]
    assert not Queues.take(capsule(QUEUES, CQueues, size, size, **queue_functions), "a test").tells_spans
    half = {**queue_functions, name: queue_functions["queue_wait"]}
    with pytest.raises(BackendError, match="one of queue_profile and queue_span") as caught:
        Queues.take(capsule(QUEUES, CQueues, size, size, **half), "a test")
    assert caught.value.code is ErrorCode.BACKEND_CONTRACT
    # A table that is older than both has something else there.
    size = end_of(CQueues, "release")
    assert not Queues.take(capsule(QUEUES, CQueues, size, size, **half), "a test").tells_spans


def test_the_layouts_here_are_those_of_the_header(build: Callable[..., Any]) -> None:
    library = ctypes.CDLL(str(build("sizes.c")))
    assert library.size_of_workload() == ctypes.sizeof(CWorkload)
    assert library.size_of_queues() == ctypes.sizeof(CQueues)
