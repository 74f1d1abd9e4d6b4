"""Where the time of runs went, layer by layer, in the names of the user's model."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..ground.records import NamedTuple


class LayerTime(NamedTuple):
    """Time of one step over all profiled runs, in nanoseconds.

    `tuned` says how it is computed, if that was measured.
    """

    name: str
    kind: str
    backend: str
    sources: tuple[str, ...]
    calls: int
    total_ns: int
    min_ns: int
    tuned: str = ""

    @property
    def mean_ns(self) -> float:
        """Average per call."""
        return self.total_ns / self.calls if self.calls else 0.0


class _Run(NamedTuple):
    steps: Sequence[Any]
    times: list[tuple[int, int]]
    marks: list[tuple[int, str, int]]
    thread: int


@dataclass
class Profile:
    """Times of the runs inside a `with net.profiling() as profile:` block."""

    network: str
    _runs: list[_Run] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __repr__(self) -> str:
        return f"<Profile of {self.network!r}: {self.runs} runs>"

    def add(self, steps: Sequence[Any], times: list[tuple[int, int]], marks: list[tuple[int, str, int]], thread: int) -> None:
        """Take the times of one run: (begin, end) per step, CLOCK_MONOTONIC nanoseconds."""
        with self._lock:
            self._runs.append(_Run(steps, times, marks, thread))

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self._runs)

    @property
    def layers(self) -> tuple[LayerTime, ...]:
        """Time per step, in order of execution."""
        times: dict[tuple[int, str], list[int]] = defaultdict(list)
        infos: dict[tuple[int, str], Any] = {}
        for run in self._runs:
            for number, (step, (begin, end)) in enumerate(zip(run.steps, run.times, strict=True)):
                times[number, step.name].append(end - begin)
                infos[number, step.name] = step
        return tuple(
            LayerTime(
                step.name, step.layer_kind, str(step.backend), step.sources, len(spent), sum(spent), min(spent), step.tuned
            )
            for key, spent in sorted(times.items())
            for step in (infos[key],)
        )

    def table(self, limit: int | None = None) -> str:
        """Print the layers, slowest first."""
        layers = sorted(self.layers, key=lambda layer: -layer.total_ns)
        total = sum(layer.total_ns for layer in layers) or 1
        shown = layers if limit is None else layers[:limit]
        width = max((len(layer.name) for layer in shown), default=5)
        kinds = max((len(_short(layer.kind)) for layer in shown), default=4)
        lines = [f"{'layer':<{width}}  {'kind':<{kinds}}  {'backend':<10}  {'mean us':>10}  {'share':>6}"]
        lines += [
            f"{layer.name:<{width}}  {_short(layer.kind):<{kinds}}  {layer.backend:<10}  "
            f"{layer.mean_ns / 1e3:>10.2f}  {layer.total_ns / total:>6.1%}" + (f"  {layer.tuned}" if layer.tuned else "")
            for layer in shown
        ]
        if len(shown) < len(layers):
            lines.append(f"... and {len(layers) - len(shown)} more")
        return "\n".join(lines)

    def to_chrome_trace(self, path: str | Path | None = None) -> str:
        """Return the runs as Chrome trace events, also written to `path` if given.

        Load them in Perfetto or chrome://tracing.
        """
        events: list[dict[str, Any]] = []
        threads = {thread: number for number, thread in enumerate(dict.fromkeys(run.thread for run in self._runs), start=1)}
        for number, run in enumerate(self._runs):
            place = {"pid": 1, "tid": threads[run.thread]}  # viewers keep 32 bits: the ids of pthreads would all be one
            for step, (begin, end) in zip(run.steps, run.times, strict=True):
                if begin == 0:
                    continue
                args = {"kind": step.layer_kind, "backend": str(step.backend), "sources": list(step.sources), "run": number}
                events.append(
                    {"name": step.name, "ph": "X", "ts": begin / 1e3, "dur": (end - begin) / 1e3, **place, "args": args}
                )
            for index, name, time in run.marks:
                mark = {"name": name, "ph": "i", "s": "t", "ts": time / 1e3, **place}
                events.append({**mark, "args": {"layer": run.steps[index].name}})
        names = [{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": f"dovetail: {self.network}"}}]
        text = json.dumps({"traceEvents": names + events, "displayTimeUnit": "ns"})
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text


def _short(kind: str) -> str:
    return kind.removeprefix("dovetail.")
