"""Load and run one mutant in this process, in every configuration, and compare what they answer."""

from __future__ import annotations

import functools
import os
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dovetail import DovetailError, ErrorCode, Limits

from .comparing import Difference, difference
from .judging import Judge
from .mutants import Mutant, as_model
from .networks import LOCATION, LOCATION_BYTES
from .peers import Peer
from .verdicts import Outcome, Verdict

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "CpuRef": {"backends": ["CpuRef"]},
    "CpuAcc": {"backends": ["CpuAcc", "CpuRef"]},
    (UNOPTIMIZED := "unoptimized"): {"backends": ["CpuRef"], "passes": False},
}
"""Arguments of `dovetail.load`; the first is what the others and the peer are held against.

What the optimizer folds or drops needs no backend and may be wrong: the last configuration may
refuse what the others run."""

DEVICES: dict[str, dict[str, Any]] = {"GpuAcc": {"backends": ["GpuAcc", "CpuRef"]}}
"""Configurations that only those who ask for them get: the first programs of a device take long to
build. Their backends keep what they build in a folder that `artefacts` names."""

RUNS = 2
"""Of one that runs with several sizes, or with hostile values."""
SHORTAGES = {ErrorCode.TIMEOUT, ErrorCode.OUT_OF_MEMORY, ErrorCode.LIMIT_EXCEEDED}
"""Codes that depend on how a configuration goes about it."""
BLAMING = {ErrorCode.BACKEND_BROKEN, ErrorCode.BACKEND_CONTRACT, ErrorCode.SUBSTITUTION_INVALID, ErrorCode.BACKEND_UNAVAILABLE}
"""Codes that tell a user to call a backend's makers: never for what stands in a file."""
LONGEST = 20_000
"""Characters that a message of ours may have."""
TOO_LARGE = "inputs too large to make"
Stage = Callable[[str], None]
Load = Callable[..., Any]
Answers = dict[str, np.ndarray]


