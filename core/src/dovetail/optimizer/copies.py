"""Insert copies between memory domains: one per tensor and domain, visible, with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..contract.backend_calls import backend_call, checked
from ..contract.interfaces import HOST, IBackend, MemoryDomain, TensorDomains
from ..graph.descriptor import Constant
from ..graph.graph import Graph
from ..graph.layer import InputSlot, Layer, OutputSlot
from ..ground.errors import BackendError, ErrorCode
from ..ground.records import NamedTuple, Record, field
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
        mapped: The core copies, in memory that the host can see; else `backend` does.
        milliseconds: What it took on average in the latest profile: of the device where it tells,
            else of the host. None: nobody measured, or it was enqueued on a device that does not
            tell.
    """

    name: str
    tensor: str
    source: MemoryDomain
    target: MemoryDomain
    backend: str | None
    nbytes: int
    reason: str
    mapped: bool = False
    milliseconds: float | None = None


class Domains(Record):
    """Where each backend keeps its tensors, and which other domains it can touch in place.

    Each is asked once.

    Attributes:
        homes: The backend of each layer that has one.
        own: The domains of each backend; the first is where tensors lie that it says nothing of.
        chosen: What backends said of the tensors of a layer.
    """

    homes: dict[Layer, Assigned]
    own: dict[Assigned, tuple[MemoryDomain, ...]] = field(default_factory=dict)
    importable: dict[Assigned, frozenset[MemoryDomain]] = field(default_factory=dict)
    chosen: dict[Layer, TensorDomains] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for home in dict.fromkeys(self.homes.values()):
            self.own[home] = own_domains(home)
            self.importable[home] = _importable_domains(home)
        for layer, home in self.homes.items():
            if type(home.backend).tensor_domains is not IBackend.tensor_domains:
                answer = _tensor_domains(layer, home, self.own[home])
                if answer is not None:
                    self.chosen[layer] = answer

    def written(self, slot: OutputSlot) -> MemoryDomain:
        """Return where a layer writes a result by itself; the core's layers use host memory."""
        chosen = self.chosen.get(slot.layer)
        return self._usual(slot.layer) if chosen is None else chosen.outputs[slot.index]

    def read(self, slot: InputSlot) -> MemoryDomain:
        """Return where a layer reads an input by itself."""
        chosen = self.chosen.get(slot.layer)
        return self._usual(slot.layer) if chosen is None else chosen.inputs[slot.index]

    def can_read(self, slot: InputSlot, domain: MemoryDomain) -> bool:
        """Say whether a layer reads an input in a domain without a copy."""
        return domain == self.read(slot) or self._imports(slot.layer, domain)

    def can_write(self, slot: OutputSlot, domain: MemoryDomain) -> bool:
        """Say whether a layer writes a result in a domain without a copy."""
        return domain == self.written(slot) or self._imports(slot.layer, domain)

    def maps(self, source: MemoryDomain, target: MemoryDomain) -> bool:
        """Say whether the core copies between two domains, because the host can see both."""
        return self._owner(source, target) is None and all(domain == HOST or domain.host_visible for domain in (source, target))

    def copier(self, source: MemoryDomain, target: MemoryDomain) -> Assigned | None:
        """Return who copies directly between two domains; None: the core, by mapping, or nobody.

        It is an owner of one, whose other side is its own too, can be imported, or is the host's.
        """
        owner = self._owner(source, target)
        if owner is None and HOST in (source, target) and not self.maps(source, target):
            device = target if source == HOST else source
            owner = next((home for home, own in self.own.items() if device in own), None)
        return owner

    def is_direct(self, source: MemoryDomain, target: MemoryDomain) -> bool:
        """Say whether a copy from one domain to another need not stop at the host."""
        return HOST in (source, target) or self.maps(source, target) or self.copier(source, target) is not None

    def _usual(self, layer: Layer) -> MemoryDomain:
        home = self.homes.get(layer)
        return HOST if home is None else self.own[home][0]

    def _imports(self, layer: Layer, domain: MemoryDomain) -> bool:
        home = self.homes.get(layer)
        return home is not None and domain in self.importable[home]

    def _owner(self, source: MemoryDomain, target: MemoryDomain) -> Assigned | None:
        """Return an owner of one of two domains of devices that can touch the other."""
        for home, own in self.own.items():
            for mine, other in ((source, target), (target, source)):
                if HOST not in (mine, other) and mine in own and (other in own or other in self.importable[home]):
                    return home
        return None


