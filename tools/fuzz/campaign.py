"""A run over many mutants, in children: progress, findings by signature, a summary as data."""

from __future__ import annotations

import functools
import json
import os
import platform
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import dovetail

from . import corpus
from .executor import CONFIGURATIONS, DEVICES, Executor, prepare
from .fork_server import ForkServer, Limits, Task
from .minimizing import minimize
from .mutants import Mutant, make
from .peers import Peer
from .seeds import DIGITS, Seeds
from .tflite_seeds import TfliteSeeds
from .verdicts import Outcome, Verdict

BATCH = 100
"""Mutants that one child gets, if none ends it before."""
DEADLINES = 5
"""Deadlines of loads and runs that fit into the time in which a mutant is to end."""
PROGRESS = 10.0
"""Seconds between two lines."""


@dataclass
class Finding:
    """All mutants of one signature.

    Attributes:
        number: The first of them.
        outcome: How that ended.
        count: How many there were.
        numbers: The first few.
        alone: Whether the first shows the same in a child of its own.
        path: Where it was kept.
        size: Bytes of what was kept.
    """

    number: int
    outcome: Outcome
    count: int = 1
    numbers: list[int] = field(default_factory=list)
    alone: bool | None = None
    path: Path | None = None
    size: int = 0


@dataclass
class Report:
    """What a run found.

    Attributes:
        seed: Of the run.
        seeds: Digest of the models that it began with.
        verdicts: How many mutants ended how.
        codes: Codes of refusals.
        compared: Mutants whose answers a peer confirmed.
        findings: By signature.
        seconds: How long it took.
        slowest: Seconds of the slowest mutant, and its number.
        largest: Bytes of the one that took the most memory, and its number.
    """

    seed: int
    seeds: str
    peer: str | None = None
    verdicts: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    findings: dict[str, Finding] = field(default_factory=dict)
    seconds: float = 0.0
    slowest: tuple[float, int] = (0.0, -1)
    largest: tuple[int, int] = (0, -1)

    @property
    def total(self) -> int:
        """How many mutants were tried."""
        return self.verdicts.total()

    def add(self, number: int, outcome: Outcome) -> None:
        """Count the end of one mutant."""
        self.verdicts[outcome.verdict] += 1
        self.compared += outcome.compared
        self.slowest = max(self.slowest, (outcome.seconds, number))
        self.largest = max(self.largest, (outcome.peak, number))
        if outcome.verdict is Verdict.REFUSED:
            self.codes[outcome.what] += 1
        if outcome.verdict.is_finding:
            finding = self.findings.setdefault(outcome.signature, Finding(number, outcome, 0))
            finding.count += 1
            finding.numbers.append(number)
            if number < finding.number:
                finding.number, finding.outcome = number, outcome
            finding.numbers = sorted(finding.numbers)[:8]

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "seed": self.seed,
            "seeds": self.seeds,
            "versions": {"onnx": onnx.__version__, "numpy": np.__version__, "python": platform.python_version()},
            "machine": platform.machine(),
            "peer": self.peer,
            "mutants": self.total,
            "seconds": round(self.seconds, 1),
            "verdicts": dict(self.verdicts.most_common()),
            "refusals": dict(self.codes.most_common()),
            "confirmed_by_peer": self.compared,
            "slowest": {"seconds": self.slowest[0], "number": self.slowest[1]},
            "largest": {"bytes": self.largest[0], "number": self.largest[1]},
            "findings": [
                {
                    "signature": signature,
                    "count": finding.count,
                    "number": finding.number,
                    "numbers": finding.numbers,
                    "alone": finding.alone,
                    "file": finding.path.name if finding.path else None,
                    "bytes": finding.size,
                    **finding.outcome.as_data(),
                }
                for signature, finding in sorted(self.findings.items(), key=lambda item: -item[1].count)
            ],
        }

    def line(self) -> str:
        """Say how far it is, in a line."""
        rate = self.total / max(self.seconds, 1e-3)
        ends = ", ".join(f"{count} {verdict}" for verdict, count in self.verdicts.most_common())
        return f"{self.seconds:7.0f} s  {self.total} mutants ({rate:.0f}/s): {ends}; {len(self.findings)} different findings"


