"""Profiled runs as events that Perfetto and chrome://tracing show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .profiled_run import ProfiledRun

Event = dict[str, Any]


_WORKERS, _DEVICES = 1 << 20, 1 << 21
"""Numbers of their first tracks: behind those of all threads, and in this order."""


class _Tracks:
    """Tracks by what they show, numbered as they come: viewers keep 32 bits of a number."""

    def __init__(self) -> None:
        self.threads: dict[int, int] = {}
        self.workers: set[int] = set()
        self.devices: dict[tuple[int, int, str], int] = {}
        self.arrows = 0

    def of_thread(self, thread: int) -> int:
        return self.threads.setdefault(thread, len(self.threads) + 1)

    def of_worker(self, worker: int) -> int:
        """Number of a thread of the pool, which works for one run at a time."""
        self.workers.add(worker)
        return _WORKERS + worker

    def of_device(self, thread: int, queue: int, backend: str) -> int:
        """Number behind all threads: a track for each queue of a thread's runs never overlaps."""
        return self.devices.setdefault((thread, queue, backend), _DEVICES + len(self.devices))

    def names(self) -> Iterable[Event]:
        several = len(self.threads) > 1
        for number in self.threads.values():
            yield from _named(number, f"host, thread {number}" if several else "host")
        for worker in sorted(self.workers):
            yield from _named(_WORKERS + worker, f"worker {worker}")
        for (thread, queue, backend), number in self.devices.items():
            others = {one[1] for one in self.devices if one[2] == backend}
            of_queue = f", queue {queue}" if len(others) > 1 else ""
            yield from _named(number, f"device {backend}{of_queue}" + (f", thread {self.threads[thread]}" if several else ""))


def _named(track: int, name: str) -> Iterable[Event]:
    yield {"name": "thread_name", "ph": "M", "pid": 1, "tid": track, "args": {"name": name}}
    yield {"name": "thread_sort_index", "ph": "M", "pid": 1, "tid": track, "args": {"sort_index": track}}


def trace_events(network: str, runs: Sequence[ProfiledRun]) -> list[Event]:
    """Return the events of the runs of a profile, the names of their tracks first."""
    tracks = _Tracks()
    events: list[Event] = []
    for number, run in enumerate(runs):
        events += _events_of_host(number, run, tracks)
        events += _events_of_workers(number, run, tracks)
        events += _events_of_devices(number, run, tracks)
    process = {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": f"dovetail: {network}"}}
    return [process, *tracks.names(), *events]


def _events_of_host(number: int, run: ProfiledRun, tracks: _Tracks) -> Iterable[Event]:
    place = {"pid": 1, "tid": tracks.of_thread(run.thread)}
    for step, (begin, end) in zip(run.steps, run.times, strict=True):
        if begin == 0:  # the run ended before it
            continue
        yield {"name": step.name, "cat": "host", "ph": "X", **_time(begin, end), **place, "args": _told(number, step)}
    for index, name, time in run.marks:
        mark = {"name": name, "cat": "host", "ph": "i", "s": "t", "ts": time / 1e3, **place}
        yield {**mark, "args": {"layer": run.steps[index].name}}


def _events_of_workers(number: int, run: ProfiledRun, tracks: _Tracks) -> Iterable[Event]:
    """Yield a slice for each loop that a thread of the pool worked in; worker 0 is the host."""
    for work in run.works:
        if work.worker > 0:
            step, place = run.steps[work.step], {"pid": 1, "tid": tracks.of_worker(work.worker)}
            told = _told(number, step) | {"busy_us": work.busy / 1e3}
            yield {"name": step.name, "cat": "worker", "ph": "X", **_time(work.begin, work.end), **place, "args": told}


def _events_of_devices(number: int, run: ProfiledRun, tracks: _Tracks) -> Iterable[Event]:
    """Yield a slice for each span, and an arrow from where its step was enqueued to the first."""
    for index, spans in run.spans_by_step().items():
        step, (begin, _) = run.steps[index], run.times[index]
        place = {"pid": 1, "tid": tracks.of_device(run.thread, spans[0].queue, str(step.backend))}
        if spans[0].queue >= 0:
            tracks.arrows += 1
            arrow = {"name": "enqueued", "cat": "queue", "id": tracks.arrows, "pid": 1}
            yield {**arrow, "ph": "s", "ts": begin / 1e3, "tid": tracks.of_thread(run.thread)}
            yield {**arrow, "ph": "f", "bp": "e", "ts": spans[0].begin / 1e3, "tid": place["tid"]}
        for span in spans:
            name = f"{step.name}: {span.name}" if len(spans) > 1 and span.name else step.name
            told = _told(number, step) | ({"work": span.name} if span.name else {})
            yield {"name": name, "cat": "device", "ph": "X", **_time(span.begin, span.end), **place, "args": told}


def _time(begin: int, end: int) -> Event:
    return {"ts": begin / 1e3, "dur": (end - begin) / 1e3}


def _told(number: int, step: Any) -> Event:
    told = {"kind": step.layer_kind, "backend": str(step.backend), "sources": list(step.sources), "run": number}
    return told | ({"bytes": step.copied_bytes} if step.copied_bytes else {})
