"""A backend's view of a part of the graph, and its answer: replace, leave, drop or give back.

Constants are never members of a view, nor among its inputs: they are read through
``layer.constant(index)``. A replacement brings its own, and an array handed from one network to the
other is shared, not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from ..graph.descriptor import Constant, Descriptor, Input, Output
from ..graph.graph import Graph
from ..graph.layer import Layer, OutputSlot
from ..ground.errors import BackendError, ErrorCode, GraphError
from ..ground.foreign_text import shown
from ..ground.records import NamedTuple
from .private_layer import PrivateLayer, WholePart

_NO_MEMBERS = (Input, Output, Constant)


class SubgraphView:
    """Some layers of a graph and where they touch the rest; a view never changes the graph.

    Attributes:
        graph: The whole graph.
        layers: The members, producers before consumers.
        inputs: Slots outside that feed the members, constants apart, in the order in which the
            members first read them.
        outputs: Slots of the members that are read outside, in the order of the members.
    """

    __slots__ = ("_known_convex", "_members", "_positions", "_within", "graph", "inputs", "layers", "outputs")

    def __init__(
        self, graph: Graph, layers: Iterable[Layer], *, convex: bool = False, within: SubgraphView | None = None
    ) -> None:
        """See some layers.

        Args:
            graph: The whole graph.
            layers: The members.
            convex: They are known to be, as a partition is.
            within: A view that is known to be convex and holds them: paths between them stay in it.
        """
        members: frozenset[Layer] = frozenset(layers)
        self._members = members
        self._known_convex = convex
        self._within = within if within is not None and members <= within._members else None
        self._positions: dict[Layer, int] = {}
        for layer in sorted(members, key=_by_id):
            if layer.name not in graph or graph.layer(layer.name) is not layer:
                raise GraphError(f"layer {layer.name!r} is not a layer of network {graph.name!r}")
            if isinstance(layer.descriptor, _NO_MEMBERS):
                raise GraphError(
                    f"{layer.kind} {layer.name!r} cannot be a member of a subgraph",
                    hint="name the layers that compute; constants are seen through layer.constant(index)",
                )
        self.graph = graph
        self.layers = _ordered(members)
        self.inputs = tuple(
            dict.fromkeys(
                slot.source
                for layer in self.layers
                for slot in layer.inputs
                if slot.source is not None
                and slot.source.layer not in members
                and not isinstance(slot.source.layer.descriptor, Constant)
            )
        )
        self.outputs = tuple(
            slot
            for layer in self.layers
            for slot in layer.outputs
            if any(consumer.layer not in members for consumer in slot.consumers)
        )

    def __contains__(self, layer: object) -> bool:
        return layer in self._members

    def __len__(self) -> int:
        return len(self.layers)

    def __repr__(self) -> str:
        return f"<SubgraphView of {', '.join(layer.name for layer in self.layers) or 'nothing'}>"

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the layers of the original network that the members stand for."""
        return tuple(dict.fromkeys(name for layer in self.layers for name in layer.sources))

    def part(self, layers: Iterable[Layer]) -> SubgraphView:
        """Return a view of some layers of the same graph."""
        return SubgraphView(self.graph, layers, within=self if self._known_convex else self._within)

    def breach(self) -> Layer | None:
        """Return a layer outside, on a path between members; None if the view is convex."""
        if len(self.layers) < 2 or self._known_convex:
            return None
        positions = self._within._all_positions() if self._within is not None else self.graph.positions()
        last = max([positions[layer] for layer in self.layers])  # no path leads back from behind it
        seen: set[Layer] = set()
        stack = [c.layer for slot in self.outputs for c in slot.consumers if c.layer not in self._members]
        while stack:
            layer = stack.pop()
            if layer in seen or positions.get(layer, last) >= last:
                continue
            seen.add(layer)
            for slot in layer.outputs:
                for consumer in slot.consumers:
                    if consumer.layer in self._members:
                        return layer
                    stack.append(consumer.layer)
        return None

    def _all_positions(self) -> Mapping[Layer, int]:
        if not self._positions:
            self._positions = {layer: number for number, layer in enumerate(self.layers)}
        return self._positions

    @property
    def is_convex(self) -> bool:
        """True if no path leaves the view and comes back: it could run as one step."""
        return self.breach() is None

    def convex_parts(self) -> list[SubgraphView]:
        """Split the view into parts that can each run as one step, in an order in which they can.

        A layer's level is the largest number of times that a path to it has left the view and come
        back; a level is convex.
        """
        if self.is_convex:
            return [self]
        level: dict[Layer, int] = {}
        for layer in self.graph.topological_order():
            levels = [
                level[slot.source.layer] + (slot.source.layer in self and layer not in self)
                for slot in layer.inputs
                if slot.source is not None
            ]
            level[layer] = max(levels, default=0)
        numbers = sorted({level[layer] for layer in self.layers})
        return [self.part([layer for layer in self.layers if level[layer] == number]) for number in numbers]