class Campaign:
    """Everything that one run needs.

    Args:
        seeds: What mutants are made of.
        seed: Of the run.
        jobs: Children at a time.
        limits: What one mutant may take.
        peer: Another runtime to compare with.
        say: Takes lines of progress.
        load: `dovetail.load`, or what a test puts in its place.
        devices: Of `DEVICES`, those to run too.
        artefacts: Folder in which these keep what they build; for this run alone if it is None.
        make: Makes mutant `number` of the seeds and the seed.
        configurations: Arguments of `load` by name.
    """

    def __init__(
        self,
        seeds: Seeds | TfliteSeeds,
        seed: int = 1,
        *,
        jobs: int = 1,
        limits: Limits | None = None,
        peer: type[Peer] | None = None,
        say: Callable[[str], object] = print,
        load: Callable[..., Any] = dovetail.load,
        devices: Sequence[str] = (),
        artefacts: Path | None = None,
        make: Callable[..., Mutant] = make,
        configurations: Mapping[str, Mapping[str, Any]] = CONFIGURATIONS,
    ) -> None:
        self._seeds, self._seed, self._jobs = seeds, seed, jobs
        self._limits = limits or Limits()
        self._peer = peer
        self._say = say
        self._load = load
        self._make = make
        self._folder = Path(tempfile.mkdtemp(prefix="dovetail-fuzz-"))
        os.environ |= {"DOVETAIL_CACHE_DIR": str(self._folder / "cache"), "DOVETAIL_PROBE": "off"}
        kept = str(artefacts or self._folder / "artefacts")
        self._configurations = dict(configurations) | {
            name: DEVICES[name] | {"options": {name: {"artefacts": kept}}} for name in devices
        }
        _import_all()

    def __enter__(self) -> Campaign:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def mutant(self, number: int) -> Mutant:
        """Make mutant `number`."""
        return self._make(self._seeds, self._seed, number)

    def run(self, numbers: range, until: float | None = None) -> Report:
        """Try these mutants, leaving out those not begun at a time of `time.monotonic`."""
        report = Report(self._seed, self._seeds.digest, self._peer.name if self._peer else None)
        begin = told = time.monotonic()

        def batches() -> Iterator[range]:
            for first in range(numbers.start, numbers.stop, BATCH):
                if until is not None and time.monotonic() > until:
                    return
                yield range(first, min(first + BATCH, numbers.stop))

        server = ForkServer(lambda: self._task(self.mutant), self._jobs, self._limits)
        for number, outcome in server.run(batches()):
            new = outcome.verdict.is_finding and outcome.signature not in report.findings
            if outcome.verdict.is_finding and outcome.verdict is not Verdict.BROKEN and not outcome.made:  # the child died
                outcome.made = self.mutant(number).made
            report.add(number, outcome)
            report.seconds = time.monotonic() - begin
            if new:
                self._say(f"FOUND  seed {self._seed} number {number}: {outcome.signature}\n       {outcome.text[-600:]}")
            if time.monotonic() - told > PROGRESS:
                told = time.monotonic()
                self._say(report.line())
        report.seconds = time.monotonic() - begin
        self._say(report.line())
        return report

    def alone(self, mutant: Mutant) -> Outcome:
        """Try one mutant in a child of its own."""
        ((_, outcome),) = self.each([mutant])
        return outcome

    def each(self, mutants: Sequence[Mutant]) -> Iterator[tuple[int, Outcome]]:
        """Try some mutants one after another; yields the place of each and its end."""
        return ForkServer(lambda: self._task(lambda number: mutants[number]), 1, self._limits).run([range(len(mutants))])

    def keep(self, report: Report, folder: Path, seconds: float) -> None:
        """Try the first mutant of each finding alone, minimize it, and write it to a folder.

        Minimizing takes at most `seconds` each.
        """
        for signature, finding in report.findings.items():
            if finding.outcome.verdict is Verdict.BROKEN:
                continue
            mutant = self.mutant(finding.number)
            finding.alone = self.alone(mutant).signature == signature
            if finding.alone and seconds:
                mutant = minimize(mutant, functools.partial(self._shows, signature), seconds)
            name = f"{finding.outcome.verdict.replace(' ', '-')}-{self._seed}-{finding.number}"
            origin = f"seed {self._seed}, number {finding.number}, of {', '.join(mutant.made)}"
            finding.path = corpus.write(folder, name, mutant, finding.outcome, origin)
            finding.size = len(mutant.data)
            self._say(f"kept {finding.path} ({finding.size} bytes, alone: {finding.alone}): {signature}")

    def _shows(self, signature: str, mutant: Mutant) -> bool:
        return self.alone(mutant).signature == signature

    def _task(self, find: Callable[[int], Mutant]) -> Task:
        """Make what a child does; called in the child."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        prepare(folder)
        load = functools.partial(self._load, runtime=dovetail.Runtime(threads=1))
        for name, arguments in self._configurations.items():
            if name not in CONFIGURATIONS:  # drivers bear no fork, and limits are counted from what they take
                load(DIGITS, threads=1, **arguments).unload()
        peer = self._peer() if self._peer else None
        deadline = self._limits.seconds / DEADLINES
        executor = Executor(folder, self._limits.memory // 4, load, peer, self._configurations, deadline)
        return lambda number, stage: executor.run(find(number), stage)


def _import_all() -> None:
    """Import what the children need by loading a model, and check that no thread was started.

    A run starts one.
    """
    with dovetail.Runtime(threads=1) as runtime:
        for arguments in CONFIGURATIONS.values():
            dovetail.load(DIGITS, threads=1, runtime=runtime, **arguments).unload()
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise RuntimeError(f"{threads} threads run in a process that is to be forked; set OPENBLAS_NUM_THREADS=1")


def write_report(report: Report, path: Path) -> None:
    """Write a summary as JSON."""
    path.write_text(json.dumps(report.as_data(), indent=1) + "\n", "utf-8")


def replay(campaign: Campaign, paths: Sequence[Path]) -> dict[Path, Outcome]:
    """Run files of the corpus, or any model files."""
    mutants = [corpus.read(path) for path in paths]
    return {paths[number]: outcome for number, outcome in campaign.each(mutants)}
