"""What a run of the kit found, as data that crosses processes and goes into reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from .checks import Check
from .endings import Event


class Status(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    EXPECTED = "failed as expected"
    DEVIATES = "deviates as declared"
    NOT_APPLICABLE = "not applicable"
    NOT_RUN = "not run"


class Verdict(StrEnum):
    """How the whole run ended."""

    CONFORMS = "conforms"
    FAILS = "does not conform"
    INCOMPLETE = "incomplete"


@dataclass(slots=True)
class Counts:
    """Cases of one kind in one element type.

    Attributes:
        claimed: Cases that the manifest's claims cover.
        run: Cases that the backend took and computed.
        refused: Cases that it refused, with a reason.
        failed: Cases that went wrong.
        unclaimed: Of those run, how many no claim covers.
        folded: Cases that the core computed beforehand, from constants, so that they prove nothing
            of the backend.
        exact: Of those taken, how many were judged with zero tolerance.
        deviating: Of those run, how many differ as the manifest declares.
    """

    claimed: int = 0
    run: int = 0
    refused: int = 0
    failed: int = 0
    unclaimed: int = 0
    folded: int = 0
    exact: int = 0
    deviating: int = 0

    def add(self, **numbers: int) -> None:
        """Add to some of the numbers."""
        for name, number in numbers.items():
            setattr(self, name, getattr(self, name) + number)

    def as_dict(self) -> dict[str, int]:
        """Return the numbers by name."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class FailedCase:
    """One case of level 2 that went wrong."""

    id: str
    text: str


@dataclass(slots=True)
class KnownDeviation:
    """A deviation that the manifest declares, and what became of it.

    Attributes:
        facts: Kind, element types, conditions, what deviates, by how much, why, a link.
        looked_for: Cases of its kind were judged.
        cases: Those that differ as declared.
    """

    facts: dict[str, Any]
    looked_for: bool = False
    cases: dict[str, FailedCase] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """How it ended, for people and for programs."""
        if self.cases:
            return "deviates as declared"
        return "declared, not seen" if self.looked_for else "declared, not judged"

    @property
    def described(self) -> str:
        """All that the manifest says of it, in one line."""
        facts = self.facts
        where = f", where {'; '.join(facts['where'])}" if facts["where"] else ""
        link = f"; see {facts['link']}" if facts["link"] else ""
        of = f"{facts['kind']} of {', '.join(facts['dtypes'])}{where}"
        return f"{of}: {facts['what']} ({facts['bound']}), because {facts['why']}{link}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        cases = [{"id": case.id, "text": case.text} for case in self.cases.values()]
        return {**self.facts, "state": self.state, "cases": cases}

    def add(self, other: KnownDeviation) -> None:
        """Add what another check found of it."""
        self.looked_for |= other.looked_for
        self.cases |= other.cases


@dataclass(slots=True)
class CheckResult:
    """What became of one check.

    Attributes:
        check: Which.
        status: How it ended.
        text: Why it failed, was not applicable or not run; empty if it passed.
        seconds: How long it took.
        facts: The numbers behind a failure.
        notes: What a vendor may want to know although it is no failure.
        counts: Cases, by (kind, element type); layers of graphs and the like stand under ("", "").
        cases: The cases that failed.
        not_judged: Kinds and element types that are claimed and that nothing could judge.
        unreached: Kinds, element types, what of their claims no case reached (a value, or a side of
            a limit), and why none can, if that is known.
        bits: How many cases were held to the bits of a standard, by standard, kind and element
            type.
        deviations: What the manifest declares of kinds that it looked at, by its number there.
        last_step: What it was doing when it ended.
    """

    check: Check
    status: Status = Status.NOT_RUN
    text: str = ""
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    counts: dict[tuple[str, str], Counts] = field(default_factory=dict)
    cases: list[FailedCase] = field(default_factory=list)
    not_judged: list[tuple[str, str]] = field(default_factory=list)
    unreached: list[tuple[str, str, str, str]] = field(default_factory=list)
    bits: dict[tuple[str, str, str], int] = field(default_factory=dict)
    deviations: dict[int, KnownDeviation] = field(default_factory=dict)
    last_step: str = ""

    def take(self, event: Event) -> None:
        """Add what happened."""
        match event["event"]:
            case "step":
                self.last_step = event["text"]
            case "note":
                self.notes.append(event["text"])
            case "count":
                counts = self.counts.setdefault((event["kind"], event["dtype"]), Counts())
                counts.add(**event["numbers"])
            case "case":
                self.cases.append(FailedCase(event["id"], event["text"]))
            case "bits":
                key = (event["standard"], event["kind"], event["dtype"])
                self.bits[key] = self.bits.get(key, 0) + 1
            case "declared":
                known = self.deviations.setdefault(event["number"], KnownDeviation(event["facts"]))
                known.looked_for |= event["looked_for"]
            case "deviates":
                known = self.deviations.setdefault(event["number"], KnownDeviation(event["facts"]))
                known.cases.setdefault(event["id"], FailedCase(event["id"], event["text"]))
            case "not judged":
                what = event.get("what")
                if what:
                    self.unreached.append((event["kind"], event["dtype"], what, event.get("reason", "")))
                else:
                    self.not_judged.append((event["kind"], event["dtype"]))
            case "end":
                self.status, self.text = Status(event["status"]), event["text"]
                self.seconds, self.facts = event["seconds"], event["facts"]


