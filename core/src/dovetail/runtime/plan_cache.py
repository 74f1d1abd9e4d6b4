"""Cache the plans of one network, one per set of sizes and values met, within a number of bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .plans import Plan

if TYPE_CHECKING:
    from ..optimizer.optimized import OptimizedNetwork

DEFAULT_BYTES = 256 << 20
"""Bytes of the plans of one network.

What they share is not counted: weights, what is packed from them, memory of runs.
"""

STEP_BYTES = 8 << 10
"""About what describes one step of a plan, here and in the optimized network."""


class Planned:
    """A plan, what it was made of, and whether backends consumed the weights in that.

    Args:
        plan: The plan.
        optimized: What it was made of; a function where that is made when somebody asks.
        consumed: Whether backends consumed the weights.
        held: Bytes of memory that the plan lives in.

    Attributes:
        nbytes: What nobody else of the network holds.
    """

    def __init__(
        self, plan: Plan, optimized: OptimizedNetwork | Callable[[], OptimizedNetwork], *, consumed: bool, held: int = 0
    ) -> None:
        self.plan = plan
        self.consumed = consumed
        self.held = held
        self.nbytes = 0
        self._optimized = optimized

    @property
    def optimized(self) -> OptimizedNetwork:
        """What the plan was made of; raises what making it raises."""
        if callable(self._optimized):
            self._optimized = self._optimized()
        return self._optimized

    @optimized.setter
    def optimized(self, value: OptimizedNetwork) -> None:
        self._optimized = value


class PlanCache:
    """The plans of one network.

    Looking up takes no lock. Who adds holds the network's lock for planning.

    Args:
        limit: Bytes that all plans but the newest may hold for themselves.

    Attributes:
        by_shapes: `Plan.key` to plan, as `NetworkRunner` looks it up; replaced as a whole.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.by_shapes: dict[bytes, Plan] = {}
        self._planned: dict[Any, Planned] = {}
        self._readers: Counter[int] = Counter()  # plans that read a constant, by its address

    def __len__(self) -> int:
        return len(self._planned)

    def __iter__(self) -> Iterator[Planned]:
        return iter(tuple(self._planned.values()))

    @property
    def nbytes(self) -> int:
        """Bytes that the plans hold for themselves."""
        return sum(planned.nbytes for planned in self)

    def get(self, key: Any) -> Planned | None:
        """Return what was planned for these sizes and values, None if it was not, or not lately."""
        return self._planned.get(key)

    def of(self, plan: Plan | None) -> Planned | None:
        """Return what belongs to a plan."""
        return next((planned for planned in self if planned.plan is plan), None)

    def add(self, key: Any, planned: Planned) -> None:
        """Keep a plan; drop the least recently used others beyond the limit.

        Runs in flight hold theirs.
        """
        constants = _constants(planned.plan)
        own = sum(nbytes for address, nbytes in constants.items() if not self._readers[address])
        self._readers.update(constants.keys())
        workloads = planned.plan.workloads
        private = sum(one.private_bytes for one in workloads if one is not None)
        planned.nbytes = max(own + private, planned.held) + STEP_BYTES * len(workloads)
        others = dict(self._planned)
        excess = sum(other.nbytes for other in others.values()) - self.limit
        for other_key, other in sorted(others.items(), key=lambda item: item[1].plan.used):
            if excess <= 0:
                break
            if not other.plan.is_stuck:  # unloading has to know that a device still holds memory
                del others[other_key]
                self._readers.subtract(_constants(other.plan).keys())
                excess -= other.nbytes
        self._planned = {**others, key: planned}
        kept = {id(one.plan) for one in self._planned.values()}
        by_shapes = {shapes: plan for shapes, plan in self.by_shapes.items() if id(plan) in kept}
        shapes = planned.plan.key
        self.by_shapes = by_shapes if shapes is None else {**by_shapes, shapes: planned.plan}

    def clear(self) -> list[Plan]:
        """Drop all plans and return them."""
        plans = [planned.plan for planned in self]
        self._planned, self.by_shapes = {}, {}
        self._readers.clear()
        return plans


def _constants(plan: Plan) -> dict[int, int]:
    """Return the bytes of each constant that the plan's steps read, by its address."""
    return {array.__array_interface__["data"][0]: array.nbytes for array in plan.constants}
