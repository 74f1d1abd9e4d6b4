"""Offer partitions to their backends and carry out what they answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from ..contract.interfaces import IBackend
from ..contract.subgraph import Failure, OptimizationViews, SubgraphView, Substitution
from ..graph.descriptor import Constant, Input, Output
from ..graph.graph import Graph
from ..graph.layer import InputSlot, Layer, OutputSlot
from ..ground.errors import BackendError, ErrorCode
from ..ground.foreign_text import described
from ..ground.host_exceptions import is_of_host
from ..ground.limits import budget
from ..ground.logs import Log
from .assignment import Assigner
from .candidate import Assigned
from .partition import partition
from .passes.base import Pass
from .report_words import listed
from .rewriting import drop_constants
from .substitution_check import ViewState, check_answer, given_sources

_log = Log("dovetail.optimizer")


class OptimizeSubgraphs(Pass):
    """Offer each partition to its backend, in order of preference, and do what the backend answers.

    A part that is given back is barred from that backend and placed anew, and whoever takes it is
    asked again; each round bars a layer from a backend, so this ends. No layer is offered twice to
    the same backend.

    Args:
        assigner: Knows the backend of each layer.
        apart: Each layer is a part of its own, in place of the largest parts that there are.
        fallback: Take an exception of a backend, or an answer against the contract, as a failure of
            the whole partition; else raise it.

    Raises:
        BackendError: Without fallback: the answer is against the contract (`SUBSTITUTION_INVALID`),
            or the backend raised (`BACKEND_CONTRACT`).
        PlacementError: A part that was given back has no other home.
    """

    name: ClassVar[str] = "optimize_subgraphs"

    def __init__(self, assigner: Assigner, *, fallback: bool = True, apart: bool = False) -> None:
        self.assigner = assigner
        self.apart = apart
        self.fallback = fallback

    def run(self, graph: Graph) -> int:
        settled: set[Layer] = set()
        changes = 0
        while True:
            returned: list[Layer] = []
            for candidate in self.assigner.opened:
                if type(candidate.backend).optimize_subgraph is IBackend.optimize_subgraph:
                    continue  # the default leaves everything untouched
                for layers in self._unsettled(graph, candidate, settled):
                    view = SubgraphView(graph, layers, convex=True)
                    answer = self._checked(candidate, view)
                    changes += len(answer.substitutions) + len(answer.deletions)
                    settled.update(layers)
                    for made in carry_out(graph, answer, candidate, self.assigner):
                        settled.update(made)
                    returned += self._place_anew(answer.failures, candidate)
            if not returned:
                return changes
            settled.difference_update(returned)

    def _unsettled(self, graph: Graph, candidate: Assigned, settled: set[Layer]) -> list[list[Layer]]:
        homes = {layer: (home, layer in settled) for layer, home in self.assigner.assigned.items()}
        if (candidate, False) not in homes.values():
            return []
        if self.apart:  # a layer whose results nobody reads never runs, and no replacement could have its outputs
            alone = (layer for layer in graph.topological_order() if homes.get(layer) == (candidate, False))
            return [[layer] for layer in alone if any(slot.consumers for slot in layer.outputs)]
        parts = partition(graph.topological_order(), homes)
        return [layers for home, layers in parts if home == (candidate, False)]

    def _checked(self, candidate: Assigned, view: SubgraphView) -> OptimizationViews:
        state = ViewState(view)
        answer = self._ask(candidate, view)
        try:
            state.require_unchanged(candidate)
            check_answer(view, answer, candidate)
        except BackendError as error:
            if not self.fallback or error.code is not ErrorCode.SUBSTITUTION_INVALID:
                raise
            return self._gives_back(candidate, view, error.message.removeprefix(f"backend {candidate.label}: "))
        return answer

    def _ask(self, candidate: Assigned, view: SubgraphView) -> OptimizationViews:
        budget().check_time()
        try:
            return candidate.backend.optimize_subgraph(view, candidate.options, candidate.device)
        except BaseException as error:  # a backend's fault, told with its id; SystemExit too
            if is_of_host(error):
                raise
            reason = f"optimize_subgraph() raised {described(error)}"
            if not self.fallback:
                died = isinstance(error, BackendError) and error.code is ErrorCode.ISOLATED_PROCESS_DIED
                raise BackendError(
                    f"backend {candidate.label}: {reason}",
                    code=ErrorCode.ISOLATED_PROCESS_DIED if died else ErrorCode.BACKEND_CONTRACT,
                    hint="tell the backend's vendor, or allow fallback to the next backend: fallback=True",
                    backend=candidate.label,
                    layers=[layer.name for layer in view.layers],
                ) from error
            return self._gives_back(candidate, view, reason)

    def _gives_back(self, candidate: Assigned, view: SubgraphView, reason: str) -> OptimizationViews:
        """Answer for a backend that did not: all of the part has failed."""
        _log.warning("backend %s: %s; its %d layers are given back", candidate.label, reason, len(view))
        answer = OptimizationViews(view)
        answer.failed(view, reason)
        return answer

    def _place_anew(self, failures: Iterable[Failure], candidate: Assigned) -> list[Layer]:
        layers = []
        for part, reason in failures:
            _log.warning("backend %s gave back %s: %s", candidate.label, listed([layer.name for layer in part.layers]), reason)
            for layer in part.layers:
                self.assigner.bar(layer, candidate, reason or "it gave the layer back without a reason")
                layers.append(layer)
        for layer in layers:
            self.assigner.assign(layer)
        self.assigner.require_homes(layers)
        return layers


def carry_out(graph: Graph, answer: OptimizationViews, candidate: Assigned, assigner: Assigner) -> list[list[Layer]]:
    """Apply a checked answer to the parts that it replaces and deletes.

    Returns the new layers of each replacement.
    """
    # Noted before anything moves: what feeds one part may be replaced together with another.
    entries = {id(part): entry_slots(part) for part in answer.parts}
    private = []
    for substitution in answer.substitutions:
        made = substitute(graph, substitution, entries[id(substitution.part)])
        assigner.adopt(made, candidate, substitution.part.layers)
        for layer in substitution.part.layers:
            assigner.forget(layer)
        private.append(made)
    for part in answer.deletions:
        delete(graph, part, entries[id(part)])
        for layer in part.layers:
            assigner.deleted.update(dict.fromkeys(layer.sources, candidate.label))
            assigner.forget(layer)
    return private


def entry_slots(part: SubgraphView) -> list[InputSlot]:
    """Return, for each input of a part, the first input slot of a member that reads it."""
    first: dict[OutputSlot, InputSlot] = {}
    for layer in part.layers:
        for slot in layer.inputs:
            if slot.source is not None:
                first.setdefault(slot.source, slot)
    return [first[source] for source in part.inputs]


def substitute(graph: Graph, substitution: Substitution, entries: Sequence[InputSlot]) -> list[Layer]:
    """Put a checked replacement in the place of its part; returns the new layers that compute."""
    part, replacement = substitution
    sources = given_sources(part, replacement)
    feeding = [_source(slot) for slot in entries]
    readers = _take_out(graph, part)
    before = len(graph)
    feeds = {layer.output: slot for layer, slot in zip(replacement.inputs, feeding, strict=True)}
    twins = replacement.copy_into(graph, feeds, wanted=lambda layer: not isinstance(layer.descriptor, Input | Output))
    for old in replacement:
        if old.outputs and not isinstance(old.descriptor, Input):
            twins[old.outputs[0]].layer.sources = sources[old]
    for layer, consumers in zip(replacement.outputs, readers, strict=True):
        for consumer in consumers:
            graph.connect(twins[_source(layer.inputs[0])], consumer)
    added = graph.newest(len(graph) - before)
    return [layer for layer in reversed(added) if not isinstance(layer.descriptor, Constant)]


def delete(graph: Graph, part: SubgraphView, entries: Sequence[InputSlot]) -> None:
    """Take a checked part out: what read its outputs reads its inputs."""
    feeding = [_source(slot) for slot in entries]
    for index, consumers in enumerate(_take_out(graph, part)):
        for consumer in consumers:
            graph.connect(feeding[0 if len(feeding) == 1 else index], consumer)


def _source(slot: InputSlot) -> OutputSlot:
    if slot.source is None:
        raise ValueError(f"input {slot.name!r} of layer {slot.layer.name!r} reads nothing, although the answer was checked")
    return slot.source


def _take_out(graph: Graph, part: SubgraphView) -> list[list[InputSlot]]:
    """Remove a part and the constants that it alone read.

    Returns the readers of each output, now disconnected.
    """
    readers = [[consumer for consumer in slot.consumers if consumer.layer not in part] for slot in part.outputs]
    for consumer in (consumer for several in readers for consumer in several):
        graph.disconnect(consumer)
    constants = [
        slot.source.layer
        for layer in part.layers
        for slot in layer.inputs
        if slot.source is not None and isinstance(slot.source.layer.descriptor, Constant)
    ]
    for layer in reversed(part.layers):
        graph.remove(layer)
    drop_constants(graph, dict.fromkeys(constants))
    return readers
