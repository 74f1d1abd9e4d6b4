"""What was measured, the arithmetic on it, and how it looks as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from statistics import median
from typing import Any

from .agreement import Agreement

TIE = 0.04
"""Two runs of the same thing differ by up to this part: a ratio that close to 1 says nothing."""


class State(StrEnum):
    """What became of a runtime on a model."""

    MEASURED = "measured"
    DISAGREES = "disagrees"
    """Measured too, but it answers otherwise: it is no peer to be compared with."""
    FAILED = "failed"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Block:
    """One turn of one runtime, in seconds per call.

    Attributes:
        median, minimum: Over the calls of the block.
        count: Calls.
        foreign: CPUs that others took meanwhile, None where it is not known.
        disturbed: They took too many, in every attempt.
    """

    median: float
    minimum: float
    count: int
    foreign: float | None = None
    disturbed: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """A process that imports a runtime, loads a model that is in the page cache, and runs it once.

    Attributes:
        import_seconds: Of importing all that any model needs.
        load_seconds, first_seconds: Of this model.
        baseline_bytes: What Python, NumPy and the inputs take.
        imported_bytes: What the process holds once the runtime is imported.
        peak_bytes: The most that it has held by the end of the first run.
    """

    import_seconds: float
    load_seconds: float
    first_seconds: float
    baseline_bytes: int
    imported_bytes: int
    peak_bytes: int

    @classmethod
    def told(cls, ready: Mapping[str, Any]) -> Start:
        """Read what a child told."""
        names = ("import_seconds", "load_seconds", "first_seconds", "baseline_bytes", "imported_bytes", "started_bytes")
        return cls(*(ready[name] for name in names))

    @property
    def model_seconds(self) -> float:
        """Load and first run."""
        return self.load_seconds + self.first_seconds

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.import_seconds + self.model_seconds

    @property
    def increase_bytes(self) -> int:
        """What the model added."""
        return self.peak_bytes - self.imported_bytes


@dataclass(slots=True)
class Entry:
    """One runtime on one model with so many threads.

    Attributes:
        runtime: Its name.
        state: What became of it.
        reason: Why it is not there, or failed, or how far off its answer is.
        exact: Fit to be the best peer.
        ready: What the child told about loading, in seconds and bytes.
        agreement: How its answer compares.
        starts: One per process that loaded the model.
        blocks: One per round.
        peak_bytes: The most that the process held.
    """

    runtime: str
    state: State
    reason: str = ""
    exact: bool = True
    ready: Mapping[str, Any] = field(default_factory=dict)
    agreement: Agreement | None = None
    starts: list[Start] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    peak_bytes: int = 0

    @property
    def is_right(self) -> bool:
        """It was measured, and its answer agrees."""
        return self.state is State.MEASURED and bool(self.blocks)

    @property
    def median(self) -> float | None:
        """The median over the rounds of their medians, in seconds."""
        return median(block.median for block in self.blocks) if self.blocks else None

    @property
    def minimum(self) -> float | None:
        """The shortest call, in seconds."""
        return min(block.minimum for block in self.blocks) if self.blocks else None

    def least(self, name: str) -> float | None:
        """Return the least over the starts of a time or size, by the name of the attribute."""
        return min((getattr(start, name) for start in self.starts), default=None)

    @property
    def memory_bytes(self) -> int | None:
        """The most that the process held above what Python, NumPy and the inputs take."""
        return self.peak_bytes - self.ready["baseline_bytes"] if self.ready else None


@dataclass(slots=True)
class Comparison:
    """All runtimes on one model with so many threads.

    Attributes:
        model: Name of the file.
        threads: CPU threads.
        macs: Multiply-accumulates of a run, None if not known.
        source: Where the inputs came from.
        entries: One per runtime, dovetail first.
        peaks: Multiply-accumulates per second that the machine can do, one per round; empty if not
            measured.
    """

    model: str
    threads: int
    macs: int | None
    source: str
    entries: list[Entry]
    peaks: list[float] = field(default_factory=list)

    @property
    def ours(self) -> Entry:
        """The entry of dovetail."""
        return self.entries[0]

    @property
    def best_peer(self) -> Entry | None:
        """The fastest peer that computes exactly and answers right, by its median."""
        right = [entry for entry in self.entries[1:] if entry.is_right and entry.exact]
        return min(right, key=lambda entry: entry.median or math.inf, default=None)

    def ratios(self, peer: Entry) -> list[float]:
        """Divide the peer's median by dovetail's in each round: above 1, dovetail is faster.

        The result is empty if one of them has none.
        """
        if not (peer.is_right and self.ours.is_right):
            return []
        return [theirs.median / ours.median for theirs, ours in zip(peer.blocks, self.ours.blocks, strict=False)]

    def ratio(self, peer: Entry | None) -> float | None:
        """Return the median of the ratios over the rounds."""
        ratios = self.ratios(peer) if peer else []
        return median(ratios) if ratios else None

    def ratio_of_minima(self, peer: Entry | None) -> float | None:
        """Divide the shortest calls, which a busy machine distorts least.

        Some call always runs uninterrupted.
        """
        if peer is None or not self.ratios(peer):
            return None
        theirs, ours = peer.minimum, self.ours.minimum
        return theirs / ours if theirs and ours else None

    def ratio_of_starts(self, peer: Entry | None, name: str) -> float | None:
        """Divide the peer's least start time or size by dovetail's: above 1, dovetail is better."""
        theirs, ours = peer.least(name) if peer else None, self.ours.least(name)
        return theirs / ours if theirs and ours else None

    def part_of_peak(self, entry: Entry) -> float | None:
        """Divide the multiply-accumulates' time at float32 peak by that of a run, by round."""
        if not (self.macs and self.peaks and entry.blocks):
            return None
        return median(
            self.macs / peak / block.median for peak, block in zip(self.peaks, entry.blocks, strict=False) if block.median
        )

    @property
    def disturbed(self) -> int:
        """Blocks that others disturbed in every attempt."""
        return sum(block.disturbed for entry in self.entries for block in entry.blocks)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it in JSON's terms: seconds, bytes, calls."""
        best = self.best_peer
        return {
            "model": self.model,
            "threads": self.threads,
            "macs": self.macs,
            "inputs": self.source,
            "peak_macs_per_second": median(self.peaks) if self.peaks else None,
            "best_peer": best.runtime if best else None,
            "ratio": self.ratio(best),
            "ratios": self.ratios(best) if best else [],
            "ratio_of_minima": self.ratio_of_minima(best),
            "entries": [self._entry(entry) for entry in self.entries],
        }

    def _entry(self, entry: Entry) -> dict[str, Any]:
        return {
            "runtime": entry.runtime,
            "state": entry.state,
            "reason": entry.reason,
            "exact": entry.exact,
            "median_seconds": entry.median,
            "minimum_seconds": entry.minimum,
            "ratio": self.ratio(entry) if entry is not self.ours else None,
            "part_of_peak": self.part_of_peak(entry),
            "starts": [asdict(start) for start in entry.starts],
            "memory_bytes": entry.memory_bytes,
            "facts": entry.ready.get("facts", {}),
            "agreement": _finite(asdict(entry.agreement)) if entry.agreement else None,
            "blocks": [asdict(block) for block in entry.blocks],
        }