def prepare(folder: Path) -> None:
    """Lay out what a model may reach for beside itself: a data file, a pipe, links, a folder."""
    (folder / "folder").mkdir(parents=True)
    generator = np.random.default_rng(5)
    data = generator.standard_normal(LOCATION_BYTES // 4).astype(np.float32).tobytes()
    (folder / LOCATION).write_bytes(data)
    (folder / "folder" / LOCATION).write_bytes(data)
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to(LOCATION)
    (folder / "folder" / "link").symlink_to("/dev/zero")


class Executor:
    """Runs mutants, one after another.

    Args:
        folder: A folder of its own, as `prepare` leaves it.
        memory: Bytes that a load is told it may take.
        load: `dovetail.load`, or what a test puts in its place.
        peer: Another runtime to compare with.
        configurations: Arguments of `load` by name.
        deadline: Seconds that a load and a run may take, as they are told.
    """

    def __init__(
        self,
        folder: Path,
        memory: int,
        load: Load,
        peer: Peer | None = None,
        configurations: Mapping[str, Mapping[str, Any]] = CONFIGURATIONS,
        deadline: float = 2.0,
    ) -> None:
        self._folder = folder
        self._deadline = deadline
        limits = Limits(memory=memory, seconds=deadline)
        self._load = functools.partial(load, threads=1, limits=limits)
        self._peer = peer
        self._configurations = configurations

    def run(self, mutant: Mutant, stage: Stage) -> Outcome:
        """Load and run a mutant; `stage` is told of each step before it begins."""
        begin = time.monotonic()
        path = self._folder / f"model{mutant.suffix}"
        path.write_bytes(mutant.data)
        try:
            outcome = self._run(mutant, path, stage)
        finally:
            path.unlink()
        outcome.made = mutant.made
        outcome.seconds = round(time.monotonic() - begin, 4)
        return outcome

    def _run(self, mutant: Mutant, path: Path, stage: Stage) -> Outcome:
        answers: list[dict[str, Answers]] = [{} for _ in range(RUNS)]
        fed: list[dict[str, np.ndarray]] = [{} for _ in range(RUNS)]
        refused: dict[str, Outcome] = {}
        for name, arguments in self._configurations.items():
            outcome = self._configuration(name, arguments, mutant, path, answers, fed, stage)
            if outcome.verdict.is_finding:
                return outcome
            if outcome.verdict is Verdict.REFUSED:
                refused[name] = outcome
        for name, outcome in refused.items():
            others = [other for other in self._configurations if other not in refused]
            if others and outcome.what not in (*SHORTAGES, TOO_LARGE) and name != UNOPTIMIZED:
                outcome.verdict = Verdict.DISAGREEING
                outcome.text = f"{', '.join(others)} ran it; {name}: {outcome.text}"
                return outcome
        if list(refused) not in ([], [UNOPTIMIZED]):
            return next(iter(refused.values()))
        return self._compared(mutant, path, answers, fed, stage)

    def _configuration(
        self,
        name: str,
        arguments: Mapping[str, Any],
        mutant: Mutant,
        path: Path,
        answers: list[dict[str, Answers]],
        fed: list[dict[str, np.ndarray]],
        stage: Stage,
    ) -> Outcome:
        now = f"{name}: load"
        try:
            stage(now)
            with self._load(path, **arguments) as network:
                symbolic = any(isinstance(size, str) for spec in network.inputs for size in spec.shape)
                turns = RUNS if symbolic or mutant.is_value_fuzz else 1
                for turn in range(turns):
                    now = f"{name}: run"
                    stage(now)
                    feeds = mutant.draw(network.inputs, turn)
                    if feeds is None:
                        return Outcome(Verdict.REFUSED, now, TOO_LARGE)
                    fed[turn] = feeds
                    answers[turn][name] = network.run(fed[turn], timeout=self._deadline)
                now = f"{name}: unload"
        except DovetailError as error:
            return _refused(now, error)
        except Exception as error:
            return Outcome(Verdict.FOREIGN, now, type(error).__name__, place(error), _told(error))
        return Outcome(Verdict.RAN, now)

    def _compared(
        self, mutant: Mutant, path: Path, answers: list[dict[str, Answers]], fed: list[dict[str, np.ndarray]], stage: Stage
    ) -> Outcome:
        first, *others = self._configurations
        verdict = Verdict.RAN
        compared = False
        for feeds, by_name in zip(fed, answers, strict=True):
            if not by_name:
                continue
            judge = Judge(mutant, path, feeds, by_name[first], self._run_first, stage)
            for name in others:
                found = difference(by_name[first], by_name[name]) if name in by_name else None
                if found is not None:
                    verdict = judge.verdict(found, by_name[name], is_peer=False)
                    if verdict is Verdict.DIFFERENT:
                        return _different(mutant, f"{first} against {name}", found)
            theirs = self._asked(path, feeds, stage)
            found = None if theirs is None else difference(by_name[first], theirs)
            if found is not None:
                verdict = judge.verdict(found, theirs or {}, is_peer=True)
                if verdict is Verdict.DIFFERENT:
                    return _different(mutant, f"{first} against {self._peer.name if self._peer else ''}", found)
            compared |= theirs is not None and found is None
        return Outcome(verdict, "done", compared=compared)

    def _asked(self, path: Path, feeds: Answers, stage: Stage) -> Answers | None:
        if self._peer is None:
            return None
        stage("peer")
        return self._peer.run(path, feeds)

    def _run_first(self, path: Path, feeds: Mapping[str, np.ndarray]) -> Answers:
        """Load a file in the first configuration and run it."""
        with self._load(path, **next(iter(self._configurations.values()))) as network:
            answers: Answers = network.run(feeds, timeout=self._deadline)
        return answers


def _refused(stage: str, error: DovetailError) -> Outcome:
    text = _told(error)
    where = place(error)
    try:
        whole = str(error)
        whole.encode()
    except Exception as wrong:  # names of the file in it that cannot be printed
        return Outcome(Verdict.FOREIGN, stage, f"{error.code} cannot be printed", where, f"{type(wrong).__name__}: {wrong}")
    if len(whole) > LONGEST:
        return Outcome(Verdict.FOREIGN, stage, f"{error.code} has {len(whole)} characters", where, text)
    if not isinstance(error.code, ErrorCode):
        return Outcome(Verdict.FOREIGN, stage, f"code {error.code!r}", where, text)
    if error.code in BLAMING:
        cause = error.__cause__
        return Outcome(Verdict.BLAMED, stage, f"{error.code} {type(cause).__name__}", place(cause or error), text)
    return Outcome(Verdict.REFUSED, stage, str(error.code), where, text)


def _different(mutant: Mutant, stage: str, found: Difference) -> Outcome:
    return Outcome(Verdict.DIFFERENT, stage, found.kind, _origin(mutant, found.output), f"{found.output!r}: {found.text}")


def _origin(mutant: Mutant, output: str) -> str:
    """Name the operator that makes an output."""
    model = as_model(mutant)
    kinds = [node.op_type for node in model.graph.node if output in node.output] if model else []
    return kinds[0] if kinds else "?"


def place(error: BaseException) -> str:
    """Name the innermost function of ours that an exception came through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "dovetail" in frame.filename]
    if not frames:
        return "?"
    return f"{Path(frames[-1].filename).stem}.{frames[-1].name}"


def _told(error: BaseException) -> str:
    """Return what an error says and where it comes from."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "dovetail" in frame.filename][-3:]
    trail = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
    try:
        text = str(error)
    except Exception as wrong:  # a message that cannot even be made is part of what is reported
        text = f"(no message: {wrong!r})"
    cause = error.__cause__
    if cause is not None:
        trail += f"; from {type(cause).__name__} at {place(cause)}"
    return f"{type(error).__name__}: {text[:1500]} [{trail}]"
