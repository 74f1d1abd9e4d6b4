"""Level 3: workloads that a backend wrote down compute what they computed before."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

from dovetail import DovetailError, IWorkloadFactory, OptimizedNetwork
from dovetail.optimizer import Assigned, NetworkSource
from dovetail.runtime.plan_snapshot import NetworkFacts, Snapshot, read, written

from ..catalogue import all_operators
from ..checks import check
from ..endings import NotApplicable
from ..subject import RUN_SECONDS, Subject
from ..trials import BATCH, Batch, Trial
from .operators import ask_all

_LARGEST = 1 << 31


class _Kept:
    """Holds one plan that was written down, as `PlanSnapshots`."""

    def __init__(self) -> None:
        self.content: memoryview | None = None
        self.backends: dict[str, Assigned] = {}
        self.is_restoring: bool | None = None  # what nothing computed says nothing

    def find(self, symbols: Mapping[str, int]) -> Snapshot | None:
        return None

    def backend(self, name: str) -> Assigned:
        return self.backends[name]

    def keep_open(self, *facts: Any) -> None:
        """Sizes are never open here."""

    def keep(self, optimized: OptimizedNetwork, symbols: Mapping[str, int], parts: Any, factories: Any) -> None:
        facts = NetworkFacts(optimized.name, optimized.inputs, optimized.outputs, optimized.output_names, {}, {})
        self.content = written("", facts, symbols, parts, factories, largest=_LARGEST)
        kinds = [type(one.workloads) for one in factories.values()]
        if kinds:
            self.is_restoring = any(kind.restore_workload is not IWorkloadFactory.restore_workload for kind in kinds)
        self.backends = {str(one.request.id): one for one in optimized.assignment.values() if one is not None}

    def read(self) -> Snapshot:
        """Return what a later process would read."""
        assert self.content is not None
        with tempfile.TemporaryFile() as file:
            file.write(self.content)
            file.flush()
            file.seek(0)
            snapshot = read(file, len(self.content), "")
        assert snapshot is not None
        return snapshot


@check(level=3, title="computes the same from what it wrote down", seconds=600)
def restored_is_right(subject: Subject) -> None:
    """Write the operators' cases down as later loads of a model file find them, and run both.

    Troubleshooting: `dovetail_workload.snapshot` wrote a state from which `restore_workload` makes
    another workload. Look for what the state points at and the snapshot does not hold, for
    addresses of this process (a function lies elsewhere in the next one), and for memory that the
    restored workload frees though it lies in the snapshot.
    """
    count = 0
    for operator in all_operators(subject.settings.operators).values():
        for dtype in operator.dtypes:
            trials = [trial for trial in ask_all(subject, operator, dtype, ()) if trial.is_taken]
            for start in range(0, len(trials), BATCH):
                subject.require_time(f"{len(trials) - start} cases from {trials[start].id} on")
                count += _compare(subject, trials[start : start + BATCH])
    if not count:
        raise NotApplicable("it writes no workload down")
    subject.note(f"{count} cases were computed by workloads that had been written down")


def _compare(subject: Subject, trials: list[Trial]) -> int:
    """Run cases before and after; return how many were written down.

    Raises:
        NotApplicable: The backend restores none.
    """
    subject.step(f"{trials[0].id}{f' and {len(trials) - 1} more' if len(trials) > 1 else ''}, restored")
    batch, kept = Batch(trials), _Kept()
    feeds = {name: feed.value for one in batch.feeds for name, feed in one.items()}
    try:
        with subject.load(batch.network, snapshots=kept) as loaded:
            wanted = loaded.run(feeds, timeout=RUN_SECONDS)
    except DovetailError:  # which level 2 tells of
        return _compare_halves(subject, trials)
    if kept.is_restoring is None:
        return 0
    if not kept.is_restoring:
        raise NotApplicable("its factory restores no workloads")
    if kept.content is None:
        return _compare_halves(subject, trials)
    try:
        with subject.restore(kept.read(), NetworkSource(batch.network), kept) as restored:
            results = restored.run(feeds, timeout=RUN_SECONDS)
    except (DovetailError, ValueError) as error:
        if len(trials) > 1:
            return _compare_halves(subject, trials)
        subject.failed_case(trials[0].id, f"{trials[0].described}, restored: {type(error).__name__} {error}")
        return 1
    for trial, names in zip(trials, batch.outputs, strict=True):
        if any(results[name].tobytes() != wanted[name].tobytes() for name in names):
            subject.failed_case(trial.id, f"{trial.described}: other bits once it was written down and restored")
    return len(trials)


def _compare_halves(subject: Subject, trials: list[Trial]) -> int:
    """Part cases among which is one that is not loaded, written down or restored."""
    if len(trials) == 1:
        return 0
    middle = len(trials) // 2
    return _compare(subject, trials[:middle]) + _compare(subject, trials[middle:])
