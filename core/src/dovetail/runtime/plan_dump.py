"""Dump a plan (every step, tensor and byte) as plain data, so that other means can check it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .memory_plan import Placement

if TYPE_CHECKING:
    from .plans import Plan


def dump_plan(plan: Plan) -> dict[str, Any]:
    """Describe a plan in JSON's terms.

    Returns:
        `arenas`: domain and bytes of what each run allocates. `tensors`: name, bytes, and where it
            lies (`storage`, `index`,
        `offset`). `steps`: in order of execution, with tensor numbers, scratch, queue, and the
        layers of the model they cover; a step of kind `dovetail.Wait` waits for its queue, one that
        is `elided` has nothing left to do. `constant_bytes`,
        `private_bytes`: what is held besides.
    """
    memory = plan.memory
    known = len(memory.tensor_names)
    return {
        "arenas": [{"domain": str(arena.domain), "nbytes": arena.nbytes} for arena in memory.plan.arenas],
        "tensors": [
            {"name": name, "nbytes": nbytes, **_place(placement)}
            for name, nbytes, placement in zip(memory.tensor_names, memory.tensor_bytes, memory.plan.placements, strict=True)
        ],
        "steps": [
            {
                "name": step.name,
                "kind": step.layer_kind,
                "backend": step.backend,
                "sources": list(step.sources),
                "queue": step.queue,
                "inputs": [i for i in step.inputs if i < known],
                "outputs": [i for i in step.outputs if i < known],
                "workspace": _scratch(step.workspace or step.worker_workspace, step.workspace_bytes),
                "private_bytes": step.private_bytes,
                "elided": number in memory.plan.elided,
            }
            for number, step in enumerate(memory.steps)
        ],
        "constant_bytes": memory.constant_bytes,
        "private_bytes": memory.private_bytes,
        "peak_bytes": memory.peak_bytes,
        "lower_bound": memory.lower_bound,
    }


def _place(placement: Placement) -> dict[str, Any]:
    return {"storage": placement.storage.value, "index": placement.index, "offset": placement.offset}


def _scratch(placement: Placement | None, nbytes: int) -> dict[str, Any] | None:
    return None if placement is None else {"nbytes": nbytes, "index": placement.index, "offset": placement.offset}
