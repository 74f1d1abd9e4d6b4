"""Level 3: every way of computing that a backend offers to be tuned computes the same."""

from __future__ import annotations

from zlib import crc32

from dovetail import DovetailError, IBackend
from dovetail.contract.part_facts import part_facts
from dovetail.contract.subgraph import Choice
from dovetail.optimizer import Assigned

from ..catalogue import all_operators
from ..checks import check
from ..endings import ConformanceFailure, NotApplicable
from ..subject import Subject
from ..trials import BATCH, Batch, Trial, try_all
from .operators import ask_all

_EACH = 16
"""Parts of a kind and type that each way is tried with, about, where more offer it."""


class Way:
    """Chooses the way of one number wherever there are so many, and notes what is offered.

    Args:
        number: Of the way; 0 is the default.
        every: One part of so many is computed so. Which, its facts decide: a part that is tried
            again is computed as before.
        turn: Other parts are among them for another number.

    Attributes:
        offered: Each part and the names of its ways, as they are known from process to process.
        taken: For each part that is computed otherwise than by default, which way is taken.
    """

    def __init__(self, number: int, every: int = 1, turn: int = 0) -> None:
        self.number = number
        self._every, self._turn = every, turn
        self.offered: list[tuple[object, tuple[str, ...]]] = []
        self.taken: list[str] = []
        self.maximum = 1

    def wants(self, candidate: Assigned) -> bool:
        """Every backend is asked."""
        return True

    def choose(self, candidate: Assigned, choice: Choice) -> str | None:
        """Return the way of the number; the default where there are fewer, or it is left out."""
        facts = part_facts(choice.part)
        self.offered.append((facts, choice.names))
        self.maximum = max(self.maximum, len(choice.names))
        if not 0 < self.number < len(choice.names) or (crc32(repr(facts).encode()) + self._turn) % self._every:
            return None
        return choice.names[self.number]

    def placed(self, choice: Choice, name: str, layers: tuple[str, ...]) -> None:
        """Note what is computed otherwise."""
        self.taken.append(f"{', '.join(layers)}: {name}")


@check(level=3, title="computes the same in every way that it offers", seconds=900)
def ways_are_right(subject: Subject) -> None:
    """Run the operators' cases in each way that `choices` offers, and ask twice what it offers.

    Troubleshooting: `dovetail tune` takes whichever way is fastest, so all must be right. The case
    passes by default: the fault is in the replacement that `choices` made, or in the kernel that it
    names. What is offered must be the same each time, since findings are known by the part and the
    names; it must not depend on values of weights, which a finding does not tell apart. Where a way
    is offered for many parts, it is tried with some: with others than the next way, and with others
    in each element type, as a device's compiler may need a second for each.
    """
    if type(subject.backend).choices is IBackend.choices:
        raise NotApplicable("it offers no choices")
    count = 0
    for operator in all_operators(subject.settings.operators).values():
        for turn, dtype in enumerate(operator.dtypes):
            trials = [trial for trial in ask_all(subject, operator, dtype, ()) if trial.is_taken]
            count += _try_ways(subject, trials, turn)
    if not count:
        raise NotApplicable("it offers no choices for any operator by itself")
    subject.note(f"{count} parts were computed in other ways than by default")


def _asked(subject: Subject, trials: list[Trial]) -> Way:
    """Return what is offered for cases; nothing is compiled for that."""
    way = Way(0)
    for start in range(0, len(trials), BATCH):
        network = Batch(trials[start : start + BATCH]).network
        try:
            subject.optimize(network, tuned=way)
        except DovetailError as error:
            cases = f"the cases from {trials[start].id} on"
            raise ConformanceFailure(f"what it offers for {cases} cannot be known: {type(error).__name__} {error}") from None
    return way


def _try_ways(subject: Subject, trials: list[Trial], turn: int) -> int:
    default, again = (_asked(subject, trials) for _ in range(2))
    if default.offered != again.offered:
        raise ConformanceFailure("choices() offers other things when it is asked again about the same layers")
    if default.maximum == 1:
        return 0
    right = [outcome.trial for outcome in try_all(subject, trials, passes=True, tuned=Way(0)) if not outcome.problem]
    count = 0
    for number in range(1, default.maximum):
        offering = sum(number < len(names) for _, names in default.offered)
        way = Way(number, max(1, offering // _EACH), number + turn)
        for outcome in try_all(subject, right, passes=True, tuned=way):
            if outcome.problem:
                ways = f"a way that it offers (number {number}, as {way.taken[-1] if way.taken else 'none'})"
                subject.failed_case(outcome.trial.id, f"{outcome.trial.described}, computed in {ways}: {outcome.problem}")
        count += len(way.taken)
    return count
