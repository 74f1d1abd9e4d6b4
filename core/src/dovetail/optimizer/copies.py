"""Insert copies between memory domains: one per tensor and domain, visible, with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from ..contract.backend_calls import backend_call, checked
from ..contract.interfaces import HOST, MemoryDomain
from ..graph.descriptor import Constant
from ..graph.graph import Graph
from ..graph.layer import InputSlot, Layer, OutputSlot
from .candidate import Assigned
from .core_kinds import MemoryCopy
from .passes.base import Pass
from .rewriting import bypass, prune, reconnect


class CopyReport(NamedTuple):
    """One copy.

    Attributes:
        name: Name of the copy layer.
        tensor: Name of the slot that is copied.
        source, target: Domains.
        backend: Who makes it; None for the core.
        nbytes: Size.
        reason: Who wrote the tensor and who reads it.
    """

    name: str
    tensor: str
    source: MemoryDomain
    target: MemoryDomain
    backend: str | None
    nbytes: int
    reason: str


@dataclass(slots=True)
class Domains:
    """Which domain each backend works in, and which others it can touch in place; each is asked once."""

    homes: dict[Layer, Assigned]
    own: dict[Assigned, MemoryDomain] = field(default_factory=dict)
    importable: dict[Assigned, frozenset[MemoryDomain]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for home in dict.fromkeys(self.homes.values()):
            self.own[home] = _own_domain(home)
            self.importable[home] = _importable_domains(home)

    def of(self, layer: Layer) -> MemoryDomain:
        """Return where a layer works; what the core runs works in host memory."""
        home = self.homes.get(layer)
        return HOST if home is None else self.own[home]

    def can_touch(self, layer: Layer, domain: MemoryDomain) -> bool:
        """Say whether a layer reads and writes tensors in a domain without a copy."""
        home = self.homes.get(layer)
        return domain == self.of(layer) or (home is not None and domain in self.importable[home])

    def copier(self, source: MemoryDomain, target: MemoryDomain) -> Assigned | None:
        """Return who copies directly between two domains: an owner whose other side is the host, or can be imported."""
        for home, own in self.own.items():
            other = target if own == source else source if own == target else None
            if other is not None and own != HOST and (other == HOST or other in self.importable[home]):
                return home
        return None


def _own_domain(home: Assigned) -> MemoryDomain:
    origin = f"backend {home.label}"
    with backend_call(origin, "memory_domain"):
        answer = home.backend.memory_domain(home.request.device)
    domain: MemoryDomain = checked(origin, "memory_domain", answer, MemoryDomain)
    return domain


def _importable_domains(home: Assigned) -> frozenset[MemoryDomain]:
    origin = f"backend {home.label}"
    with backend_call(origin, "importable_domains"):
        answer = frozenset(home.backend.importable_domains(home.request.device))
    return frozenset(checked(origin, "importable_domains", domain, MemoryDomain) for domain in answer)


class InsertCopies(Pass):
    """Let every layer read only what it can touch.

    Inputs, outputs and constants of the network live in host memory; a constant is handed to every backend as it is. A result
    lives in its producer's domain, or in one that the producer can write in place if that saves copies. Between two domains of
    which neither owner can touch the other, the way is through the host. A copy is shared by all who need it.

    After `run`, `domains` (of every slot), `copiers` (who makes each copy) and `reports` tell what was done.

    Args:
        homes: The backend of each layer that has one.
    """

    name: ClassVar[str] = "insert_copies"

    def __init__(self, homes: dict[Layer, Assigned]) -> None:
        self.homes = homes
        self.domains: dict[OutputSlot, MemoryDomain] = {}
        self.copiers: dict[Layer, Assigned | None] = {}
        self.reports: list[CopyReport] = []

    def run(self, graph: Graph) -> int:
        cancel_round_trips(graph)
        world = Domains(self.homes)
        for layer in graph.topological_order():
            for slot in layer.outputs:
                if isinstance(layer.descriptor, Constant):
                    self.domains[slot] = HOST
                elif isinstance(layer.descriptor, MemoryCopy):
                    self.domains[slot] = layer.descriptor.target
                    self.copiers[layer] = world.copier(layer.descriptor.source, layer.descriptor.target)
                else:
                    self.domains[slot] = _best_domain(slot, world)
                    self._serve(graph, slot, world)
        return len(self.reports)

    def _serve(self, graph: Graph, slot: OutputSlot, world: Domains) -> None:
        strangers: dict[MemoryDomain, list[InputSlot]] = {}
        for consumer in slot.consumers:
            if not isinstance(consumer.layer.descriptor, MemoryCopy) and not world.can_touch(
                consumer.layer, self.domains[slot]
            ):
                strangers.setdefault(world.of(consumer.layer), []).append(consumer)
        made: dict[MemoryDomain, OutputSlot] = {self.domains[slot]: slot}
        # The host first: a copy there may be a stop on the way elsewhere, and then it is the same one.
        for target in sorted(strangers, key=lambda domain: (domain != HOST, domain)):
            readers = strangers[target]
            reason = self._reason(slot, readers)
            source = self.domains[slot]
            if HOST not in (source, target) and world.copier(source, target) is None and HOST not in made:
                made[HOST] = self._copy(graph, slot, slot, HOST, world, f"{reason}; no direct way, so through the host")
            direct = HOST in (source, target) or world.copier(source, target) is not None
            made[target] = self._copy(graph, slot if direct else made[HOST], slot, target, world, reason)
            for reader in readers:
                reconnect(graph, reader, made[target])

    def _copy(
        self, graph: Graph, source: OutputSlot, origin: OutputSlot, target: MemoryDomain, world: Domains, reason: str
    ) -> OutputSlot:
        start = self.domains[source]
        layer = graph.add(
            MemoryCopy(source=start, target=target),
            source,
            name=f"{origin.name}.to_{target.owner}",
            sources_of=origin.layer.sources,
        )
        copier = world.copier(start, target)
        self.copiers[layer] = copier
        self.domains[layer.output] = target
        self.reports.append(
            CopyReport(
                layer.name,
                origin.name,
                start,
                target,
                None if copier is None else copier.label,
                origin.known_info.nbytes,
                reason,
            )
        )
        return layer.output

    def _reason(self, slot: OutputSlot, readers: Sequence[InputSlot]) -> str:
        names = list(dict.fromkeys(self._described(reader.layer) for reader in readers))
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return f"{shown} reads what {self._described(slot.layer)} makes"

    def _described(self, layer: Layer) -> str:
        home = self.homes.get(layer)
        return f"{layer.name} ({home.label if home else layer.kind.rsplit('.', 1)[-1].lower()})"


def _best_domain(slot: OutputSlot, world: Domains) -> MemoryDomain:
    """Return the domain that the producer can write and that needs the fewest copies; its own where that is as good."""
    own = world.of(slot.layer)
    choices = [
        own,
        *sorted({world.of(c.layer) for c in slot.consumers if world.can_touch(slot.layer, world.of(c.layer))} - {own}),
    ]
    if len(choices) == 1 or slot.known_info.opaque is not None:
        return own

    def copies(domain: MemoryDomain) -> int:
        return len({world.of(c.layer) for c in slot.consumers if not world.can_touch(c.layer, domain)})

    return min(choices, key=copies)  # the first of equals: its own


def cancel_round_trips(graph: Graph) -> int:
    """Let readers of a copy that goes back where its input came from read the original; returns how many went."""
    changes = 0
    for layer in graph:
        descriptor, source = layer.descriptor, layer.inputs[0].source if layer.inputs else None
        if not isinstance(descriptor, MemoryCopy) or source is None:
            continue
        first = source.layer
        if isinstance(first.descriptor, MemoryCopy) and first.descriptor.source == descriptor.target and first.inputs[0].source:
            graph.redirect(layer.output, first.inputs[0].source)
            prune(graph, [layer])
            changes += 1
        elif descriptor.source == descriptor.target:
            bypass(graph, layer)
            changes += 1
    return changes
