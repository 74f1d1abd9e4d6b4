"""Split a graph into partitions: maximal convex subgraphs of one backend each, jointly acyclic."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

from ..graph import Constant, Input, Layer, Output

Home = TypeVar("Home", bound=Hashable)


class _Groups:
    """Disjoint groups of layers with, for each, the groups it depends on and those that depend on it, as bit sets.

    Sets are transitive and leave the group itself out. A merge is legal if no third group lies on a path between the two, so
    that contracting every group leaves an acyclic graph at any time.
    """

    def __init__(self) -> None:
        self.members: dict[int, list[Layer]] = {}
        self.above: dict[int, int] = {}
        self.below: dict[int, int] = {}
        self.of: dict[Layer, int] = {}

    def add(self, layer: Layer, sources: Sequence[int]) -> int:
        group = len(self.of)
        above = 0
        for source in sources:
            above |= self.above[source] | (1 << source)
        self.of[layer] = group
        self.members[group] = [layer]
        self.above[group], self.below[group] = above, 0
        for other in _bits(above):
            self.below[other] |= 1 << group
        return group

    def can_merge(self, a: int, b: int) -> bool:
        return not (self.below[a] & self.above[b]) and not (self.below[b] & self.above[a])

    def merge(self, a: int, b: int) -> int:
        """Merge `b` into `a`."""
        pair = (1 << a) | (1 << b)
        above = (self.above[a] | self.above.pop(b)) & ~pair
        below = (self.below[a] | self.below.pop(b)) & ~pair
        self.above[a], self.below[a] = above, below
        for other in _bits(above):
            self.below[other] = (self.below[other] | below | (1 << a)) & ~(1 << b)
        for other in _bits(below):
            self.above[other] = (self.above[other] | above | (1 << a)) & ~(1 << b)
        moved = self.members.pop(b)
        for layer in moved:
            self.of[layer] = a
        self.members[a] += moved
        return a


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def partition(order: Sequence[Layer], homes: Mapping[Layer, Home]) -> list[tuple[Home, list[Layer]]]:
    """Return (home, layers) of every partition, such that each comes after those it depends on.

    Partitions are connected, convex and maximal: no two of one home that touch could be one. Contracting all of them leaves an
    acyclic graph. The result depends on the graph alone.

    Args:
        order: All layers, producers before consumers.
        homes: Where layers run; one without a home, such as a copy, is in no partition, but paths through it count.
    """
    groups = _Groups()
    position = {layer: number for number, layer in enumerate(order)}
    edges: list[tuple[Layer, Layer]] = []
    for layer in order:
        if isinstance(layer.descriptor, Input | Output | Constant):
            continue
        feeding = list(
            dict.fromkeys(
                slot.source.layer for slot in layer.inputs if slot.source is not None and slot.source.layer in groups.of
            )
        )
        group = groups.add(layer, list(dict.fromkeys(groups.of[source] for source in feeding)))
        for source in feeding:
            if layer in homes and source in homes and homes[layer] == homes[source]:
                edges.append((source, layer))
                other = groups.of[source]
                if other != group and groups.can_merge(other, group):
                    group = groups.merge(other, group)
    _merge_until_stable(groups, edges)
    found = [
        (group, homes[members[0]], sorted(members, key=position.__getitem__))
        for group, members in groups.members.items()
        if members[0] in homes
    ]
    # A group that depends on another depends on more groups than that one does: the count sorts topologically.
    found.sort(key=lambda item: (groups.above[item[0]].bit_count(), position[item[2][0]]))
    return [(home, members) for _, home, members in found]


def _merge_until_stable(groups: _Groups, edges: Sequence[tuple[Layer, Layer]]) -> None:
    """Merge what a later merge made legal."""
    changed = True
    while changed:
        changed = False
        for source, target in edges:
            a, b = groups.of[source], groups.of[target]
            if a != b and groups.can_merge(a, b):
                groups.merge(a, b)
                changed = True
