"""Level 3: what a backend tells of the times in which its device worked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..checks import check
from ..endings import ConformanceFailure, NotApplicable
from ..subject import Subject
from ..trial_graphs import Judge, random_graphs, run

if TYPE_CHECKING:
    from dovetail.runtime import ProfiledRun, Span

_RUNS = 3
_SLACK = 5_000_000
"""Nanoseconds by which times may be off: a busy machine may stop whoever reads a clock."""


@check(level=3, title="tells truly when its device worked")
def device_times_are_true(subject: Subject) -> None:
    """Profile random graphs, whose queues tell spans; run them once more without.

    Each span ends after it began; those of a queue begin one after the other; they lie within the
    run, and not before the host enqueued their layer; in all they last no longer than the run.

    Troubleshooting: `queue_span` lists what was enqueued since `queue_profile`, in that order, each
    with the `call` that execute was given. Its times are nanoseconds on the clock that
    `queue_clock` reads beside CLOCK_MONOTONIC; without `queue_clock` they are CLOCK_MONOTONIC
    themselves. A queue carries out its work in order: spans do not cover each other.
    """
    spans: list[Span] = []
    for graph in random_graphs(subject, "profiles", 4):
        net = subject.load(graph.network)
        if not any(queues.tells_spans for queues, _ in net.plan.queues):
            raise NotApplicable("its queues tell no spans (queue_profile and queue_span of dovetail_queues)")
        judge = Judge(graph, "a run that is profiled")
        with net.profiling() as profile:
            for _ in range(_RUNS):
                judge.check(run(net, graph.feeds))
        Judge(graph, "a run after the profile").check(run(net, graph.feeds))
        for one in profile.each_run:
            problem = _problem_of(one)
            if problem:
                raise ConformanceFailure(f"graph {graph.network.name!r}: {problem}\n{profile.table()}")
            spans += one.spans
        net.unload()
    if not spans:
        raise ConformanceFailure("its queues have queue_profile, and told no span of what was enqueued in profiled runs")
    if not any(span.end > span.begin for span in spans):
        raise ConformanceFailure(f"all of {len(spans)} spans end when they begin")


def _problem_of(one: ProfiledRun) -> str:
    """Return what cannot be true of the times of a run; nothing if all can."""
    begin, end = min(times[0] for times in one.times), max(times[1] for times in one.times)
    last: dict[int, Span] = {}
    spent: dict[int, int] = {}
    for span in one.spans:
        what = f"a span ({span.name!r}) of step {one.steps[span.step].name!r}"
        before = last.get(span.queue, span)
        if span.end < span.begin:
            return f"{what} ends {span.begin - span.end} ns before it begins"
        if span.begin < before.begin:
            return f"{what} begins {before.begin - span.begin} ns before the one that was enqueued before it"
        if span.begin < one.times[span.step][0] - _SLACK:
            return f"{what} begins {one.times[span.step][0] - span.begin} ns before the host enqueued it"
        if span.end > end + _SLACK:
            return f"{what} ends {span.end - end} ns after the run"
        last[span.queue] = span
        spent[span.queue] = spent.get(span.queue, 0) + span.end - span.begin
    for queue, total in spent.items():
        if total > end - begin + _SLACK:
            return (
                f"the spans of queue {queue} last {total} ns in all, and the run lasted {end - begin} ns: they cover each other"
            )
    return ""
