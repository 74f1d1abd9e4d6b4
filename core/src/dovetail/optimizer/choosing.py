"""Take the ways to compute that somebody chose among those that backends offer."""

from __future__ import annotations

from typing import ClassVar, Protocol

from ..contract.backend_calls import backend_call, checked
from ..contract.interfaces import IBackend
from ..contract.subgraph import Choice, Choices, OptimizationViews, SubgraphView
from ..graph.graph import Graph
from ..graph.layer import Layer
from ..ground.errors import BackendError, ErrorCode
from ..ground.foreign_text import shown
from ..ground.logs import Log
from .assignment import Assigner
from .candidate import Assigned
from .partition import partition
from .passes.base import Pass
from .substitution import carry_out
from .substitution_check import ViewState, check_answer

_log = Log("dovetail.optimizer")


class Chooser(Protocol):
    """Who chooses."""

    def wants(self, candidate: Assigned) -> bool:
        """Say whether a backend is worth asking."""
        ...

    def choose(self, candidate: Assigned, choice: Choice) -> str | None:
        """Return one of the choice's names, or None to leave the part as it is without a word."""
        ...

    def placed(self, choice: Choice, name: str, layers: tuple[str, ...]) -> None:
        """Hear which layers compute a part now."""
        ...


class TakeChoices(Pass):
    """Ask each backend for choices and replace each part for which the chooser names another way.

    Args:
        assigner: Knows the backend of each layer.
        chooser: Chooses.
        notes: Gets a word on each layer whose way was chosen.
        fallback: Where a backend's `choices` raises or answers nonsense, leave its parts as they
            are, and log it; else raise.

    Raises:
        BackendError: `choices` is against the contract (`BACKEND_CONTRACT`), or a replacement does
            not fit (`SUBSTITUTION_INVALID`).
    """

    name: ClassVar[str] = "take_choices"

    def __init__(self, assigner: Assigner, chooser: Chooser, notes: dict[Layer, str], *, fallback: bool = True) -> None:
        self.assigner = assigner
        self.chooser = chooser
        self.notes = notes
        self.fallback = fallback

    def run(self, graph: Graph) -> int:
        changes = 0
        for candidate in self.assigner.opened:
            if type(candidate.backend).choices is not IBackend.choices and self.chooser.wants(candidate):
                parts = partition(graph.topological_order(), self.assigner.assigned)
                for home, layers in parts:
                    if home is candidate:
                        changes += self._take(graph, candidate, SubgraphView(graph, layers, convex=True))
        return changes

    def _take(self, graph: Graph, candidate: Assigned, view: SubgraphView) -> int:
        answer = OptimizationViews(view)
        taken: list[tuple[Choice, str]] = []
        kept = dict.fromkeys(view.layers)
        for choice, name in self._chosen(candidate, view):
            if name is not None and name in choice.others:
                answer.substitute(choice.part, choice.others[name])
                taken.append((choice, name))
                for layer in choice.part.layers:
                    kept.pop(layer, None)
            elif name == choice.taken:
                self._note(choice, name, choice.part.layers, f"tuned: {name}, as by default")
        answer.untouched(kept)
        check_answer(view, answer, candidate, "choices")
        for (choice, name), made in zip(taken, carry_out(graph, answer, candidate, self.assigner), strict=True):
            self._note(choice, name, made, f"tuned: {name}, not {choice.taken}")
        return len(taken)

    def _chosen(self, candidate: Assigned, view: SubgraphView) -> list[tuple[Choice, str | None]]:
        state = ViewState(view)
        try:
            offers = _ask(candidate, view, state).offers
            with backend_call(f"backend {candidate.label}", "choices"):  # what it offers may have nothing to be known by
                return [(choice, self.chooser.choose(candidate, choice)) for choice in offers]
        except BackendError as error:
            if not self.fallback or state.is_broken():
                raise
            _log.warning("%s; its %d layers stay as they are", error.message, len(view))
            return []

    def _note(self, choice: Choice, name: str, layers: list[Layer] | tuple[Layer, ...], text: str) -> None:
        self.notes.update(dict.fromkeys(layers, text))
        self.chooser.placed(choice, name, tuple(layer.name for layer in layers))


def _ask(candidate: Assigned, view: SubgraphView, state: ViewState) -> Choices:
    """Ask a backend, and refuse what is no answer.

    Raises:
        BackendError: It raised, or answered against the contract.
    """
    origin = f"backend {candidate.label}"
    with backend_call(origin, "choices"):
        answer = candidate.backend.choices(view, candidate.options, candidate.device)
    state.require_unchanged(candidate, "choices")
    checked(origin, "choices", answer, Choices)
    seen: set[Layer] = set()
    for choice in answer.offers:
        problem = _problem(choice, view, seen)
        if problem:
            names = ", ".join(layer.name for layer in getattr(getattr(choice, "part", view), "layers", view.layers))
            raise BackendError(
                f"{origin}: choices() {problem} (layers {names or 'none'})",
                code=ErrorCode.BACKEND_CONTRACT,
                hint="see IBackend.choices; tell the backend's vendor",
                method="choices",
            )
        seen.update(choice.part.layers)
    return answer


def _problem(choice: Choice, view: SubgraphView, seen: set[Layer]) -> str:
    if not isinstance(choice, Choice) or not isinstance(choice.part, SubgraphView):
        return f"offered {shown(choice)}, not a part and ways to compute it"
    if not choice.part.layers or any(layer not in view for layer in choice.part.layers):
        return "offered a part that is empty, or not of what it was asked about"
    if any(layer in seen for layer in choice.part.layers):
        return "offered a layer in more than one part"
    if choice.taken in choice.others:
        return f"gave two ways the name {shown(choice.taken)}"
    wrong = [name for name in choice.names if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= 64]
    return f"gave a way the name {shown(wrong[0])}, expected a word or two" if wrong else ""
