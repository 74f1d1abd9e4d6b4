"""Load and run one mutant in this process, in every configuration, and compare what they answer."""

from __future__ import annotations

import functools
import os
import random
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from dovetail import Limits
from dovetail.errors import DovetailError, ErrorCode

from .comparing import Difference, difference, moved
from .message_mutations import messages
from .mutants import Mutant, as_model
from .networks import LOCATION, LOCATION_BYTES
from .peers import Peer
from .verdicts import Outcome, Verdict

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "CpuRef": {"backends": ["CpuRef"]},
    "CpuAcc": {"backends": ["CpuAcc", "CpuRef"]},
    "unoptimized": {"backends": ["CpuRef"], "passes": False},
}
"""Arguments of `dovetail.load`; the first is what the others and the peer are held against."""

DEADLINE = 2.0
"""Seconds that a load and a run may take, as they are told."""
SHORTAGES = {ErrorCode.TIMEOUT, ErrorCode.OUT_OF_MEMORY, ErrorCode.LIMIT_EXCEEDED}
"""Codes that depend on how a configuration goes about it."""
BLAMING = {ErrorCode.BACKEND_BROKEN, ErrorCode.BACKEND_CONTRACT, ErrorCode.SUBSTITUTION_INVALID, ErrorCode.BACKEND_UNAVAILABLE}
"""Codes that tell a user to call a backend's makers: never for what stands in a file."""
LONGEST = 20_000
"""Characters that a message of ours may have."""
TOO_LARGE = "inputs too large to make"
FOLDED = ("unoptimized", ErrorCode.NO_BACKEND_FOR_LAYER)
"""What the optimizer folds or drops needs no backend."""
PERTURBATIONS = 4
CONDITION = 256
"""How much further than by a change of all numbers in the last bits two answers may be apart."""

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
    """

    def __init__(
        self,
        folder: Path,
        memory: int,
        load: Load,
        peer: Peer | None = None,
        configurations: Mapping[str, Mapping[str, Any]] = CONFIGURATIONS,
    ) -> None:
        self._folder = folder
        limits = Limits(memory=memory, seconds=DEADLINE)
        self._load = functools.partial(load, threads=1, limits=limits)
        self._peer = peer
        self._configurations = configurations

    def run(self, mutant: Mutant, stage: Stage) -> Outcome:
        """Load and run a mutant; `stage` is told of each step before it begins."""
        begin = time.monotonic()
        path = self._folder / "model.onnx"
        path.write_bytes(mutant.data)
        try:
            outcome = self._run(mutant, path, stage)
        finally:
            path.unlink()
        outcome.made = mutant.made
        outcome.seconds = round(time.monotonic() - begin, 4)
        return outcome

    def _run(self, mutant: Mutant, path: Path, stage: Stage) -> Outcome:
        answers: list[dict[str, Answers]] = [{}, {}]
        fed: list[dict[str, np.ndarray]] = [{}, {}]
        refused: dict[str, Outcome] = {}
        for name, arguments in self._configurations.items():
            outcome = self._configuration(name, arguments, mutant, path, answers, fed, stage)
            if outcome.verdict.is_finding:
                return outcome
            if outcome.verdict is Verdict.REFUSED:
                refused[name] = outcome
        for name, outcome in refused.items():
            others = [other for other in self._configurations if other not in refused]
            if others and outcome.what not in (*SHORTAGES, TOO_LARGE) and (name, outcome.what) != FOLDED:
                outcome.verdict = Verdict.DISAGREEING
                outcome.text = f"{', '.join(others)} ran it; {name}: {outcome.text}"
                return outcome
        if refused:
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
                turns = 2 if any(isinstance(size, str) for spec in network.inputs for size in spec.shape) else 1
                for turn in range(turns):
                    now = f"{name}: run"
                    stage(now)
                    feeds = mutant.draw(network.inputs, turn)
                    if feeds is None:
                        return Outcome(Verdict.REFUSED, now, TOO_LARGE)
                    fed[turn] = feeds
                    answers[turn][name] = network.run(fed[turn], timeout=DEADLINE)
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
        for turn, by_name in enumerate(answers):
            if not by_name:
                continue
            for name in others:
                found = difference(by_name[name], by_name[first])
                if found is not None and not self._is_unstable(mutant, path, fed[turn], by_name[first], found, stage):
                    return _different(mutant, f"{name} against {first}", found)
                verdict = Verdict.UNSTABLE if found else verdict
            if self._peer is None:
                continue
            stage("peer")
            theirs = self._peer.run(path, fed[turn])
            if theirs is None:
                continue
            found = difference(by_name[first], theirs)
            if found is not None and not self._is_unstable(mutant, path, fed[turn], by_name[first], found, stage):
                return _different(mutant, f"{first} against {self._peer.name}", found)
            compared = True
        return Outcome(verdict, "done", compared=compared)

    def _is_unstable(
        self, mutant: Mutant, path: Path, feeds: Mapping[str, np.ndarray], answers: Answers, found: Difference, stage: Stage
    ) -> bool:
        """Tell whether a change of all numbers in their last bits moves the answer as much as the two answers differ."""
        model = as_model(mutant.data)
        if found.kind not in ("values", "integers", "non-finite") or model is None:
            return False
        stage("perturbing")
        arguments = next(iter(self._configurations.values()))
        for turn in range(PERTURBATIONS):
            luck = random.Random(turn)
            changed = as_model(mutant.data)
            assert changed is not None
            for message in messages(changed):
                if isinstance(message, TensorProto):
                    _perturb_tensor(luck, message)
            path.write_bytes(changed.SerializeToString())
            try:
                with self._load(path, **arguments) as network:
                    nudged = {name: perturbed(luck, value) for name, value in feeds.items()}
                    after = network.run(nudged, timeout=DEADLINE)
            except Exception:  # it ran unperturbed: whatever hinders it now, nothing can be told from it
                continue
            finally:
                path.write_bytes(mutant.data)
            if moved(found, answers, after) * CONDITION >= found.amount:
                return True
        return False


def perturbed(luck: random.Random, value: np.ndarray) -> np.ndarray:
    """Change every float by some of its last bits."""
    if value.dtype.kind != "f" or not value.size:
        return value
    generator = np.random.default_rng(luck.getrandbits(32))
    with np.errstate(all="ignore"):
        factor = 1 + 8 * np.finfo(value.dtype).eps * generator.uniform(-1, 1, value.shape)
        return np.asarray((value * factor).astype(value.dtype))


def _perturb_tensor(luck: random.Random, tensor: TensorProto) -> None:
    if tensor.data_type in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16) and not tensor.external_data:
        try:
            value = numpy_helper.to_array(tensor)
        except Exception:  # onnx's reading of a broken tensor that ours took or never looked at: it stays as it is
            return
        tensor.CopyFrom(numpy_helper.from_array(perturbed(luck, value), tensor.name))


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
    model = as_model(mutant.data)
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
