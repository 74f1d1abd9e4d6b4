"""Compare the outputs of a run with those that are expected, as a file has them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import numpy.typing as npt

from .differences import Difference, default_tolerance, real_values
from .feeding import POSITIONAL_INPUTS, load_npy, load_npz
from .pairs import coarsest_float, is_quantized

if TYPE_CHECKING:
    from dovetail import Network
    from dovetail.optimizer import TensorSpec

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]

_POSITIONAL = re.compile(r"(.+)_(\d{1,4})", re.ASCII)
"""What is called after the position of an output in the model: its set, and the position."""


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
class Expected:
    """Outputs that are expected.

    Attributes:
        path: The file.
        sets: Arrays by output. Several sets are what several runtimes gave: the outputs have to be
            as those of one of them.
    """

    path: Path
    sets: Mapping[str, Arrays]

    @classmethod
    def read(cls, path: Path, outputs: Sequence[TensorSpec], inputs: Sequence[str] = ()) -> Expected:
        """Read a .npz whose arrays are named after the outputs, or a .npy of the only output.

        Arrays of a .npz may also be called after the positions of outputs, such as out_0 and out_1,
        or ref_0 and fast_0 for several sets. Inputs and texts in it are left out.

        Args:
            path: The file.
            outputs: Of the network.
            inputs: Names of its inputs.

        Raises:
            click.UsageError: Names or types are not those of the outputs.
        """
        sets = _sets(path, [spec.name for spec in outputs], inputs)
        wrong = {name: _wrong_type(outputs, arrays) for name, arrays in sets.items()}
        if all(wrong.values()):
            raise click.UsageError(f"--expect {path} {next(iter(wrong.values()))}")
        return cls(path, {name: arrays for name, arrays in sets.items() if not wrong[name]})

    def compare(self, outputs: Sequence[TensorSpec], results: Arrays, network: Network, tolerance: Tolerance) -> Comparison:
        """Compare the outputs with the set that is nearest.

        Raises:
            click.ClickException: Shapes differ from those of every set.
        """
        fitting = {
            name: arrays
            for name, arrays in self.sets.items()
            if all(arrays[spec.name].shape == results[spec.name].shape for spec in outputs)
        }
        if not fitting:
            arrays = next(iter(self.sets.values()))
            other = next(spec.name for spec in outputs if arrays[spec.name].shape != results[spec.name].shape)
            found, wanted = (list(held[other].shape) for held in (results, arrays))
            raise click.ClickException(f"output {other!r} has the shape {found}, but {self.path} has {wanted} for it")
        held, quantized = coarsest_float(network), is_quantized(network)
        compared = [
            Comparison(
                self.path,
                name if len(self.sets) > 1 else "",
                [Verdict.of(spec, arrays[spec.name], results[spec.name], tolerance, held, quantized) for spec in outputs],
            )
            for name, arrays in fitting.items()
        ]
        return min(compared, key=lambda one: (one.beyond, sum(verdict.beyond for verdict in one.verdicts), one.worst))


def _sets(path: Path, outputs: Sequence[str], inputs: Sequence[str]) -> dict[str, Arrays]:
    if path.suffix.lower() == ".npy":
        if len(outputs) != 1:
            raise click.UsageError(f"--expect {path} has one array, the network {len(outputs)} outputs: give a .npz")
        return {"": {outputs[0]: load_npy(path)}}
    if path.suffix.lower() != ".npz":
        raise click.UsageError(f"--expect {path}: the suffix must be .npz or .npy")
    arrays = {name: array for name, array in load_npz(path).items() if array.dtype.kind in "biufc"}
    missing = [name for name in outputs if name not in arrays]
    if not missing:
        return {"": {name: arrays[name] for name in outputs}}
    positional: dict[str, dict[int, Array]] = {}
    for name, array in arrays.items():
        match = _POSITIONAL.fullmatch(name)
        if match and match[1] not in POSITIONAL_INPUTS:
            positional.setdefault(match[1], {})[int(match[2])] = array
    whole = {name: found for name, found in positional.items() if sorted(found) == list(range(len(outputs)))}
    if whole and len(missing) == len(outputs):
        return {name: {output: found[at] for at, output in enumerate(outputs)} for name, found in whole.items()}
    left = [array for name, array in arrays.items() if name not in inputs]
    if len(outputs) == len(left) == 1:
        return {"": {outputs[0]: left[0]}}
    raise click.UsageError(
        f"--expect {path} has no array for output{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing))}; it has "
        f"{', '.join(map(repr, arrays)) or 'none'}: name the arrays as the outputs, or out_0, out_1 in their order"
    )


def _wrong_type(outputs: Sequence[TensorSpec], arrays: Arrays) -> str:
    """Say which array has a type that its output is not compared with; empty if none has."""
    for spec in outputs:
        found = arrays[spec.name].dtype
        is_real = spec.dtype.is_float or spec.quantization is not None
        if found != spec.dtype.numpy and not (found.kind == "f" and is_real):
            also = " or floats" if is_real else ""
            return f"has {found} for output {spec.name!r}, which is {spec.dtype}: it may have that{also}"
    return ""


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
        verdicts: Of the outputs.
    """

    path: Path
    nearest: str
    verdicts: Sequence[Verdict]

    @property
    def beyond(self) -> int:
        """How many outputs are too far from what is expected."""
        return sum(verdict.beyond > 0 for verdict in self.verdicts)

    @property
    def worst(self) -> float:
        """The largest error."""
        return max((verdict.difference.max_abs for verdict in self.verdicts), default=0.0)

    @property
    def sentences(self) -> list[str]:
        """Say what was found, the whole of it last."""
        lines = [verdict.sentence for verdict in self.verdicts if verdict.beyond]
        nearest = f"; {self.nearest!r} is the nearest of its sets" if self.nearest else ""
        if self.beyond:
            are = f"{self.beyond} of {len(self.verdicts)} outputs {'are' if self.beyond > 1 else 'is'}"
            return [*lines, f"{are} beyond the tolerance around {self.path}{nearest}"]
        return [f"all outputs are as in {self.path}, within the tolerance{nearest}"]

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
        outputs = [verdict.as_dict() for verdict in self.verdicts]
        return {"file": str(self.path), "set": self.nearest or None, "is_within": not self.beyond, "outputs": outputs}
