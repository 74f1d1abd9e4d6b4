"""How far outputs are from what is expected, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dovetail.ground.foreign_text import printable

from .differences import Difference, default_tolerance, real_values

if TYPE_CHECKING:
    from dovetail.optimizer import TensorSpec

Array = npt.NDArray[Any]

_NAMED = 8
"""Files that are named of more."""


def _some(files: Sequence[str]) -> str:
    return ", ".join([*map(printable, files[:_NAMED]), *(["..."] if len(files) > _NAMED else [])])


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far outputs may be from what is expected; without anything given, by type as in `diff`.

    Attributes:
        share: Largest error, as a share of the largest magnitude; 0: equal.
        absolute: Largest error of an element; None, with `relative`: 0.
        relative: The same as a share of the expected element, which is added.
    """

    share: float | None = None
    absolute: float | None = None
    relative: float | None = None

    @property
    def is_of_elements(self) -> bool:
        """Whether each element has an error of its own that is allowed."""
        return self.absolute is not None or self.relative is not None


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far an output is from what is expected.

    Attributes:
        output: Its name.
        difference: In the real numbers that integers stand for; what is expected is the reference.
        allowed: The error that is allowed, if it is the same for all elements.
        beyond: Elements that are too far.
        worst: The element that is farthest beyond what is allowed.
        found, wanted: It, as it is and as it is expected.
    """

    output: str
    difference: Difference
    allowed: float | None
    beyond: int
    worst: tuple[int, ...] = ()
    found: float = 0.0
    wanted: float = 0.0

    @classmethod
    def of(cls, spec: TensorSpec, wanted: Array, found: Array, tolerance: Tolerance, held: str, quantized: bool) -> Verdict:
        """Compare one output.

        Args:
            spec: The output.
            wanted: What is expected, of the same shape.
            found: What it is.
            tolerance: What is allowed.
            held: The coarsest float type that the network holds constants in.
            quantized: Whether it computes with quantized numbers.
        """
        expected = _spec_of(spec, wanted)
        a, b = real_values(wanted, expected), real_values(found, spec)
        share = tolerance.share
        step = 0.0
        if share is None:
            share = default_tolerance(expected, spec, (quantized, quantized), (held, held))
            step = max(spec.quantization.scale) if spec.quantization is not None else 0.0
        difference = Difference(step=step)
        difference.add(a, b)
        allowed: Any = max(share * difference.magnitude, step * (1 + 1e-9))  # of steps worked out as real numbers
        if tolerance.is_of_elements:
            with np.errstate(invalid="ignore"):  # of infinities, which are judged apart
                allowed = (tolerance.absolute or 0.0) + (tolerance.relative or 0.0) * np.abs(a)
        is_same = wanted == found if wanted.dtype.kind in "iu" else (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore", over="ignore"):
            excess = np.abs(a - b) - allowed
        if not np.any(allowed):  # large integers are more exact than their errors
            excess = np.maximum(excess, np.finfo(np.float64).tiny)
        excess = np.where(is_same, -np.inf, excess)
        excess = np.where(np.isfinite(a) & np.isfinite(b) | is_same, excess, np.inf)
        is_beyond = excess > 0
        beyond = int(np.count_nonzero(is_beyond))
        same = None if tolerance.is_of_elements else float(allowed)
        if not beyond:
            return cls(spec.name, difference, same, 0)
        worst = np.unravel_index(int(np.argmax(excess)), excess.shape)
        return cls(spec.name, difference, same, beyond, tuple(map(int, worst)), float(b[worst]), float(a[worst]))

    @property
    def sentence(self) -> str:
        """What is wrong with it."""
        place = f"element [{', '.join(map(str, self.worst))}]" if self.worst else "the number"
        error = f", an error of {abs(self.found - self.wanted):.4g}" if np.isfinite([self.found, self.wanted]).all() else ""
        allowed = "" if self.allowed is None else f"; {self.allowed:.4g} is allowed" if self.allowed else "; it has to be equal"
        count = f"; {self.beyond} of {self.difference.elements} elements are too far" if self.difference.elements > 1 else ""
        return f"output {self.output!r} differs: {place} is {self.found:.6g}, expected {self.wanted:.6g}{error}{allowed}{count}"

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "output": self.output,
            "is_within": not self.beyond,
            "allowed": self.allowed,
            "beyond": self.beyond,
            "worst": list(self.worst) if self.beyond else None,
            **self.difference.as_dict(),
        }


def _spec_of(spec: TensorSpec, wanted: Array) -> TensorSpec:
    """Describe what is expected: as the output is, or floats where it is not."""
    from dovetail import DType
    from dovetail.optimizer import TensorSpec

    if wanted.dtype == spec.dtype.numpy:
        return TensorSpec(spec.name, wanted.shape, spec.dtype, spec.quantization)
    return TensorSpec(spec.name, wanted.shape, DType.of(wanted.dtype) if wanted.itemsize <= 8 else DType.FLOAT64)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All outputs beside what is expected.

    Attributes:
        path: The file.
        nearest: Which of its sets; empty if it has one.
        verdicts: Of the outputs; none if these could not be compared.
        failure: Why they could not.
        files: What lies along the first axis, if these are files.
        not_run: Files that something is expected of, but did not run.
        not_expected: Files that ran, but nothing is expected of.
    """

    path: Path
    nearest: str
    verdicts: Sequence[Verdict]
    failure: str = ""
    files: Sequence[str] = ()
    not_run: Sequence[str] = ()
    not_expected: Sequence[str] = ()

    @property
    def beyond(self) -> int:
        """How many outputs are too far from what is expected."""
        return sum(verdict.beyond > 0 for verdict in self.verdicts)

    @property
    def is_within(self) -> bool:
        """Whether all that is expected is there, and near enough."""
        return not (self.beyond or self.failure or self.not_run or self.not_expected)

    @property
    def worst(self) -> float:
        """The largest error."""
        return max((verdict.difference.max_abs for verdict in self.verdicts), default=0.0)

    @property
    def sentences(self) -> list[str]:
        """Say what was found, the whole of it last."""
        lines = [f"{verdict.sentence}{self._origin(verdict)}" for verdict in self.verdicts if verdict.beyond]
        lines += [
            f"{len(names)} file{'s' if len(names) > 1 else ''} {what}: {_some(names)}"
            for what, names in ((f"of {self.path} did not run", self.not_run), (f"not in {self.path}", self.not_expected))
            if names
        ]
        if self.failure:
            return [*lines, self.failure]
        nearest = f"; {self.nearest!r} is the nearest of its sets" if self.nearest else ""
        if self.beyond:
            are = f"{self.beyond} of {len(self.verdicts)} outputs {'are' if self.beyond > 1 else 'is'}"
            return [*lines, f"{are} beyond the tolerance around {self.path}{nearest}"]
        if lines:
            return [*lines, f"the outputs that were compared are as in {self.path}, within the tolerance{nearest}"]
        return [f"all outputs are as in {self.path}, within the tolerance{nearest}"]

    def _origin(self, verdict: Verdict) -> str:
        file = self.file_of(verdict)
        return "" if file is None else f"; it is of {printable(file)}"

    def file_of(self, verdict: Verdict) -> str | None:
        """Return the file whose element is farthest off; None if none is, or of no file."""
        return self.files[verdict.worst[0]] if self.files and verdict.worst else None

    def table(self) -> Any:
        """Build the table of outputs."""
        from .rendering import styled, table

        numbers = ("max abs", "max rel", "SNR dB", "allowed")
        rows = []
        for verdict in self.verdicts:
            found = verdict.difference
            values = [f"{found.max_abs:.3g}", f"{found.max_relative:.3g}", f"{found.snr:.1f}" if found.max_abs else "exact"]
            allowed = "each" if verdict.allowed is None else f"{verdict.allowed:.3g}"
            end = styled(f"{verdict.beyond} beyond", "red") if verdict.beyond else "within"
            rows.append((verdict.output, *values, allowed, end))
        return table(("expected", *numbers, ""), rows, right=numbers, long=("expected",))

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "file": str(self.path),
            "set": self.nearest or None,
            "is_within": self.is_within,
            "failure": self.failure or None,
            "not_run": list(self.not_run),
            "not_expected": list(self.not_expected),
            "outputs": [verdict.as_dict() | {"worst_file": self.file_of(verdict)} for verdict in self.verdicts],
        }
