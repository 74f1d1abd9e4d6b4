"""Level 3: every way of computing that a backend offers to be tuned computes the same."""

from __future__ import annotations

from dovetail import IBackend
from dovetail.contract.part_facts import part_facts
from dovetail.contract.subgraph import Choice
from dovetail.optimizer import Assigned

from ..catalogue import all_operators
from ..checks import check
from ..endings import ConformanceFailure, NotApplicable
from ..subject import Subject
from ..trials import Trial, try_all
from .operators import ask_all

_ALL = 256
"""Cases of a kind and type, times their ways, that are all tried; of more, some with each way."""


class Way:
    """Chooses the way of one number wherever there are so many, and notes what is offered.

    Attributes:
        offered: Each part and the names of its ways, as they are known from process to process.
        taken: For each part that is computed otherwise than by default, which way is taken.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.offered: list[object] = []
        self.taken: list[str] = []
        self.maximum = 1

    def wants(self, candidate: Assigned) -> bool:
        """Every backend is asked."""
        return True

    def choose(self, candidate: Assigned, choice: Choice) -> str | None:
        """Return the way of the number; the default where there are fewer."""
        self.offered.append([part_facts(choice.part), choice.names])
        self.maximum = max(self.maximum, len(choice.names))
        return choice.names[self.number] if 0 < self.number < len(choice.names) else None

    def placed(self, choice: Choice, name: str, layers: tuple[str, ...]) -> None:
        """Note what is computed otherwise."""
        self.taken.append(f"{', '.join(layers)}: {name}")


@check(level=3, title="computes the same in every way that it offers", seconds=900)
def ways_are_right(subject: Subject) -> None:
    """Run the operators' cases in each way that `choices` offers, and ask twice what it offers.

    Troubleshooting: `dovetail tune` takes whichever way is fastest, so all must be right. The case
    passes by default: the fault is in the replacement that `choices` made, or in the kernel that it
    names. What is offered must be the same each time, since findings are known by the part and the
    names; it must not depend on values of weights, which a finding does not tell apart. Where cases
    and ways are many, each way meets every second case, or third, and so on: other ones than its
    neighbour, as a device's compiler may need a second for each.
    """
    if type(subject.backend).choices is IBackend.choices:
        raise NotApplicable("it offers no choices")
    count = 0
    for operator in all_operators(subject.settings.operators).values():
        for dtype in operator.dtypes:
            trials = [trial for trial in ask_all(subject, operator, dtype, ()) if trial.is_taken]
            count += _try_ways(subject, trials)
    if not count:
        raise NotApplicable("it offers no choices for any operator by itself")
    subject.note(f"{count} parts were computed in other ways than by default")


def _try_ways(subject: Subject, trials: list[Trial]) -> int:
    default, again = Way(0), Way(0)
    right = [outcome.trial for outcome in try_all(subject, trials, passes=True, tuned=default) if not outcome.problem]
    if default.maximum == 1:
        return 0
    for _ in try_all(subject, trials, passes=True, tuned=again):
        pass
    if default.offered != again.offered:
        raise ConformanceFailure("choices() offers other things when it is asked again about the same layers")
    count = 0
    every = max(1, len(right) * (default.maximum - 1) // _ALL)
    for number in range(1, default.maximum):
        way = Way(number)
        for outcome in try_all(subject, right[number % every :: every], passes=True, tuned=way):
            if outcome.problem:
                ways = f"a way that it offers (number {number}, as {way.taken[-1] if way.taken else 'none'})"
                subject.failed_case(outcome.trial.id, f"{outcome.trial.described}, computed in {ways}: {outcome.problem}")
        count += len(way.taken)
    return count
