"""Types of the compiled run path."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..contract.interfaces import ITensorHandle
from ..graph.descriptor import Array
from .ports import Ports
from .workload import Queues, Workload

_Result = TypeVar("_Result")

class ThreadPool:
    def __init__(self, threads: int, spin_us: int) -> None: ...
    @property
    def threads(self) -> int: ...

class Plan:
    inputs: Ports
    outputs: Ports
    steps: list[Any]
    memory: Any
    serial_locks: list[threading.Lock]
    workloads: list[Workload | None]
    queues: list[tuple[Queues, int]]
    constants: list[Array]
    used: int
    def __init__(
        self,
        *,
        inputs: Ports,
        outputs: Ports,
        steps: list[Any],
        workloads: Sequence[Workload | None],
        queues: list[tuple[Queues, int]],
        memory: Any,
        arenas: list[Callable[[], Any]],
        constants: list[Array],
        tensors: list[Any],
        locations: list[Any],
        serial_locks: list[threading.Lock],
        pool: ThreadPool,
        threads: int,
        spare_arenas: list[ITensorHandle] | None = None,
        shared_arena: tuple[int, int, int] | None = None,
    ) -> None: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def contexts(self) -> int: ...
    @property
    def is_stuck(self) -> bool: ...
    def release_memory(self) -> None: ...
    def detach(self) -> None: ...
    def close(self) -> None: ...

class NetworkRunner:
    _plan: Any
    _by_shapes: dict[bytes, Plan] | None
    _profile: Any
    _closed: bool
    _active: int
    _idle_event: Any
    _planning_lock: Any
    _planner: int
    _name: str
    def run(self, feeds: Mapping[str, Any], *, timeout: float | None = None) -> dict[str, Array]: ...
    def __call__(self, x: Any, *, timeout: float | None = None) -> Any: ...
    def _call(self, function: Callable[..., _Result], *arguments: Any) -> _Result: ...
    def _plan_alone(self, make: Callable[[float | None], _Result], timeout: float | None) -> _Result: ...
    def _as_dict(self, feeds: Any, method: str = "run", kind: str = "input") -> dict[Any, Any]: ...
    def _is_inside(self) -> bool: ...
    def _forget_threads(self) -> None: ...
    def _change_to(self, plan: Plan) -> None: ...
    def _unloaded(self) -> Exception: ...
    def _reentrant(self) -> Exception: ...

class Binding:
    inputs: dict[str, Array]
    outputs: dict[str, Array]
    def __init__(self, network: NetworkRunner, plan: Plan, inputs: dict[str, Array], outputs: dict[str, Array]) -> None: ...
    def run(self, *, timeout: float | None = None) -> dict[str, Array]: ...
    def close(self) -> None: ...
    def release(self) -> None: ...