@dataclass(slots=True)
class Report:
    """Everything that a run found.

    Attributes:
        backend: The id.
        level: The highest level that was asked for.
        results: One per check, in the order in which they were to run.
        environment: Versions, machine, hashes, seed, date.
        seconds: How long it took.
        bit_exact: Bits were asked for even where they are not promised.
        device: The device on which it was judged: its index and name.
    """

    backend: str
    level: int
    results: list[CheckResult] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    bit_exact: bool = False
    device: str = ""

    @property
    def deviations(self) -> list[KnownDeviation]:
        """What the manifest declares, in its order, and what became of it."""
        found: dict[int, KnownDeviation] = {}
        for result in self.results:
            for number, known in result.deviations.items():
                found.setdefault(number, KnownDeviation(known.facts)).add(known)
        return [found[number] for number in sorted(found)]

    @property
    def bits_by_standard(self) -> dict[str, dict[str, int]]:
        """Cases that were held to the bits of a standard, by standard and kind."""
        found: dict[str, dict[str, int]] = {}
        for result in self.results:
            for (standard, kind, _), number in result.bits.items():
                kinds = found.setdefault(standard, {})
                kinds[kind] = kinds.get(kind, 0) + number
        return found

    @property
    def not_judged(self) -> list[tuple[str, str]]:
        """Kinds and element types that are claimed and that nothing could judge."""
        return sorted({cell for result in self.results for cell in result.not_judged})

    @property
    def not_judged_by_kind(self) -> dict[str, list[str]]:
        """The element types of `not_judged`, by kind."""
        found: dict[str, list[str]] = {}
        for kind, dtype in self.not_judged:
            found.setdefault(kind, []).append(dtype)
        return found

    @property
    def unreached_by_kind(self) -> dict[tuple[str, str, str], list[str]]:
        """Element types, by kind, what of its claims no case reached, and why none can."""
        found: dict[tuple[str, str, str], list[str]] = {}
        for kind, dtype, what, reason in sorted({one for result in self.results for one in result.unreached}):
            found.setdefault((kind, what, reason), []).append(dtype)
        return found

    @property
    def counts(self) -> dict[tuple[str, str], Counts]:
        """Cases of all checks together, by kind and element type."""
        return total_counts(self.results)

    @property
    def problems(self) -> list[CheckResult]:
        """The checks that failed."""
        return [result for result in self.results if result.status is Status.FAILED]

    @property
    def objection(self) -> str:
        """Why the run as a whole proves nothing; empty if it does."""
        if all(result.status in (Status.NOT_APPLICABLE, Status.NOT_RUN) for result in self.results):
            return "no check ran"
        judged = [result for result in self.results if result.check.level == 2 and result.check.item is not None]
        if judged and all(result.status in (Status.NOT_APPLICABLE, Status.PASSED) for result in judged):
            total = total_counts(judged).values()
            if not sum(counts.run for counts in total):
                return f"nothing ran: the backend refused or was not asked about every case of {len(judged)} kinds"
            unproven = sorted({kind for result in judged for kind, _ in result.not_judged})
            if unproven and not sum(counts.claimed for counts in total):
                where = f" on device {self.device}" if self.device else ""
                return f"nothing is proven: {', '.join(unproven)} are claimed, but no case lies within a claim{where}"
        return ""

    @property
    def verdict(self) -> Verdict:
        """How it ended."""
        if self.problems or self.objection:
            return Verdict.FAILS
        if any(result.status is Status.NOT_RUN for result in self.results):
            return Verdict.INCOMPLETE
        return Verdict.CONFORMS


def total_counts(results: Iterable[CheckResult]) -> dict[tuple[str, str], Counts]:
    """Add up cases by kind and element type, in order of their names."""
    total: dict[tuple[str, str], Counts] = {}
    for result in results:
        for cell, counts in result.counts.items():
            total.setdefault(cell, Counts()).add(**counts.as_dict())
    return dict(sorted(total.items()))


def end_event(status: Status, text: str, seconds: float, facts: Mapping[str, Any] | None = None) -> Event:
    """Return the event that closes a check."""
    return {"event": "end", "status": str(status), "text": text, "seconds": seconds, "facts": dict(facts or {})}
