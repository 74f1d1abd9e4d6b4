"""The order in which layers can be walked: producers before consumers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ground.errors import ErrorCode, GraphError
from ..ground.limits import watched
from .layer import Layer


def producers_first(network: str, members: Mapping[str, Layer]) -> list[Layer]:
    """Sort layers so that producers come before consumers; ties stay in order.

    Args:
        network: Its name, for messages.
        members: All its layers by name.

    Raises:
        GraphError: There is a cycle (`GRAPH_CYCLE`), which the message spells out, or a layer reads
            one that is no member.
    """
    waiting: dict[Layer, int] = {}
    order: list[Layer] = []
    for layer in watched(members.values()):
        count = 0
        for slot in layer.inputs:
            source = slot.source
            if source is None:
                continue
            if members.get(source.layer.name) is not source.layer:
                raise GraphError(
                    f"layer {layer.name!r} reads {source.name!r}, which is no layer of network {network!r}",
                    code=ErrorCode.GRAPH_DANGLING,
                    hint="it was removed, or belongs to another network",
                )
            count += 1
        waiting[layer] = count
        if not count:
            order.append(layer)
    for layer in watched(order):  # which grows meanwhile
        for output in layer.outputs:
            for consumer in output.consumers:
                reader = consumer.layer
                waiting[reader] -= 1
                if not waiting[reader]:
                    order.append(reader)
    if len(order) != len(waiting):
        raise cycle_error(network, _cycle_among({layer for layer, count in waiting.items() if count > 0}))
    return order


def _cycle_among(stuck: set[Layer]) -> list[Layer]:
    layer = min(stuck, key=lambda candidate: candidate.id)
    seen: dict[Layer, int] = {}
    while layer not in seen:
        seen[layer] = len(seen)
        layer = next(s.source.layer for s in layer.inputs if s.source and s.source.layer in stuck)
    return [*list(seen)[seen[layer] :], layer]


def cycle_error(network: str, cycle: Sequence[Layer]) -> GraphError:
    """Build the error for a cycle; the layers are each followed by one that it reads."""
    names = [member.name for member in reversed(cycle)]
    return GraphError(
        f"network {network!r} has a cycle: {' -> '.join(names)}",
        code=ErrorCode.GRAPH_CYCLE,
        hint="a network must be acyclic; disconnect one of these",
        cycle=names,
    )
