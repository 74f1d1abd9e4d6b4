"""What is said about outputs and times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class ArraySummary:
    """Extremes and mean of the finite elements; None if there are none."""

    minimum: float | None
    mean: float | None
    maximum: float | None
    not_finite: int


def summary_of(array: npt.NDArray[Any], *, bfloat16: bool = False) -> ArraySummary:
    """Summarize an output; `bfloat16` says that uint16 holds bits of bfloat16."""
    values = as_real(array, bfloat16=bfloat16)
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return ArraySummary(None, None, None, values.size)
    return ArraySummary(float(finite.min()), float(finite.mean()), float(finite.max()), values.size - finite.size)


def as_real(array: npt.NDArray[Any], *, bfloat16: bool = False) -> npt.NDArray[np.float64]:
    """Return the values of an output as float64."""
    if bfloat16 and array.dtype == np.uint16:
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return np.asarray(array, np.float64)


def top_classes(row: npt.NDArray[Any], count: int) -> list[tuple[int, float]]:
    """Return index and value of the largest elements, largest first.

    Ties go by index; what is not a number comes last.
    """
    keys = np.where(np.isnan(row), -np.inf, row)
    order = np.argsort(-keys, kind="stable")[:count]
    return [(int(index), float(row[index])) for index in order]


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of repeated runs, in seconds.

    Percentiles between two runs are interpolated.
    """

    minimum: float
    median: float
    p90: float
    p95: float
    p99: float
    mean: float
    maximum: float
    count: int

    @classmethod
    def of(cls, seconds: Sequence[float] | npt.NDArray[np.float64]) -> Timing:
        """Summarize measured times.

        Raises:
            ValueError: There are none.
        """
        times = np.asarray(seconds, np.float64)
        if times.size == 0:
            raise ValueError("nothing was measured")
        median, p90, p95, p99 = (float(one) for one in np.percentile(times, [50, 90, 95, 99]))
        return cls(float(times.min()), median, p90, p95, p99, float(times.mean()), float(times.max()), times.size)
