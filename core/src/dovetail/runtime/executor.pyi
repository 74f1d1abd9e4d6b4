"""Types of the compiled run path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..graph.descriptor import Array
from .network_state import NetworkState
from .plans import Plan

_Result = TypeVar("_Result")

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
    def run(
        self,
        feeds: Mapping[str, Any],
        *,
        timeout: float | None = None,
        outputs: Sequence[str] | None = None,
        state: NetworkState | None = None,
    ) -> dict[str, Array]: ...
    def __call__(self, x: Any, *, timeout: float | None = None, outputs: Sequence[str] | None = None) -> Any: ...
    def _run_for(self, feeds: Any, outputs: Sequence[str], timeout: float | None, **others: Any) -> dict[str, Array]: ...
    def _call(self, function: Callable[..., _Result], *arguments: Any) -> _Result: ...
    def _plan_alone(self, make: Callable[[float | None], _Result], timeout: float | None) -> _Result: ...
    def _as_dict(self, feeds: Any, method: str = "run", kind: str = "input") -> dict[Any, Any]: ...
    def _is_inside(self) -> bool: ...
    def _forget_threads(self) -> None: ...
    def _change_to(self, plan: Plan) -> None: ...

class Binding:
    inputs: dict[str, Array]
    outputs: dict[str, Array]
    def __init__(self, network: NetworkRunner, plan: Plan, inputs: dict[str, Array], outputs: dict[str, Array]) -> None: ...
    def run(self, *, timeout: float | None = None) -> dict[str, Array]: ...
    def close(self) -> None: ...
    def release(self) -> None: ...
