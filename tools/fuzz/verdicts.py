"""How a mutant ended."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """The ends; all but the last six are findings."""

    CRASH = "crash"
    HANG = "hang"
    MEMORY = "memory"
    FOREIGN = "foreign exception"
    BLAMED = "backend blamed"
    DISAGREEING = "refused by one configuration"
    DIFFERENT = "different answers"
    BROKEN = "the fuzzer failed"
    OPEN = "ran, beyond what ONNX settles"
    PEER_WRONG = "ran, and the peer is wrong"
    UNSTABLE = "ran, badly conditioned"
    PEER_DIED = "ran, but the peer did not survive"
    REFUSED = "refused"
    RAN = "ran"

    @property
    def is_finding(self) -> bool:
        """Tell whether this is a defect."""
        return self not in HARMLESS


HARMLESS = {Verdict.OPEN, Verdict.PEER_WRONG, Verdict.UNSTABLE, Verdict.PEER_DIED, Verdict.REFUSED, Verdict.RAN}


@dataclass
class Outcome:
    """How one mutant ended.

    Attributes:
        verdict: The end.
        stage: What was done last.
        what: An error's code, an exception's type, a signal, the kind of a difference.
        where: The function of ours that it came from, or the operator.
        text: What was said, and where exactly.
        made: What the mutant was made of and how.
        seconds: How long it took.
        peak: By how many bytes memory had grown at most.
        compared: Whether a peer ran it too, with the same answers.
    """

    verdict: Verdict
    stage: str = ""
    what: str = ""
    where: str = ""
    text: str = ""
    made: list[str] = field(default_factory=list)
    seconds: float = 0.0
    peak: int = 0
    compared: bool = False

    @property
    def signature(self) -> str:
        """Tell one finding from another.

        Two mutants of the same signature show the same defect, as far as can be told.
        """
        return " | ".join((self.verdict, self.stage, self.what, self.where))

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Outcome:
        """Undo `as_data`."""
        return cls(**{**data, "verdict": Verdict(data["verdict"])})
