"""What was measured of one run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from ..ground.records import NamedTuple


class Span(NamedTuple):
    """A time in which a device worked for a step, in nanoseconds of CLOCK_MONOTONIC.

    Attributes:
        step: Index of the step.
        queue: Index of the queue; -1: the step waited for the device, and told it itself.
        name: What the device did, in the words of its backend, such as a kernel; may be empty.
        begin, end: As told by the device, on its own clock, and put on the host's.
    """

    step: int
    queue: int
    name: str
    begin: int
    end: int


class Work(NamedTuple):
    """What one thread of the pool did of one parallel loop of a step, in nanoseconds.

    Attributes:
        step: Index of the step.
        worker: Index of the thread in the pool; 0 is the one that ran the network.
        begin, end: Of its first and of its last part of the loop, in CLOCK_MONOTONIC.
        busy: How long it worked in between.
    """

    step: int
    worker: int
    begin: int
    end: int
    busy: int


class ProfiledRun(NamedTuple):
    """The times of one run.

    Attributes:
        steps: Those of its plan.
        times: (begin, end) of each, of the host; CLOCK_MONOTONIC nanoseconds, as all times here.
        marks: (index of a step, name, time) of moments that kernels marked.
        thread: Which ran it.
        spans: When devices worked, by queue in the order in which they were told.
        works: When threads of the pool worked; nothing of loops that one thread did alone.
    """

    steps: Sequence[Any]
    times: list[tuple[int, int]]
    marks: list[tuple[int, str, int]]
    thread: int
    spans: Sequence[Span] = ()
    works: Sequence[Work] = ()

    def device_times(self) -> dict[int, int]:
        """Return how long devices worked, by index of the step, of steps whose devices tell."""
        spans = self.spans_by_step()
        telling = {span.queue for span in self.spans}
        return {
            number: _covered(spans.get(number, ()))
            for number, step in enumerate(self.steps)
            if step.queue in telling or number in spans
        }

    def told_by_steps(self) -> dict[int, str]:
        """Return the first that each step told of its device itself, by index of the step."""
        return {span.step: span.name for span in reversed(self.spans) if span.queue < 0}

    def spans_by_step(self) -> dict[int, list[Span]]:
        """Return the spans of each step that has some."""
        found: dict[int, list[Span]] = defaultdict(list)
        for span in self.spans:
            found[span.step].append(span)
        return found


def joined(spans: Sequence[Span], most: int) -> Sequence[Span]:
    """Return spans of one step, no more than `most` of them, that cover as long a time.

    Where there are more, one stands for the last ones, as long as they add to the others.
    """
    if len(spans) <= most:
        return spans
    kept, rest = spans[: most - 1], spans[most - 1 :]
    begin = max(min(span.begin for span in rest), max((span.end for span in kept), default=0))
    end = begin + _covered(spans) - _covered(kept)
    return [*kept, rest[0]._replace(name=f"{len(rest)} more", begin=begin, end=end)]


def _covered(spans: Sequence[Span]) -> int:
    """Return the time that is covered by spans, which may overlap."""
    total, until = 0, 0
    for span in sorted(spans, key=lambda span: span.begin):
        total += max(span.end - max(span.begin, until), 0)
        until = max(until, span.end)
    return total
