"""Split a graph into partitions: maximal convex subgraphs of one backend each, jointly acyclic."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from ..descriptor import Constant, Input, Output
from ..layer import Layer

Home = TypeVar("Home", bound=Hashable)
_WITHOUT_WORK = (Input, Output, Constant)


class _Groups:
    """Disjoint groups of layers, and which depend on which.

    A merge is legal if no third group lies on a path between the two, so that contracting every group leaves an acyclic graph
    at any time. `above` holds, as a bit set, every group that a group depends on, itself left out; `sources` and `targets` are
    the direct neighbours alone.
    """

    def __init__(self) -> None:
        self.members: dict[int, list[Layer]] = {}
        self.above: dict[int, int] = {}
        self.sources: dict[int, set[int]] = {}
        self.targets: dict[int, set[int]] = {}
        self.of: dict[Layer, int] = {}

    def add(self, layer: Layer, sources: Sequence[int]) -> int:
        """Make a group of one layer, which reads these groups."""
        group = len(self.of)
        above = 0
        for source in sources:
            above |= self.above[source] | (1 << source)
            self.targets[source].add(group)
        self.of[layer] = group
        self.members[group] = [layer]
        self.above[group], self.sources[group], self.targets[group] = above, set(sources), set()
        return group

    def join(self, layer: Layer, group: int) -> None:
        """Take a layer that reads this group alone into it: no path leads around, and nothing depends on the layer yet."""
        self.of[layer] = group
        self.members[group].append(layer)

    def can_merge(self, a: int, b: int) -> bool:
        """Say whether no path leads from one to the other through a third."""
        return not self._has_detour(a, b) and not self._has_detour(b, a)

    def _has_detour(self, first: int, last: int) -> bool:
        bit = 1 << first
        return any(self.above[source] & bit for source in self.sources[last] if source != first)

    def merge(self, a: int, b: int) -> int:
        """Merge `b` into `a`; returns `a`."""
        above = (self.above[a] | self.above.pop(b)) & ~((1 << a) | (1 << b))
        for source in self.sources.pop(b) - {a}:
            self.targets[source].remove(b)
            self.targets[source].add(a)
            self.sources[a].add(source)
        for target in self.targets.pop(b) - {a}:
            self.sources[target].remove(b)
            self.sources[target].add(a)
            self.targets[a].add(target)
        self.sources[a].discard(b)
        self.targets[a].discard(b)
        self.above[a] = above
        for other in self._dependents(a):
            self.above[other] = (self.above[other] | above | (1 << a)) & ~(1 << b)
        moved = self.members.pop(b)
        for layer in moved:
            self.of[layer] = a
        self.members[a] += moved
        return a

    def _dependents(self, group: int) -> set[int]:
        found: set[int] = set()
        waiting = [group]
        while waiting:
            for target in self.targets[waiting.pop()]:
                if target not in found:
                    found.add(target)
                    waiting.append(target)
        return found


def partition(order: Sequence[Layer], homes: Mapping[Layer, Home]) -> list[tuple[Home, list[Layer]]]:
    """Return (home, layers) of every partition, such that each comes after those it depends on.

    Partitions are connected, convex and maximal: no two of one home that touch could be one (what blocks a merge is a path
    through another home, and later merges never remove one). Contracting all of them leaves an acyclic graph. The result
    depends on the graph alone.

    Args:
        order: All layers, producers before consumers.
        homes: Where layers run; one without a home, such as a copy, is in no partition, but paths through it count.
    """
    groups = _Groups()
    position = {layer: number for number, layer in enumerate(order)}
    for layer in order:
        if isinstance(layer.descriptor, _WITHOUT_WORK):
            continue
        feeding = list(
            dict.fromkeys(
                slot.source.layer for slot in layer.inputs if slot.source is not None and slot.source.layer in groups.of
            )
        )
        fed_by = list(dict.fromkeys(groups.of[source] for source in feeding))
        if len(fed_by) == 1 and layer in homes and feeding[0] in homes and homes[layer] == homes[feeding[0]]:
            groups.join(layer, fed_by[0])
            continue
        group = groups.add(layer, fed_by)
        for source in feeding:
            if layer in homes and source in homes and homes[layer] == homes[source]:
                other = groups.of[source]
                if other != group and groups.can_merge(other, group):
                    group = groups.merge(other, group)
    found = [
        (group, homes[members[0]], sorted(members, key=position.__getitem__))
        for group, members in groups.members.items()
        if members[0] in homes
    ]
    # A group that depends on another depends on more groups than that one does: the count sorts topologically.
    found.sort(key=lambda item: (groups.above[item[0]].bit_count(), position[item[2][0]]))
    return [(home, members) for _, home, members in found]
