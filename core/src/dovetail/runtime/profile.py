"""Where the time of runs went, layer by layer, in the names of the user's model."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..ground.cell_widths import cell_width, padded
from ..ground.foreign_text import printable
from ..ground.records import NamedTuple
from .chrome_trace import trace_events
from .profiled_run import ProfiledRun, Span, Work


class LayerTime(NamedTuple):
    """Time of one step over all profiled runs, in nanoseconds.

    The median is what a call takes where nothing disturbs it: one slow run in many does not move
    it, while it moves the mean.

    Attributes:
        name, kind, backend, sources: As in the plan.
        calls: How often it ran.
        total_ns, min_ns: Of the host: to compute it, or where it is enqueued, to enqueue it.
        tuned: How it is computed, if that was measured.
        device_ns, device_min_ns: How long the device worked for it; None if its backend does not
            tell. A wait has 0 where the device tells: what it waited for is told of the layers.
        copied_bytes: What one call copies from one memory to another.
        device_calls: How often the device told; not of runs that failed.
        median_ns, device_median_ns: The median of the calls; the latter is None where the device
            does not tell.
        device_source: What the device's times are, in the words of a backend that waited for its
            device itself, such as who measured them; empty where queues told.
    """

    name: str
    kind: str
    backend: str
    sources: tuple[str, ...]
    calls: int
    total_ns: int
    min_ns: int
    tuned: str = ""
    device_ns: int | None = None
    device_min_ns: int | None = None
    copied_bytes: int = 0
    device_calls: int = 0
    median_ns: float = 0.0
    device_median_ns: float | None = None
    device_source: str = ""

    @property
    def mean_ns(self) -> float:
        """Average of the host's time per call."""
        return self.total_ns / self.calls if self.calls else 0.0

    @property
    def mean_device_ns(self) -> float | None:
        """Average of the device's time per call; None if its backend does not tell."""
        return None if self.device_ns is None else self.device_ns / self.device_calls

    @property
    def mean_cost_ns(self) -> float:
        """Average time of whoever did the work: the device where it tells, else the host."""
        return self.mean_ns if self.mean_device_ns is None else self.mean_device_ns

    @property
    def median_cost_ns(self) -> float:
        """Median time of whoever did the work: the device where it tells, else the host."""
        return self.median_ns if self.device_median_ns is None else self.device_median_ns

    @property
    def least_ns(self) -> int:
        """The least time of whoever did the work."""
        return self.min_ns if self.device_min_ns is None else self.device_min_ns


