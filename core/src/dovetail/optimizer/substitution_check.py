"""Check every answer of a backend: it must be exactly a rewriting of what was offered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..contract.subgraph import Failure, OptimizationViews, SubgraphView, Substitution, slot_names
from ..graph.descriptor import Constant, Input, Output
from ..graph.graph import Graph
from ..graph.layer import InputSlot, Layer, OutputSlot
from ..graph.layer_state import LayerState
from ..graph.tensor import TensorInfo
from ..ground.errors import BackendError, DovetailError, ErrorCode
from ..ground.foreign_text import described, shown
from ..ground.host_exceptions import is_of_host
from .candidate import Assigned


def check_answer(view: SubgraphView, answer: object, candidate: Assigned, method: str = "optimize_subgraph") -> None:
    """Refuse an answer of a method that is not sound.

    The parts must cover the view exactly, be convex, and together leave no cycle; a replacement
    must be acyclic, with links on which both ends agree, have a slot with an equal info for each
    slot of its part, and stand only for layers of its part; a deleted part must connect.

    Raises:
        BackendError: `SUBSTITUTION_INVALID`; names the backend and the layers.
    """
    check = _Check(view, candidate, method)
    try:
        check.answer(answer)
    except DovetailError:
        raise
    except BaseException as error:  # objects of the backend's own may do anything when they are looked at; SystemExit too
        if is_of_host(error):
            raise
        raise check.error(f"gave an answer that cannot be read: {described(error)}", view.layers) from error


class ViewState:
    """A view and what it is joined to, noted before a backend is asked about it."""

    def __init__(self, view: SubgraphView) -> None:
        self._view = view
        self._named = {layer.name: layer for layer in view.layers}
        self._states = [LayerState(layer) for layer in view.layers]
        self._readers = {
            slot.source: len(slot.source.consumers)
            for layer in view.layers
            for slot in layer.inputs
            if slot.source is not None and slot.source.layer not in view
        }
        self._layers = len(view.graph)

    def require_unchanged(self, candidate: Assigned, method: str = "optimize_subgraph") -> None:
        """Undo what a backend did to the layers of the view, and refuse it.

        Raises:
            BackendError: It changed something: `SUBSTITUTION_INVALID`, or `BACKEND_CONTRACT` where
                that could not be undone.
        """
        changed = [layer for state, layer in zip(self._states, self._named.values(), strict=True) if state.restore()]
        if self.is_broken():
            raise BackendError(
                f"backend {candidate.label}: {method}() changed the network that it was shown, not only its answer",
                code=ErrorCode.BACKEND_CONTRACT,
                hint="a view is read, never changed; tell the backend's vendor",
                backend=candidate.label,
                layers=list(self._named),
            )
        if changed:
            raise _Check(self._view, candidate, method).error("changed layers that it was shown", changed)

    def is_broken(self) -> bool:
        """Say whether the network around the layers is another than it was."""
        graph = self._view.graph
        try:
            return (
                len(graph) != self._layers
                or any(name not in graph or graph.layer(name) is not layer for name, layer in self._named.items())
                or any(len(slot.consumers) != count for slot, count in self._readers.items())
            )
        except Exception:  # the slots hold something else now
            return True


def given_sources(part: SubgraphView, replacement: Graph) -> dict[Layer, tuple[str, ...]]:
    """Return what each layer of a replacement stands for, in original names.

    It is what the backend gave, or the layer of the part that it bears the name of, else all of the
    part. What then nobody stands for is added to the layers of which the backend gave nothing.
    """
    original = {layer.name: layer.sources for layer in part.layers}
    whole = part.sources
    found = {
        layer: whole
        if layer.sources == (layer.name,) and layer.name not in original
        else tuple(dict.fromkeys(source for name in layer.sources for source in original.get(name, (name,))))
        for layer in replacement
    }
    computing = [layer for layer in replacement if not isinstance(layer.descriptor, Constant | Input | Output)]
    left = set(whole).difference(*(found[layer] for layer in computing))
    for layer in computing if left else ():
        if layer.sources == (layer.name,):
            found[layer] = tuple(name for name in whole if name in left or name in found[layer])
    return found


class _Check:
    """Words errors for one backend, method and view."""

    def __init__(self, view: SubgraphView, candidate: Assigned, method: str) -> None:
        self.view = view
        self.method = method
        self.label = candidate.label

    def error(self, problem: str, layers: Iterable[Layer]) -> BackendError:
        names = [layer.name for layer in layers]
        return BackendError(
            f"backend {self.label}: {self.method}() {problem} (layers {', '.join(names) or 'none'})",
            code=ErrorCode.SUBSTITUTION_INVALID,
            hint="the answer must cover the view exactly, with parts and replacements that fit; tell the backend's vendor",
            backend=self.label,
            layers=names,
        )

    def answer(self, answer: object) -> None:
        if not isinstance(answer, OptimizationViews):
            raise self.error(f"returned {shown(answer)}, not OptimizationViews", self.view.layers)
        if answer.view is not self.view:
            raise self.error("answered about another view than it was asked about", self.view.layers)
        self.entries(answer)
        self.coverage(answer.parts)
        self.order(answer)
        for substitution in answer.substitutions:
            self.replacement(substitution)
        for part in answer.deletions:
            self.deletion(part)

    def entries(self, answer: OptimizationViews) -> None:
        """Refuse what the four lists cannot hold.

        They are open, and a backend may append to them itself.
        """
        kinds = {"substitutions": Substitution, "failures": Failure, "kept": SubgraphView, "deletions": SubgraphView}
        for name, kind in kinds.items():
            for entry in getattr(answer, name):
                part = entry.part if isinstance(entry, Substitution | Failure) else entry
                if not isinstance(entry, kind) or not isinstance(part, SubgraphView):
                    raise self.error(f"put {shown(entry)} into {name}, not {_ENTRIES[kind]}", self.view.layers)
        for part, reason in answer.failures:
            if not isinstance(reason, str):
                raise self.error(f"gave a part back with the reason {shown(reason)}, not a text", part.layers)

    def coverage(self, parts: Sequence[SubgraphView]) -> None:
        seen: set[Layer] = set()
        for part in parts:
            foreign = [layer for layer in part.layers if layer not in self.view]
            if foreign:
                raise self.error("named layers that it was not offered", foreign)
            twice = [layer for layer in part.layers if layer in seen]
            if twice:
                raise self.error("named layers in more than one part", twice)
            seen.update(part.layers)
        missing = [layer for layer in self.view.layers if layer not in seen]
        if missing:
            raise self.error("left layers out: neither replaced, nor untouched, failed or deleted", missing)

    def order(self, answer: OptimizationViews) -> None:
        """Contract what is replaced or deleted, and refuse cycles.

        What is kept or failed stays single layers. The view is convex, so that all of this is seen
        within it: nothing is walked for each part alone.
        """
        merged = [*(substitution.part for substitution in answer.substitutions), *answer.deletions]
        node: dict[Layer, int] = {layer: -1 - number for number, layer in enumerate(self.view.layers)}
        for number, part in enumerate(merged):
            node.update(dict.fromkeys(part.layers, number))
        stuck = _cyclic(self.view, node)  # a path that leaves a part of a convex view and comes back is a cycle too
        if not stuck:
            return
        for part in merged:
            breach = part.breach()
            if breach is not None:
                raise self.error(
                    f"replaced a part that is not convex: a path leaves it and comes back through {breach.name!r}", part.layers
                )
        raise self.error("replaced parts that depend on each other in a circle", stuck)

    def replacement(self, substitution: Substitution) -> None:
        part, replacement = substitution
        if not isinstance(replacement, Graph):
            raise self.error(f"gave {shown(replacement)} as a replacement, not a network", part.layers)
        if replacement is self.view.graph:
            raise self.error("gave the network that it was shown as a replacement, not one of its own", part.layers)
        pairs = (("input", part.inputs, len(replacement.inputs)), ("output", part.outputs, len(replacement.outputs)))
        for what, slots, count in pairs:
            if len(slots) != count:
                raise self.error(
                    f"gave a replacement with {count} {what}s for a part with {len(slots)}: {slot_names(slots)}", part.layers
                )
        loose = _loose_end(replacement)
        if loose:
            raise self.error(f"gave a replacement that is not joined soundly: {loose}", part.layers)
        try:
            if part.outputs:
                replacement.validate()
            else:  # nobody reads the part, so that its replacement has no output either
                replacement.topological_order()
        except DovetailError as error:
            if is_of_host(error):
                raise
            raise self.error(f"gave a replacement that is no valid network: {error.message}", part.layers) from error
        self._infos(part, replacement)
        self._names(part, replacement)

    def _infos(self, part: SubgraphView, replacement: Graph) -> None:
        for layer in replacement:
            for slot in layer.outputs:
                if not isinstance(slot.info, TensorInfo) or not slot.info.is_concrete:
                    raise self.error(f"gave a replacement in which the info of {slot.name!r} is not known", part.layers)
        for outside, layer in zip(part.inputs, replacement.inputs, strict=True):
            self._same("input", outside, layer.outputs[0].info, part)
        for outside, layer in zip(part.outputs, replacement.outputs, strict=True):
            self._same("output", outside, layer.inputs[0].info, part)

    def _same(self, what: str, outside: OutputSlot, inside: TensorInfo | None, part: SubgraphView) -> None:
        wanted = outside.known_info
        if inside is None:
            raise self.error(f"gave a replacement whose {what} for {outside.name!r} is not connected", part.layers)
        for name in ("shape", "dtype", "quantization"):
            if getattr(inside, name) != getattr(wanted, name):
                raise self.error(
                    f"gave a replacement whose {what} for {outside.name!r} has {name} {_text(inside, name)}, "
                    f"expected {_text(wanted, name)}",
                    part.layers,
                )
        if inside.opaque != wanted.opaque:
            layouts = [None if info.opaque is None else info.opaque.tag for info in (inside, wanted)]
            found, expected = ("no opaque layout" if tag is None else f"the opaque layout {tag!r}" for tag in layouts)
            raise self.error(
                f"gave a replacement whose {what} for {outside.name!r} has {found}: "
                + ("outer slots are plain" if wanted.opaque is None else f"outside it has {expected}"),
                part.layers,
            )

    def _names(self, part: SubgraphView, replacement: Graph) -> None:
        known = {*part.sources, *(layer.name for layer in part.layers)}
        for layer in replacement:
            if not isinstance(layer.sources, tuple) or not all(isinstance(name, str) for name in layer.sources):
                raise self.error(f"says that {layer.name!r} stands for {shown(layer.sources)}, not for names", part.layers)
            strange = [name for name in layer.sources if name not in known]
            if strange and layer.sources != (layer.name,):
                raise self.error(
                    f"says that {layer.name!r} stands for {', '.join(strange)}, which the part does not hold", part.layers
                )

    def deletion(self, part: SubgraphView) -> None:
        inputs, outputs = part.inputs, part.outputs
        if not outputs:
            return
        if len(inputs) not in (1, len(outputs)):
            raise self.error(
                f"deleted a part with inputs {slot_names(inputs)} and outputs {slot_names(outputs)}: they cannot be joined",
                part.layers,
            )
        for index, slot in enumerate(outputs):
            source = inputs[0 if len(inputs) == 1 else index]
            if source.known_info != slot.known_info:
                raise self.error(
                    f"deleted a part whose output {slot.name!r} is {slot.known_info}, but whose input {source.name!r} is "
                    f"{source.known_info}, or quantized otherwise",
                    part.layers,
                )


_ENTRIES: dict[type, str] = {
    Substitution: "a part and its replacement",
    Failure: "a part and a reason",
    SubgraphView: "a view",
}


def _loose_end(graph: Graph) -> str:
    """Say where the two ends of a link disagree; an empty text if all agree.

    They disagree when a slot is set by hand.
    """
    reads: dict[InputSlot, OutputSlot] = {}
    for layer in graph:
        numbered: list[tuple[int, InputSlot | OutputSlot]] = [*enumerate(layer.inputs), *enumerate(layer.outputs)]
        if any(slot.layer is not layer or slot.index != number for number, slot in numbered):
            return f"layer {layer.name!r} has a slot of another layer"
        reads.update((slot, slot.source) for slot in layer.inputs if slot.source is not None)
    for layer in graph:
        for written in layer.outputs:
            for reader in written.consumers:
                if reads.pop(reader, None) is not written:
                    return f"slot {written.name!r} names a consumer that does not read it, or names it twice"
    for reader, source in reads.items():  # those that no slot of this network knows of
        return (
            f"input {reader.name!r} of layer {reader.layer.name!r} reads {source.name!r}, which does not have it as a consumer"
        )
    return ""


def _text(info: TensorInfo, name: str) -> str:
    return info.shape_text if name == "shape" else str(getattr(info, name))


def _cyclic(view: SubgraphView, node: dict[Layer, int]) -> list[Layer]:
    """Return the layers of the nodes on or behind a cycle of the contracted view."""
    targets: dict[int, set[int]] = {number: set() for number in node.values()}
    for layer in view.layers:
        for slot in layer.inputs:
            if slot.source is not None and slot.source.layer in view and node[slot.source.layer] != node[layer]:
                targets[node[slot.source.layer]].add(node[layer])
    waiting = dict.fromkeys(targets, 0)
    for several in targets.values():
        for target in several:
            waiting[target] += 1
    ready = [number for number, count in waiting.items() if count == 0]
    for number in ready:
        for target in sorted(targets[number]):
            waiting[target] -= 1
            if waiting[target] == 0:
                ready.append(target)
    return [layer for layer in view.layers if waiting[node[layer]] > 0]
