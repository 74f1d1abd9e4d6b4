"""What a plan is made of, whoever worked it out: the plan builder, or an earlier process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..contract.interfaces import HOST
from ..graph.descriptor import Array
from ..graph.layer import Layer
from ..ground.records import Record
from .plans import Plan
from .ports import Ports
from .steps import PlannedMemory, StepInfo, StepLinks
from .workload import Workload

if TYPE_CHECKING:
    from ..optimizer.optimized import TensorSpec
    from .memory_plan import Arena, Storage


class PlanParts(Record, frozen=True, eq=False):
    """What a plan is made of.

    Attributes:
        inputs, outputs: Every one of the graph, with its concrete shape.
        steps: What each touches, as `Plan` takes it.
        workloads: Of each step, None for a wait.
        layers: What they were made of, as far as that is known.
        describe: Returns the steps in words, and what the plan needs in memory.
        arenas: What a run allocates.
        constants: Arrays.
        tensors: (dtype code, bits, shape) of each tensor, None for an input that is left out.
        locations: (storage, index, offset) of each tensor.
        shared_arena: (index, bytes, alignment) of the arena that plans can share, if there is one.
        threads: How many may work for a run, at most.
    """

    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    steps: Sequence[StepLinks]
    workloads: list[Workload | None]
    layers: Sequence[Layer | None]
    describe: Callable[[], tuple[list[StepInfo], PlannedMemory]]
    arenas: Sequence[Arena]
    constants: list[Array]
    tensors: list[tuple[int, int, tuple[int, ...]] | None]
    locations: list[tuple[Storage, int, int]]
    shared_arena: tuple[int, int, int] | None
    threads: int

    def plan(self, fixed: dict[str, Array], **lent: Any) -> Plan:
        """Make the plan.

        Args:
            fixed: Values of inputs that it is made for.
            lent: What only this process has: `queues`, `arenas`, `serial_locks`, `pool` and
                `spare_arenas` of `Plan`.
        """
        return Plan(
            inputs=Ports(self.inputs, fixed),
            outputs=Ports(self.outputs, {}),
            steps=list(self.steps),
            workloads=self.workloads,
            describe=self.describe,
            constants=self.constants,
            tensors=self.tensors,
            locations=self.locations,
            shared_arena=self.shared_arena,
            threads=self.threads,
            on_device=any(one.domain != HOST for one in self.arenas),
            **lent,
        )
