"""How far two tensors that should be alike are apart, over any number of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .statistics import as_real

if TYPE_CHECKING:
    from dovetail import DType, Quantization
    from dovetail.optimizer import TensorSpec

    from .feeding import InputSpec

FLOATS = {"float64": 1e-4, "float32": 1e-4, "bfloat16": 3e-2, "float16": 5e-3}
"""Default tolerances, as shares of the largest magnitude: about 2^10, 2^3 and 2^3 roundings.

That is what sums of some thousand products in another order differ by, over a deep network.
"""

QUANTIZED = 0.02
"""Default where both networks are quantized: five steps of eight bits.

Integer layers may differ by one step each, and layers behind them pass that on.
"""

ONE_QUANTIZED = 0.1
"""Default for a network of real numbers against its quantized one."""


def real_values(array: npt.NDArray[Any], spec: TensorSpec | InputSpec) -> npt.NDArray[np.float64]:
    """Return the numbers that a tensor stands for as float64; integers may be quantized."""
    if spec.quantization is None:
        return as_real(array, bfloat16=spec.dtype.label == "bfloat16")
    scale, zero = parameters(spec.quantization, array.ndim)
    return (array.astype(np.float64) - zero) * scale


def parameters(quantization: Quantization, rank: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return scale and zero point as arrays that broadcast over a tensor of some rank."""
    shape = [1] * rank
    if quantization.axis is not None:
        shape[quantization.axis] = -1
    elif not rank:
        shape = []
    scale, zero = np.array(quantization.scale, np.float64), np.array(quantization.zero_point, np.float64)
    return scale.reshape(shape), zero.reshape(shape)


def default_tolerance(
    a: TensorSpec, b: TensorSpec, quantized: tuple[bool, bool], held: tuple[str, str] = ("float32", "float32")
) -> float:
    """Choose how far two tensors may be apart, as a share of the largest magnitude of the first.

    Args:
        a: A tensor of the first network.
        b: Its counterpart.
        quantized: Whether each of the networks computes with quantized numbers.
        held: The coarsest float type that each of the networks holds constants in: where they
            differ, so do the weights.
    """
    if not (_is_real(a) and _is_real(b)):
        return 0.0
    if quantized[0] != quantized[1]:
        return ONE_QUANTIZED
    floats = [_of_float(spec.dtype) for spec in (a, b)]
    if held[0] != held[1]:
        floats += [FLOATS[label] for label in held]
    return max(*floats, QUANTIZED) if quantized[0] else max(floats)


def _is_real(spec: TensorSpec) -> bool:
    return spec.dtype.is_float or spec.quantization is not None


def _of_float(dtype: DType) -> float:
    return FLOATS.get(dtype.label, 0.0)


@dataclass(slots=True)
class Difference:
    """What is known of two tensors after some runs.

    Errors are of the elements that are finite in both. The first tensor is the reference: relative
    errors and the signal of the SNR are its own.

    Attributes:
        step: What one step of a quantized tensor is worth: no smaller error counts.
        elements, different: Elements seen, and those that are not equal; two NaN are.
        nan, infinite: Counts in each tensor.
        unlike: Elements that are finite in one tensor alone, or infinities of other signs.
        max_abs, max_relative: Largest absolute error, and error over the reference where that is
            not zero.
        means: Mean absolute error of each run.
    """

    step: float = 0.0
    elements: int = 0
    different: int = 0
    nan: list[int] = field(default_factory=lambda: [0, 0])
    infinite: list[int] = field(default_factory=lambda: [0, 0])
    unlike: int = 0
    magnitude: float = 0.0
    max_abs: float = 0.0
    max_relative: float = 0.0
    means: list[float] = field(default_factory=list)
    _finite: int = 0
    _sum: float = 0.0
    _error: float = 0.0
    _signal: float = 0.0
    _other: float = 0.0
    _product: float = 0.0

    def add(self, a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> None:
        """Count the tensors of another run."""
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        self.elements += a.size
        self.different += int(a.size - np.count_nonzero(same))
        finite = np.isfinite(a) & np.isfinite(b)
        if not finite.all():
            for side, array in enumerate((a, b)):
                self.nan[side] += int(np.isnan(array).sum())
                self.infinite[side] += int(np.isinf(array).sum())
            self.unlike += int((~finite & ~same).sum())
            a, b = a[finite], b[finite]
        self._add_finite(a.ravel(), b.ravel())

    def _add_finite(self, a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> None:
        with np.errstate(over="ignore"):  # squares of numbers beyond 1e154 are infinite, and told so
            error = np.abs(a - b)
            self._error += float(error @ error)
            self._signal += float(a @ a)
            self._other += float(b @ b)
            self._product += float(a @ b)
        self._finite += a.size
        self._sum += float(error.sum())
        self.means.append(float(error.mean()) if a.size else 0.0)
        magnitudes = np.abs(a)
        self.magnitude = max(self.magnitude, float(magnitudes.max(initial=0)))
        self.max_abs = max(self.max_abs, float(error.max(initial=0)))
        is_some = magnitudes > 0
        self.max_relative = max(self.max_relative, float((error[is_some] / magnitudes[is_some]).max(initial=0)))

    @property
    def mean_abs(self) -> float:
        """Mean absolute error of all elements of all runs."""
        return self._sum / self._finite if self._finite else 0.0

    @property
    def is_blind(self) -> bool:
        """Whether there are elements, but none that is finite in both."""
        return bool(self.elements) and not self._finite

    @property
    def snr(self) -> float:
        """Signal to noise in dB; infinite without an error."""
        if not self._error:
            return math.inf
        return 10 * math.log10(self._signal / self._error) if self._signal else -math.inf

    @property
    def cosine(self) -> float:
        """Cosine similarity of all elements of all runs; 1 for two zeros, 0 for one."""
        if not self._signal or not self._other:
            return 1.0 if self._signal == self._other else 0.0
        return self._product / math.sqrt(self._signal) / math.sqrt(self._other)

    def is_beyond(self, tolerance: float) -> bool:
        """Say whether the tensors are too far apart.

        Args:
            tolerance: Largest absolute error, as a share of the largest magnitude of the reference;
                0: they have to be equal.
        """
        if self.unlike:
            return True
        if not tolerance:
            return self.different > 0
        return self.max_abs > max(tolerance * self.magnitude, self.step * (1 + 1e-9))  # of steps worked out as real numbers

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON, where what is not finite is null."""
        means = np.array(self.means or [0.0])
        numbers: dict[str, float] = {
            "max_abs": self.max_abs,
            "mean_abs": self.mean_abs,
            "max_relative": self.max_relative,
            "largest_magnitude": self.magnitude,
            "snr_db": self.snr,
            "cosine": self.cosine,
        }
        of_runs = {"minimum": means.min(), "maximum": means.max(), "mean": means.mean(), "deviation": means.std()}
        return {
            "elements": self.elements,
            "different": self.different,
            **_finite(numbers),
            "mean_abs_of_runs": _finite(of_runs),
            "nan": list(self.nan),
            "infinite": list(self.infinite),
            "unlike": self.unlike,
        }


def _finite(numbers: Mapping[str, float]) -> dict[str, float | None]:
    return {name: float(value) if math.isfinite(value) else None for name, value in numbers.items()}