def _by_id(layer: Layer) -> int:
    return layer.id


def _ordered(members: frozenset[Layer]) -> tuple[Layer, ...]:
    waiting = {
        layer: sum(1 for slot in layer.inputs if slot.source is not None and slot.source.layer in members)
        for layer in sorted(members, key=_by_id)
    }
    ready = [layer for layer, count in waiting.items() if count == 0]
    for layer in ready:
        for slot in layer.outputs:
            for consumer in slot.consumers:
                if consumer.layer in members:
                    waiting[consumer.layer] -= 1
                    if waiting[consumer.layer] == 0:
                        ready.append(consumer.layer)
    if len(ready) != len(waiting):
        stuck = ", ".join(layer.name for layer, count in waiting.items() if count > 0)
        raise GraphError(f"layers {stuck} form a cycle", code=ErrorCode.GRAPH_CYCLE)
    return tuple(ready)


Part: TypeAlias = SubgraphView | Layer | Iterable[Layer]
"""How a backend names a part of its view: a view, one layer, or several."""


class Substitution(NamedTuple):
    """A part and what stands in for it."""

    part: SubgraphView
    replacement: Graph


class Failure(NamedTuple):
    """A part that the backend gives back, and why."""

    part: SubgraphView
    reason: str


class OptimizationViews:
    """A backend's answer to `optimize_subgraph`: each layer is in exactly one of its four lists.

    The core checks the answer always. One that is not sound is taken as a failure of the whole
    view; without fallback it is refused with `SUBSTITUTION_INVALID`.

    Attributes:
        view: What was offered.
        substitutions, failures, kept, deletions: What was answered, in order.
    """

    def __init__(self, view: SubgraphView) -> None:
        self.view = view
        self.substitutions: list[Substitution] = []
        self.failures: list[Failure] = []
        self.kept: list[SubgraphView] = []
        self.deletions: list[SubgraphView] = []

    def __repr__(self) -> str:
        lists = ("substitutions", "failures", "kept", "deletions")
        return f"<OptimizationViews of {self.view!r}: {', '.join(f'{len(getattr(self, name))} {name}' for name in lists)}>"

    def substitute(self, part: Part, replacement: Graph) -> None:
        """Replace a part by private layers.

        Args:
            part: What is replaced; convex.
            replacement: A network whose inputs and outputs stand, in order of creation, for
                `part.inputs` and `part.outputs`, with equal shape, dtype and quantization; between
                its layers an info may carry an `OpaqueLayout`. Its layers stand for all of
                `part.sources`, unless they were added with `sources_of`, or bear the name of a
                layer of the part, for which they stand then.
        """
        self.substitutions.append(Substitution(self._view_of(part), replacement))

    def private_layer(self, part: Part, kind: type[PrivateLayer], **attributes: Any) -> None:
        """Replace a part by one private layer, whose inputs and outputs are the part's, in order.

        Args:
            part: What is replaced; convex.
            kind: Of the layer.
            attributes: Of the layer, `infos` apart.
        """
        view = self._view_of(part)
        graph = Graph(kind.kind)
        sources = [graph.add(Input(info=slot.known_info), name=f"in {number}") for number, slot in enumerate(view.inputs)]
        descriptor = kind(infos=tuple(slot.known_info for slot in view.outputs), **attributes)
        name = view.layers[0].name if len(view) == 1 else f"{view.layers[0].name} ... {view.layers[-1].name}"
        layer = graph.add(descriptor, *(source.output for source in sources), name=name)
        for number, slot in enumerate(layer.outputs):
            graph.output(slot, f"out {number}")
        self.substitute(view, graph)

    def compile_whole(
        self, part: Part, compile: Callable[[Any], Any], words: str = "", steps: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Take all of a part as one workload.

        It is compiled when the network is loaded; placing compiles nothing.

        Args:
            part: What is taken; convex, as those of `SubgraphView.convex_parts`.
            compile: Returns the workload as `IWorkloadFactory.create_workload` does: its inputs and
                outputs are the part's, in order. It is handed the backend's factory, which is not
                asked itself. What it needs to know of the part it must have kept: the part's layers
                are gone by then. If it raises, the part goes back to the next backend.
            words: What the workload is, for placement reports; default: how many layers it runs.
            steps: What its steps are, for the same: names, of layers for example, and words.

        Raises:
            BackendError: `compile` cannot be called (`BACKEND_CONTRACT`).
        """
        if not callable(compile):
            raise BackendError(
                f"compile_whole() was given {shown(compile)} to compile the part",
                code=ErrorCode.BACKEND_CONTRACT,
                hint="give a function that is called with the factory, and returns the workload",
            )
        view = self._view_of(part)
        counted = "1 layer" if len(view) == 1 else f"{len(view)} layers"
        words = words or f"{counted} as one workload"
        self.private_layer(view, WholePart, compile=compile, words=words, steps=tuple(steps))

    def failed(self, part: Part, reason: str) -> None:
        """Give a part back: it is barred from this backend and placed anew.

        The reason stands in the placement report.
        """
        self.failures.append(Failure(self._view_of(part), reason))

    def untouched(self, part: Part) -> None:
        """Leave a part as it is: one workload per layer."""
        self.kept.append(self._view_of(part))

    def delete(self, part: Part) -> None:
        """Drop a part that computes nothing: what read its outputs reads its inputs.

        Output i takes input i, or all outputs take the only input; their infos must be equal.
        """
        self.deletions.append(self._view_of(part))

    @property
    def parts(self) -> list[SubgraphView]:
        """All parts that were named, in order of the four lists."""
        return [
            *(substitution.part for substitution in self.substitutions),
            *(failure.part for failure in self.failures),
            *self.kept,
            *self.deletions,
        ]

    def _view_of(self, part: Part) -> SubgraphView:
        if isinstance(part, SubgraphView):
            return part
        return self.view.part([part] if isinstance(part, Layer) else part)


class Choice(NamedTuple):
    """A part that can be computed in several ways.

    Attributes:
        part: What it is about.
        taken: Name of the way that stands in the graph now.
        others: Replacements by the names of the other ways.
    """

    part: SubgraphView
    taken: str
    others: Mapping[str, Graph]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all ways, the one that is taken first."""
        return (self.taken, *self.others)


class Choices:
    """A backend's answer to `choices`: parts of a view, each with other ways to compute it.

    No layer is in two of them.

    Attributes:
        view: What was asked about.
        offers: What was offered, in order.
    """

    def __init__(self, view: SubgraphView) -> None:
        self.view = view
        self.offers: list[Choice] = []

    def __repr__(self) -> str:
        return f"<Choices of {self.view!r}: {len(self.offers)} offer(s)>"

    def offer(self, part: Part, taken: str, others: Mapping[str, Graph | Descriptor]) -> None:
        """Offer other ways to compute a part.

        Args:
            part: Layers of the view; convex.
            taken: Name of the way that stands in the graph: a word or two for people, such as
                "direct".
            others: By name, either a replacement as `OptimizationViews.substitute` takes it, whose
                outer slots may have the opaque layouts of those of the part, or, where the part is
                one layer, the descriptor to compute it by.
        """
        view = part if isinstance(part, SubgraphView) else self.view.part([part] if isinstance(part, Layer) else part)
        graphs = {name: other if isinstance(other, Graph) else _with_descriptor(view, other) for name, other in others.items()}
        self.offers.append(Choice(view, taken, graphs))


def _with_descriptor(part: SubgraphView, descriptor: Descriptor) -> Graph:
    """Return a replacement of one layer that reads and writes what the layer of a part does."""
    (layer,) = part.layers
    graph = Graph(layer.name)
    known = {slot: graph.add(Input(info=slot.known_info), name=f"in {n}").output for n, slot in enumerate(part.inputs)}
    for read in layer.inputs:
        if read.source is not None and read.source not in known:
            constant = read.source
            known[constant] = graph.add(constant.layer.descriptor, quantization=constant.quantization).output
    read_slots = [None if read.source is None else known[read.source] for read in layer.inputs]
    made = graph.add(descriptor, *read_slots, name=layer.name, sources_of=[layer.name])
    for slot in part.outputs:
        made.outputs[slot.index].quantization = slot.quantization
        graph.output(made.outputs[slot.index], f"out {slot.index}")
    return graph


def slot_names(slots: Iterable[OutputSlot]) -> str:
    """Name slots for a message."""
    return ", ".join(slot.name for slot in slots) or "none"
