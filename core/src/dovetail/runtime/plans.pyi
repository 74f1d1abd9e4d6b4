"""Types of plans and their contexts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from ..contract.interfaces import ITensorHandle
from ..graph.descriptor import Array
from .ports import Ports
from .steps import PlannedMemory, StepInfo
from .workload import Queues, Workload

class ThreadPool:
    def __init__(self, threads: int, spin_us: int) -> None: ...
    @property
    def threads(self) -> int: ...

class Plan:
    inputs: Ports
    outputs: Ports
    serial_locks: list[threading.Lock]
    workloads: list[Workload | None]
    queues: list[tuple[Queues, int]]
    constants: list[Array]
    used: int
    lasts: int
    def __init__(
        self,
        *,
        inputs: Ports,
        outputs: Ports,
        steps: list[Any],
        workloads: Sequence[Workload | None],
        queues: list[tuple[Queues, int]],
        describe: Callable[[], tuple[list[StepInfo], PlannedMemory]],
        arenas: list[Callable[[], Any]],
        constants: list[Array],
        tensors: list[Any],
        locations: list[Any],
        serial_locks: list[threading.Lock],
        pool: ThreadPool,
        threads: int,
        spare_arenas: list[ITensorHandle] | None = None,
        shared_arena: tuple[int, int, int] | None = None,
        on_device: bool = False,
    ) -> None: ...
    @property
    def steps(self) -> list[StepInfo]: ...
    @property
    def memory(self) -> PlannedMemory: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def contexts(self) -> int: ...
    @property
    def is_stuck(self) -> bool: ...
    def release_memory(self) -> None: ...
    def detach(self) -> None: ...
    def close(self) -> None: ...
