"""Measure a model on all runtimes, in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dovetail import DovetailError
from dovetail_sdk.tuning.interference import busy_now, is_disturbed

from .agreement import Agreement, Answer, Tolerance, judge
from .child import Child, ChildError
from .peak import PeakError, PeakMeter
from .peers import Peer
from .problem import Problem
from .results import Block, Comparison, Entry, Start, State

_Party = TypeVar("_Party")


@dataclass(frozen=True, slots=True)
class Settings:
    """How it is measured.

    Attributes:
        rounds: In each of which every runtime has one block.
        block_seconds: How long a block takes, about.
        patience_seconds: Within which a child has to answer.
        attempts: At one block, while others disturb it.
        repeats: Of disturbed blocks, in one comparison.
        starts: Processes in which each runtime loads the model and runs it once.
    """

    rounds: int = 10
    block_seconds: float = 0.2
    patience_seconds: float = 120.0
    attempts: int = 4
    repeats: int = 30
    starts: int = 3

    @property
    def warm_up_seconds(self) -> float:
        """How long a runtime runs before it is measured, about."""
        return 1.5 * self.block_seconds


@dataclass(frozen=True, slots=True)
class Contestant:
    """A runtime, the interpreter that has it, and options of the command line for it."""

    peer: Peer
    python: str
    options: Mapping[str, Any] = field(default_factory=dict)


def compare_runtimes(
    problem: Problem,
    contestants: Sequence[Contestant],
    threads: int,
    settings: Settings,
    folder: Path,
    meter: PeakMeter | None = None,
    step: Callable[[], None] = lambda: None,
) -> Comparison:
    """Load a model everywhere, compare the answers, and time all by turns.

    Who crashes or hangs is left out from then on.

    Args:
        problem: The model.
        contestants: Dovetail first.
        threads: For each.
        settings: How.
        folder: For files that pass between processes.
        meter: Of the machine's peak, if it can be measured.
        step: Called after each block.
    """
    entries = [Entry(one.peer.name, State.MEASURED, exact=one.peer.exact) for one in contestants]
    comparison = Comparison(problem.name, threads, problem.macs, problem.source, entries)
    children: dict[str, Child] = {}
    answers: dict[str, Answer] = {}
    tasks = [_task(problem, one, threads, settings, folder) for one in contestants]
    np.savez(folder / "feeds.npz", *problem.feeds.values())
    try:
        for contestant, entry, task in zip(contestants, entries, tasks, strict=True):
            if Path(task["model"]).is_file():
                _start(problem, contestant, entry, task, settings, children, answers)
            else:
                entry.state, entry.reason = State.ABSENT, f"there is no {Path(task['model']).name} beside {problem.name}"
        parties = list(zip(contestants, entries, tasks, strict=True))
        for turn in range(1, settings.starts):
            # By turns: who comes first gets memory that nobody held just before, which takes
            # longer.
            for contestant, entry, task in _turned(parties, turn):
                if contestant.peer.name in children:
                    _start_again(contestant, entry, task, settings)
        _judge(problem, comparison, answers)
        _time(comparison, children, settings, meter, step)
    finally:
        for child in children.values():
            child.end()
    return comparison


def _task(problem: Problem, contestant: Contestant, threads: int, settings: Settings, folder: Path) -> dict[str, Any]:
    peer = contestant.peer
    return {
        "module": peer.module,
        "source": str(peer.source),
        "model": str(peer.file_for(problem.model).resolve()),
        "feeds": str(folder / "feeds.npz"),
        "inputs": list(problem.feeds),
        "threads": threads,
        "options": {"symbols": dict(problem.symbols), **peer.options, **contestant.options},
        "warm_up": settings.warm_up_seconds,
        "first": str(folder / "first.npz"),
        "later": str(folder / "later.npz"),
    }


def _start(
    problem: Problem,
    contestant: Contestant,
    entry: Entry,
    task: Mapping[str, Any],
    settings: Settings,
    children: dict[str, Child],
    answers: dict[str, Answer],
) -> None:
    peer = contestant.peer
    try:
        child = Child(peer.name, contestant.python, task, settings.patience_seconds)
    except ChildError as error:
        _fail(entry, error)
        return
    children[peer.name] = child
    entry.ready, entry.peak_bytes = child.ready, child.ready["peak_bytes"]
    entry.starts.append(Start.told(child.ready))
    if child.ready["facts"].get("quantized", False):
        tolerance = Tolerance.OWN_QUANTIZATION
    else:
        tolerance = Tolerance.EIGHT_BITS if problem.quantized or not peer.exact else Tolerance.SINGLE
    answers[peer.name] = Answer(_arrays(task["first"]), _arrays(task["later"]), tolerance, peer.channels_last)


def _turned(parties: list[_Party], turn: int) -> list[_Party]:
    """Return the order of a turn: each begins one further on."""
    first = turn % max(1, len(parties))
    return parties[first:] + parties[:first]


def _start_again(contestant: Contestant, entry: Entry, task: Mapping[str, Any], settings: Settings) -> None:
    """Load and run once in a process of its own: the shortest of several is the least disturbed."""
    try:
        child = Child(contestant.peer.name, contestant.python, {**task, "warm_up": 0.0}, settings.patience_seconds)
    except ChildError:  # one that goes on is not left out because another start failed
        return
    entry.starts.append(Start.told(child.ready))
    child.end()


def _arrays(path: str) -> list[Any]:
    with np.load(path, allow_pickle=False) as archive:
        return [archive[f"arr_{index}"] for index in range(len(archive.files))]


def _fail(entry: Entry, error: DovetailError) -> None:
    entry.state, entry.reason = State.FAILED, f"{error.message} ({error.hint})" if error.hint else error.message


def _judge(problem: Problem, comparison: Comparison, answers: Mapping[str, Answer]) -> None:
    # Peers first: where nothing is expected, dovetail is what is questioned.
    names = [entry.runtime for entry in [*comparison.entries[1:], comparison.ours]]
    verdicts = judge({name: answers[name] for name in names if name in answers}, problem.expected, problem.source)
    for entry in comparison.entries:
        entry.agreement = verdicts.get(entry.runtime)
        if entry.agreement is not None and not entry.agreement.agrees:
            entry.state, entry.reason = State.DISAGREES, disagreement(entry.runtime, entry.agreement)


def disagreement(runtime: str, agreement: Agreement) -> str:
    """Say how far an answer is off."""
    far = agreement.reason or (
        f"off by {agreement.largest:.2g} of the largest value, {agreement.norm:.2g} of the norm, cosine {agreement.cosine:.2f}"
        if agreement.largest is not None
        else "it cannot be compared"
    )
    return f"{runtime} answers otherwise than {agreement.against}: {far}"


def _time(
    comparison: Comparison,
    children: dict[str, Child],
    settings: Settings,
    meter: PeakMeter | None,
    step: Callable[[], None],
) -> None:
    entries = {entry.runtime: entry for entry in comparison.entries}
    names, repeats = list(children), settings.repeats
    for turn in range(settings.rounds):
        if meter is not None:
            try:
                comparison.peaks.append(meter.measure(comparison.threads))
            except PeakError:  # it ran before; without a peak in every round none is shown
                comparison.peaks.clear()
                meter = None
        for name in _turned(names, turn):
            step()
            if name not in children:
                continue
            try:
                block, used = _block(children[name], entries[name], comparison.threads, settings, repeats)
            except ChildError as error:
                children.pop(name).end()
                entries[name].blocks.clear()
                _fail(entries[name], error)
                continue
            entries[name].blocks.append(block)
            repeats -= used


def _block(child: Child, entry: Entry, threads: int, settings: Settings, repeats: int) -> tuple[Block, int]:
    """Return the least disturbed of a few attempts, and how many were repeated."""
    best: Block | None = None
    for attempt in range(min(settings.attempts, repeats + 1)):
        if attempt:
            time.sleep(settings.block_seconds * attempt / 2)  # what disturbs may end by itself
        found = _attempt(child, entry, threads, settings.block_seconds)
        if best is None or (found.foreign or 0.0) < (best.foreign or 0.0):
            best = found
        if not best.disturbed:
            break
    assert best is not None  # there is one attempt at least
    return best, attempt


def _attempt(child: Child, entry: Entry, threads: int, seconds: float) -> Block:
    own, busy, begun = child.cpu_seconds(), busy_now(), time.perf_counter()
    told = child.block(seconds)
    wall, later, own = time.perf_counter() - begun, busy_now(), child.cpu_seconds() - own
    foreign = None if busy is None or later is None else max(0.0, later - busy - own) / wall
    entry.peak_bytes = max(entry.peak_bytes, told["peak_bytes"])
    return Block(
        median=told["median"],
        minimum=told["minimum"],
        count=told["count"],
        foreign=foreign,
        disturbed=foreign is not None and is_disturbed(foreign, threads),
    )
