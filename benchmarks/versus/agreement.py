"""Whether runtimes answer alike: a wrong answer is not worth timing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Tolerance(Enum):
    """How far outputs may lie apart."""

    SINGLE = "float32"
    """The largest difference may be 1e-3 of the largest expected magnitude.

    A sum of n products rounds with about sqrt(n) 2^-24 of its terms' size (n = 4608, a wide 3x3
    convolution: 4e-6), Winograd's transforms cost up to ten times that, and the errors of 25 such
    layers add up: 1e-3. A mistake in a layer is of the order of 1."""
    EIGHT_BITS = "eight bits"
    """The norm of the difference may be half of the expected one.

    int8 and bfloat16 keep eight bits: 2^-9 of the largest value is lost in every layer, 2^-7 of a
    typical one; 64 layers of a random walk whose steps a network amplifies 8 times make
    2^-7 * 8 * 8 = 0.5. (MobileNet v1 in bfloat16: 0.27.)"""

    OWN_QUANTIZATION = "own quantization"
    """The cosine with what is expected has to be 0.5 at least.

    A file that another tool quantized is another network, of which no more is asked than that half
    of its answer's norm lies along the expected one. Unrelated answers lie near 90 degrees."""

    def accepts(self, errors: Errors) -> bool:
        """Judge how far outputs lie apart."""
        if self is Tolerance.SINGLE:
            return errors.largest <= 1e-3
        return errors.norm <= 0.5 if self is Tolerance.EIGHT_BITS else errors.cosine >= 0.5


class Errors(NamedTuple):
    """How far an output lies from the expected one.

    Attributes:
        largest: The largest difference, relative to the largest expected magnitude.
        norm: The norm of the difference, relative to the norm of what was expected.
        cosine: Of the angle between the two.
    """

    largest: float
    norm: float
    cosine: float

    def worse(self, other: Errors) -> Errors:
        """Take the worse of each."""
        return Errors(max(self.largest, other.largest), max(self.norm, other.norm), min(self.cosine, other.cosine))


@dataclass(frozen=True, slots=True)
class Agreement:
    """How an answer compares.

    Attributes:
        agrees: Within the tolerance.
        against: What it was compared with: the name of a runtime or of a file.
        largest, norm, cosine: As in `Errors`, of the output for which each is worst.
        reason: Why it cannot be compared.
    """

    agrees: bool
    against: str
    largest: float | None = None
    norm: float | None = None
    cosine: float | None = None
    reason: str = ""


def compare(
    found: Sequence[Array], expected: Sequence[Array], against: str, tolerance: Tolerance, *, channels_last: bool = False
) -> Agreement:
    """Compare outputs in order.

    With `channels_last` one may also be the expected one with its channels moved to the end.
    """
    if len(found) != len(expected):
        return Agreement(False, against, reason=f"{len(found)} outputs, not {len(expected)}")
    worst = Errors(0.0, 0.0, 1.0)
    for index, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        forms = [mine, np.moveaxis(mine, -1, 1)] if channels_last and mine.ndim > 2 else [mine]
        fitting = [form for form in forms if form.shape == theirs.shape]
        if not fitting:
            return Agreement(False, against, reason=f"output {index} has shape {list(mine.shape)}, not {list(theirs.shape)}")
        if not all(np.isfinite(mine[np.isfinite(theirs)]).all() for mine in fitting):
            return Agreement(False, against, reason=f"output {index} is not finite")
        worst = worst.worse(min(_errors(form, theirs) for form in fitting))
    return Agreement(tolerance.accepts(worst), against, *worst)


def _errors(found: Array, expected: Array) -> Errors:
    wanted, got = np.asarray(expected, np.float64), np.asarray(found, np.float64)
    where = np.isfinite(wanted)  # minus infinity is a fair answer; there it has to be the same
    if not np.array_equal(wanted[~where], got[~where], equal_nan=True):
        return Errors(np.inf, np.inf, -1.0)
    wanted, got = wanted[where], got[where]
    difference = np.abs(got - wanted)
    if not difference.any():
        return Errors(0.0, 0.0, 1.0)
    tiny = float(np.finfo(np.float64).tiny)
    size, other = float(np.linalg.norm(wanted)), float(np.linalg.norm(got))
    return Errors(
        largest=float(difference.max()) / max(float(np.abs(wanted).max()), tiny),
        norm=float(np.linalg.norm(difference)) / max(size, tiny),
        cosine=float(np.vdot(wanted, got)) / max(size * other, tiny),
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """What a runtime computed: its first outputs and later ones, and how they may be compared."""

    first: Sequence[Array]
    later: Sequence[Array]
    tolerance: Tolerance
    channels_last: bool = False


def judge(answers: Mapping[str, Answer], expected: Sequence[Array] | None, source: str) -> dict[str, Agreement]:
    """Compare all answers with what is expected, or else with the one that most others agree with.

    Args:
        answers: By name, in the order in which they are preferred as the one to compare with.
        expected: Outputs in the model's order.
        source: The name of the expected outputs.
    """
    if expected is None:
        if not answers:
            return {}
        # What is most exact and in the model's layout comes first; among these, what has most
        # friends, and of them the first.
        rank = {name: (answer.tolerance is Tolerance.SINGLE, not answer.channels_last) for name, answer in answers.items()}
        candidates = [name for name in answers if rank[name] == max(rank.values())]
        friends = {name: sum(_of(other, answers[name].first, name).agrees for other in answers.values()) for name in candidates}
        source = max(candidates, key=lambda name: friends[name])
        expected = answers[source].first
    return {name: _of(answer, expected, source) for name, answer in answers.items()}


def _of(answer: Answer, expected: Sequence[Array], source: str) -> Agreement:
    """Compare the first outputs and the later ones, and return the worse."""
    both = [
        compare(outputs, expected, source, answer.tolerance, channels_last=answer.channels_last)
        for outputs in (answer.first, answer.later)
    ]
    first, later = both
    if first.agrees != later.agrees:
        return later if first.agrees else first
    return max(both, key=lambda one: np.inf if one.largest is None else one.largest)