def _finite(record: dict[str, Any]) -> dict[str, Any]:
    """JSON knows no infinity."""
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in record.items()}


def geometric_mean(values: Sequence[float]) -> float | None:
    """Return the geometric mean, None of nothing; it does not depend on who is divided by whom."""
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else None


def geometric_means(comparisons: Iterable[Comparison]) -> dict[int, tuple[float, int]]:
    """Return, by thread count, the geometric mean of ratios to the best peers and of how many."""
    ratios: dict[int, list[float]] = {}
    for comparison in comparisons:
        ratio = comparison.ratio(comparison.best_peer)
        if ratio is not None:
            ratios.setdefault(comparison.threads, []).append(ratio)
    return {threads: (mean, len(found)) for threads, found in sorted(ratios.items()) if (mean := geometric_mean(found))}


@dataclass(slots=True)
class Report:
    """A whole run.

    Attributes:
        date: When it began, ISO 8601.
        command: The command line.
        machine: What `versus.machine` found.
        versions: Of dovetail, Python and the peers.
        settings: Rounds, seconds and so on.
        notes: What was left out, and why.
        failures: Models that could not be read, by name.
        comparisons: One per model and thread count.
    """

    date: str
    command: str
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    settings: Mapping[str, Any]
    notes: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    comparisons: list[Comparison] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Return whether nothing failed and no answers disagree.

        What is not installed or has no file of its own is no failure.
        """
        wrong = {State.FAILED, State.DISAGREES}
        return not self.failures and not any(
            entry.state in wrong for comparison in self.comparisons for entry in comparison.entries
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all of it in JSON's terms."""
        return {
            "date": self.date,
            "command": self.command,
            "machine": dict(self.machine),
            "versions": dict(self.versions),
            "settings": dict(self.settings),
            "notes": self.notes,
            "failures": self.failures,
            "comparisons": [comparison.as_dict() for comparison in self.comparisons],
            "geometric_means": {
                str(threads): {"ratio": mean, "models": count}
                for threads, (mean, count) in geometric_means(self.comparisons).items()
            },
        }