def own_domains(home: Assigned) -> tuple[MemoryDomain, ...]:
    """Ask a backend where it keeps its tensors."""
    origin = f"backend {home.label}"
    with backend_call(origin, "memory_domains"):
        answer = tuple(home.backend.memory_domains(home.request.device))
    for domain in answer or (None,):
        checked(origin, "memory_domains", domain, MemoryDomain)
    return answer


def _importable_domains(home: Assigned) -> frozenset[MemoryDomain]:
    origin = f"backend {home.label}"
    with backend_call(origin, "importable_domains"):
        answer = frozenset(home.backend.importable_domains(home.request.device))
    return frozenset(checked(origin, "importable_domains", domain, MemoryDomain) for domain in answer)


def _tensor_domains(layer: Layer, home: Assigned, own: tuple[MemoryDomain, ...]) -> TensorDomains | None:
    origin = f"backend {home.label}, layer {layer.name!r} ({layer.kind})"
    with backend_call(origin, "tensor_domains"):
        answer = home.backend.tensor_domains(layer, home.options, home.device)
    if answer is None:
        return None
    checked(origin, "tensor_domains", answer, TensorDomains)
    counts = (len(layer.inputs), len(layer.outputs))
    if counts != (len(answer.inputs), len(answer.outputs)) or not {HOST, *own}.issuperset((*answer.inputs, *answer.outputs)):
        raise BackendError(
            f"{origin}: tensor_domains() answered {answer!r}",
            code=ErrorCode.BACKEND_CONTRACT,
            hint=f"give a domain for each of {counts[0]} inputs and {counts[1]} outputs: dovetail.HOST, or one of "
            f"memory_domains(): {', '.join(map(str, own))}",
            method="tensor_domains",
        )
    return answer


class InsertCopies(Pass):
    """Let every layer read only what it can touch.

    Inputs, outputs and constants of the network live in host memory; a constant is handed to every
    backend as it is. A result lives where its producer says, or in a domain that the producer can
    write in place if that saves copies. An owner that can touch both domains copies; the core does,
    by mapping, where the host can see both; otherwise the way is through the host. A copy is shared
    by all who need it.

    After `run`, `domains` (of every slot), `copiers` (who makes each copy) and `reports` tell what
    was done.

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
            if not isinstance(consumer.layer.descriptor, MemoryCopy) and not world.can_read(consumer, self.domains[slot]):
                strangers.setdefault(world.read(consumer), []).append(consumer)
        made: dict[MemoryDomain, OutputSlot] = {self.domains[slot]: slot}
        # The host first: a copy there may be a stop on the way elsewhere, and then it is the same
        # one.
        for target in sorted(strangers, key=lambda domain: (domain != HOST, domain)):
            readers = strangers[target]
            reason = self._reason(slot, readers)
            source = self.domains[slot]
            direct = world.is_direct(source, target)
            if not direct and HOST not in made:
                made[HOST] = self._copy(graph, slot, slot, HOST, world, f"{reason}; no direct way, so through the host")
            made[target] = self._copy(graph, slot if direct else made[HOST], slot, target, world, reason)
            for reader in readers:
                reconnect(graph, reader, made[target])

    def _copy(
        self, graph: Graph, source: OutputSlot, origin: OutputSlot, target: MemoryDomain, world: Domains, reason: str
    ) -> OutputSlot:
        start = self.domains[source]
        name = f"{origin.name}.to_{target.owner}"
        layer = graph.add(
            MemoryCopy(source=start, target=target),
            source,
            name=f"{name}_{target.kind}" if name in graph else name,
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
                world.maps(start, target),
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
    """Return the domain that the producer can write and that needs the fewest copies.

    On a tie its own domain wins.
    """
    own = world.written(slot)
    reads = [(consumer, world.read(consumer)) for consumer in slot.consumers]
    choices = [own, *sorted({domain for _, domain in reads if world.can_write(slot, domain)} - {own})]
    if len(choices) == 1 or slot.known_info.opaque is not None:
        return own

    def copies(domain: MemoryDomain) -> int:
        return len({wanted for consumer, wanted in reads if not world.can_read(consumer, domain)})

    return min(choices, key=copies)  # the first of equals: its own


def cancel_round_trips(graph: Graph) -> int:
    """Let readers of a copy that returns to its input's domain read the original.

    Returns how many copies went.
    """
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