@dataclass
class Profile:
    """Times of the runs inside a `with net.profiling() as profile:` block.

    It can be copied and pickled, also while runs go on: the copy has the runs that ended before.
    """

    network: str
    _runs: list[ProfiledRun] = field(default_factory=list)

    def __getstate__(self) -> dict[str, Any]:
        return {"network": self.network, "_runs": list(self._runs)}

    def __repr__(self) -> str:
        return f"<Profile of {self.network!r}: {self.runs} runs>"

    def add(
        self,
        steps: Sequence[Any],
        times: list[tuple[int, int]],
        marks: list[tuple[int, str, int]],
        thread: int,
        spans: Sequence[Span] = (),
        works: Sequence[Work] = (),
    ) -> None:
        """Take the times of one run: (begin, end) per step, CLOCK_MONOTONIC nanoseconds."""
        self._runs.append(ProfiledRun(steps, times, marks, thread, spans, works))  # atomic: threads need no lock

    @property
    def each_run(self) -> tuple[ProfiledRun, ...]:
        """What was measured, run by run."""
        return tuple(self._runs)

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self._runs)

    def latest(self, count: int) -> Profile:
        """Return a profile of the latest runs alone, at most so many."""
        return Profile(self.network, list(self._runs[-count:]) if count > 0 else [])

    @property
    def layers(self) -> tuple[LayerTime, ...]:
        """Time per step, in order of execution; a run counts for the steps that it reached."""
        times: dict[tuple[int, str], list[int]] = defaultdict(list)
        device: dict[tuple[int, str], list[int]] = defaultdict(list)
        infos: dict[tuple[int, str], Any] = {}
        sources: dict[tuple[int, str], str] = {}
        for run in self.each_run:
            of_devices, told = run.device_times(), run.told_by_steps()
            for number, (step, (begin, end)) in enumerate(zip(run.steps, run.times, strict=True)):
                if begin == 0:  # the run ended before it
                    continue
                key = (number, step.name)
                times[key].append(end - begin)
                infos[key] = step
                if number in told:
                    sources[key] = told[number]
                if number in of_devices:
                    device[key].append(of_devices[number])
        return tuple(
            _layer_time(infos[key], spent, device.get(key), sources.get(key, "")) for key, spent in sorted(times.items())
        )

    @property
    def copies(self) -> tuple[LayerTime, ...]:
        """Those of `layers` that copy a tensor from one memory to another."""
        return tuple(layer for layer in self.layers if layer.copied_bytes)

    def copy_times(self) -> dict[str, float]:
        """Return the median milliseconds of each of `copies` whose time is known, by name.

        That is the device's where it tells, else the host's; what was only enqueued is not known.
        """
        enqueued = {step.name for run in self._runs for step in run.steps if step.queue is not None}
        return {
            copy.name: copy.median_cost_ns / 1e6
            for copy in self.copies
            if copy.device_ns is not None or copy.name not in enqueued
        }

    def table(self, limit: int | None = None) -> str:
        """Print the layers, slowest first.

        `host us` is what a call took the host, which for a layer on a device is the enqueueing;
        `device us` is how long the device worked, where it tells; both are medians. `share` is of
        the latter where it is known, else of the former.
        """
        layers = sorted(self.layers, key=lambda layer: -layer.median_cost_ns)
        total = sum(layer.median_cost_ns for layer in layers) or 1
        shown = layers if limit is None else layers[:limit]
        tells = any(layer.device_ns is not None for layer in layers)
        names = [printable(layer.name) for layer in shown]
        width = max(map(cell_width, names), default=5)
        kinds = max((len(_short(layer.kind)) for layer in shown), default=4)
        device = f"{'device us':>10}  " if tells else ""
        lines = [f"{padded('layer', width)}  {'kind':<{kinds}}  {'backend':<10}  {'host us':>10}  {device}{'share':>6}"]
        for name, layer in zip(names, shown, strict=True):
            median = layer.device_median_ns
            device = f"{'-' if median is None else format(median / 1e3, '.2f'):>10}  " if tells else ""
            lines.append(
                f"{padded(name, width)}  {_short(layer.kind):<{kinds}}  {layer.backend:<10}  "
                f"{layer.median_ns / 1e3:>10.2f}  {device}{layer.median_cost_ns / total:>6.1%}"
                + (f"  {layer.tuned}" if layer.tuned else "")
            )
        if len(shown) < len(layers):
            lines.append(f"... and {len(layers) - len(shown)} more")
        return "\n".join(lines)

    def to_chrome_trace(self, path: str | Path | None = None) -> str:
        """Return the runs as Chrome trace events, also written to `path` if given.

        Each thread of the host has a track, each thread of the pool that worked for one of them,
        and each device that tells when it worked, for each thread whose runs it carried out; arrows
        lead from where a step was enqueued to the device. Load them in Perfetto or chrome://tracing.
        """
        text = json.dumps({"traceEvents": trace_events(self.network, self.each_run), "displayTimeUnit": "ns"})
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text


def _layer_time(step: Any, spent: Sequence[int], device: Sequence[int] | None, source: str) -> LayerTime:
    return LayerTime(
        step.name,
        step.layer_kind,
        str(step.backend),
        step.sources,
        len(spent),
        sum(spent),
        min(spent),
        step.tuned,
        None if device is None else sum(device),
        None if device is None else min(device),
        step.copied_bytes,
        len(device or ()),
        _median(spent),
        None if device is None else _median(device),
        source,
    )


def _median(times: Sequence[int]) -> float:
    """Return the middle one, of an even number the mean of the middle two."""
    ordered = sorted(times)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _short(kind: str) -> str:
    return kind.removeprefix("dovetail.")
