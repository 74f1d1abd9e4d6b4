"""Layers to try where it does not matter which.

The backend takes them; they are found among the cases of the operator modules.
"""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

import numpy as np

from dovetail import LoadedNetwork

from .cases import Array, Operator
from .catalogue import all_operators
from .endings import ConformanceFailure, NotApplicable
from .subject import RUN_SECONDS, Subject
from .target import Target
from .trials import Batch, Trial, prepare
from .variants import variants

_ENOUGH = 12  # kinds


def trials_of(subject: Subject, operator: Operator, per_dtype: int) -> Iterator[Trial]:
    """Yield the first cases of an operator in each of its element types."""
    claims = subject.claims_of(operator.kind)
    for dtype in operator.dtypes:
        made = 0
        for variant in variants(operator, dtype, claims):
            trial = prepare(subject, operator, dtype, variant)
            if trial is not None:
                yield trial
                made += 1
            if made >= per_dtype:
                break


_found: WeakKeyDictionary[Target, list[Trial]] = WeakKeyDictionary()
"""Trials that a target took: most checks want some, and asking about every kind takes its time."""


def accepted(subject: Subject, maximum: int = 8) -> list[Trial]:
    """Return cases that the backend takes, of different kinds first, claimed kinds before others.

    Raises:
        NotApplicable: It takes none.
    """
    found = _found.get(subject.target)
    if found is None:
        found = _found[subject.target] = _search(subject)
    if not found:
        raise NotApplicable("it takes no case of any operator module")
    return found[:maximum]


def _search(subject: Subject) -> list[Trial]:
    operators = all_operators(subject.settings.operators)
    claimed = [kind for kind in subject.claims or () if kind in operators]
    wanted = subject.settings.kinds or [*claimed, *operators]
    firsts: list[Trial] = []
    others: list[Trial] = []
    for kind in dict.fromkeys(wanted):
        if firsts and claimed and kind not in claimed:
            break
        taken = 0
        # Without claims nothing tells which parameters a backend takes: a few of each type are
        # enough to find some.
        for trial in trials_of(subject, operators[kind], 24):
            if trial.is_taken:
                (others if taken else firsts).append(trial)
                taken += 1
            if taken >= 3:
                break
        if len(firsts) >= _ENOUGH:
            break
    return firsts + others


def run_and_judge(loaded: LoadedNetwork, batch: Batch, when: str) -> dict[str, Array]:
    """Run a batch once and judge the results; returns them.

    Raises:
        ConformanceFailure: A result is wrong.
    """
    results = loaded.run(arrays_of(batch), timeout=RUN_SECONDS)
    for number, trial in enumerate(batch.trials):
        problem = batch.judged(number, results).problem
        if problem:
            raise ConformanceFailure(f"{when}: {trial.described}: {problem}", case=trial.id)
    return results


def arrays_of(batch: Batch) -> dict[str, Array]:
    """Return fresh arrays to feed to a batch."""
    return {name: np.array(feed.value, order="C") for feeds in batch.feeds for name, feed in feeds.items()}
