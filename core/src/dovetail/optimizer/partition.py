"""Split a graph into partitions: maximal convex subgraphs of one backend each, jointly acyclic."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeVar

from ..graph.descriptor import Constant, Input, Output
from ..graph.layer import Layer

Home = TypeVar("Home", bound=Hashable)
_WITHOUT_WORK = (Input, Output, Constant)


class _Groups:
    """Disjoint groups of layers, and which read which.

    A merge is legal if no path leads from one to the other through a third, so that contracting
    every group leaves an acyclic graph at any time. Groups are numbered; where two merge, the
    larger takes up the other, so that a group that grows layer by layer is not copied each time.
    """

    def __init__(self) -> None:
        self.members: dict[int, list[Layer]] = {}
        self.sources: dict[int, set[int]] = {}
        self.targets: dict[int, set[int]] = {}
        self.of: dict[Layer, int] = {}

    def add(self, layer: Layer, sources: Sequence[int]) -> int:
        """Make a group of one layer, which reads these groups."""
        group = len(self.of)
        self.of[layer] = group
        self.members[group] = [layer]
        self.sources[group], self.targets[group] = set(sources), set()
        for source in sources:
            self.targets[source].add(group)
        return group

    def join(self, layer: Layer, group: int) -> None:
        """Take a layer that reads this group alone into it.

        No path leads around it, and nothing depends on the layer yet.
        """
        self.of[layer] = group
        self.members[group].append(layer)

    def can_merge(self, a: int, b: int) -> bool:
        """Say whether no path leads from one to the other through a third."""
        return not self._has_detour(a, b) and not self._has_detour(b, a)

    def _has_detour(self, first: int, last: int) -> bool:
        """Say whether a path leads from one to the other besides the direct one.

        Both ends are searched alternately, the cheaper one first; the end of either ends the
        search.
        """
        below, above, down, up = {first}, {last}, [first], [last]
        walked_down = walked_up = 0
        while down and up:
            cost_down, cost_up = walked_down + len(self.targets[down[-1]]), walked_up + len(self.sources[up[-1]])
            if cost_down <= cost_up:
                found = self.targets[down[-1]] - below
                if down.pop() == first:
                    found.discard(last)
                if not found.isdisjoint(above):
                    return True
                walked_down = cost_down + 1
                below |= found
                down += found
            else:
                found = self.sources[up[-1]] - above
                if up.pop() == last:
                    found.discard(first)
                if not found.isdisjoint(below):
                    return True
                walked_up = cost_up + 1
                above |= found
                up += found
        return False

    def merge(self, a: int, b: int) -> int:
        """Merge two groups; returns the number of what they become."""
        if self._weight(a) < self._weight(b):
            a, b = b, a
        for source in self.sources.pop(b):
            self.targets[source].discard(b)
            if source != a:
                self.targets[source].add(a)
                self.sources[a].add(source)
        for target in self.targets.pop(b):
            self.sources[target].discard(b)
            if target != a:
                self.sources[target].add(a)
                self.targets[a].add(target)
        moved = self.members.pop(b)
        for layer in moved:
            self.of[layer] = a
        self.members[a] += moved
        return a

    def _weight(self, group: int) -> int:
        return len(self.members[group]) + len(self.sources[group]) + len(self.targets[group])

    def in_order(self, position: Mapping[Layer, int]) -> list[list[Layer]]:
        """Sort groups so that each comes after those it reads; return them with their layers.

        Ties are broken by the first layer.
        """
        members = {group: sorted(layers, key=position.__getitem__) for group, layers in self.members.items()}
        waiting = {group: len(sources) for group, sources in self.sources.items()}
        ready = [(position[members[group][0]], group) for group, count in waiting.items() if not count]
        heapify(ready)
        order = []
        while ready:
            _, group = heappop(ready)
            order.append(members[group])
            for target in self.targets[group]:
                waiting[target] -= 1
                if not waiting[target]:
                    heappush(ready, (position[members[target][0]], target))
        return order


def partition(order: Sequence[Layer], homes: Mapping[Layer, Home]) -> list[tuple[Home, list[Layer]]]:
    """Return (home, layers) of every partition, such that each comes after those it depends on.

    Partitions are connected, convex and maximal: no two of one home that touch could be one (what
    blocks a merge is a path through another home, and later merges never remove one). Contracting
    all of them leaves an acyclic graph. The result depends on the graph alone.

    Args:
        order: All layers, producers before consumers.
        homes: Where layers run; one without a home, such as a copy, is in no partition, but paths
            through it count.
    """
    groups = _Groups()
    of = groups.of
    position = {layer: number for number, layer in enumerate(order)}
    for layer in order:
        if isinstance(layer.descriptor, _WITHOUT_WORK):
            continue
        feeding = list(
            dict.fromkeys([slot.source.layer for slot in layer.inputs if slot.source is not None and slot.source.layer in of])
        )
        fed_by = list(dict.fromkeys([of[source] for source in feeding]))
        home = homes.get(layer)
        if len(fed_by) == 1 and home is not None and homes.get(feeding[0]) == home:
            groups.join(layer, fed_by[0])
            continue
        group = groups.add(layer, fed_by)
        for source in feeding:
            if home is not None and homes.get(source) == home:
                other = of[source]
                if other != group and groups.can_merge(other, group):
                    group = groups.merge(other, group)
    return [(homes[members[0]], members) for members in groups.in_order(position) if members[0] in homes]
