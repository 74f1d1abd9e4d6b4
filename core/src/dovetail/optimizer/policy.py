"""Which backend a layer gets, of those that are willing: a part that can be exchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from ..graph.layer import Layer
from ..ground.records import NamedTuple, Record
from .candidate import Assigned, Refusal


class Answer(NamedTuple):
    """What one backend says of a layer.

    Attributes:
        candidate: The backend, with its device.
        refusal: Why it does not run the layer; None if it would. Constraints of the caller count as
            refusals.
    """

    candidate: Assigned
    refusal: Refusal | None


class Answers:
    """What each backend says of one layer, in order of preference.

    A backend is asked when its answer is first looked at.

    Attributes:
        placed: The backends of the layers that were placed before; read only.
    """

    __slots__ = ("_answers", "_ask", "_candidates", "placed")

    def __init__(
        self,
        candidates: Sequence[Assigned],
        ask: Callable[[Assigned], Refusal | None],
        placed: Mapping[Layer, Assigned],
    ) -> None:
        self._candidates = candidates
        self._ask = ask
        self._answers: list[Answer] = []
        self.placed = placed

    def __repr__(self) -> str:
        return f"<Answers: {len(self._answers)} of {len(self)} backend(s) asked>"

    def __len__(self) -> int:
        return len(self._candidates)

    def __getitem__(self, index: int) -> Answer:
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        while len(self._answers) <= index % len(self):
            candidate = self._candidates[len(self._answers)]
            self._answers.append(Answer(candidate, self._ask(candidate)))
        return self._answers[index]

    def __iter__(self) -> Iterator[Answer]:
        for index, candidate in enumerate(self._candidates):
            if index == len(self._answers):
                self._answers.append(Answer(candidate, self._ask(candidate)))
            yield self._answers[index]

    def willing(self) -> Iterator[Assigned]:
        """Go through the backends that would run the layer, asking no further than is looked."""
        return (answer.candidate for answer in self if answer.refusal is None)

    @property
    def given(self) -> Sequence[Answer]:
        """The answers that were looked at so far."""
        return self._answers


class PlacementPolicy(Protocol):
    """Chooses a backend for each layer."""

    def choose(self, layer: Layer, answers: Answers) -> Assigned | None:
        """Return one of the backends willing to run a layer, or None to leave it without one.

        Passes ask for layers that they might make, so an answer must depend on nothing but the
        arguments.
        """
        ...


class FirstWilling(Record, frozen=True):
    """Choose the first willing backend in order of preference; those behind it are not asked."""

    def choose(self, layer: Layer, answers: Answers) -> Assigned | None:
        """Return the first that is willing."""
        return next(answers.willing(), None)
