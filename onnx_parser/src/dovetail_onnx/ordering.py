"""The order of nodes: ONNX wants producers before consumers, some exporters do not care."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from heapq import heappop, heappush

from .messages import AttributeProto, NodeProto

_GRAPH = AttributeProto.AttributeType.GRAPH


def sorted_nodes(nodes: Sequence[NodeProto]) -> list[NodeProto]:
    """Return the nodes, producers first and otherwise as they stand; those on a cycle come last."""
    if _is_in_order(nodes):
        return list(nodes)
    producers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    needed = [{producers[name] for name in _reads(node) if name in producers} - {index} for index, node in enumerate(nodes)]
    consumers: dict[int, list[int]] = defaultdict(list)
    for index, before in enumerate(needed):
        for producer in before:
            consumers[producer].append(index)
    waiting = [len(before) for before in needed]
    ready = [index for index, count in enumerate(waiting) if count == 0]
    order: list[int] = []
    while ready:
        index = heappop(ready)
        order.append(index)
        for consumer in consumers[index]:
            waiting[consumer] -= 1
            if waiting[consumer] == 0:
                heappush(ready, consumer)
    stuck = set(range(len(nodes))) - set(order)
    return [nodes[index] for index in (*order, *sorted(stuck))]


def _is_in_order(nodes: Sequence[NodeProto]) -> bool:
    """Say whether no node reads what itself or a later one writes, and no tensor is written twice.

    That is the rule.
    """
    written: set[str] = set()
    awaited: set[str] = set()
    for node in nodes:
        awaited.update([name for name in _reads(node) if name not in written])
        for name in node.output:
            if name and (name in awaited or name in written):
                return False
            written.add(name)
    return True


def _reads(node: NodeProto) -> list[str]:
    """List the tensors that a node reads, those that its branches see from outside included."""
    names = list(node.input)
    for attribute in node.attribute:
        if attribute.type == _GRAPH:
            for inner in attribute.g.node:
                names += _reads(inner)
            names += [entry.name for entry in attribute.g.output]
    return names
