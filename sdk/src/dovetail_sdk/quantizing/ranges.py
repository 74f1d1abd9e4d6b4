"""Ranges of tensors, seen while a network ran, and the scales that these give."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail import DType, Quantization

BINS = 2048
"""Of a histogram: eight for each step of 8 bits."""

_SHRINKING = np.linspace(0.2, 1.0, 81)
"""Shares of the whole range among which the least squares are looked for."""


class Calibration(StrEnum):
    """How a range is chosen."""

    MINMAX = "minmax"
    """All that was seen."""
    PERCENTILE = "percentile"
    """Without the farthest elements on either side."""
    MSE = "mse"
    """That of the least squared error of rounding and clipping."""


@dataclass(slots=True)
class Range:
    """What was seen of a tensor; zero always counts as seen.

    Attributes:
        low, high: Extremes of the finite elements.
        counts: Elements by equal parts of low to high, once `count` was called.
    """

    low: float = 0.0
    high: float = 0.0
    counts: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(BINS))

    def widen(self, values: npt.NDArray[Any]) -> None:
        """Take in the extremes of a tensor."""
        finite = values if np.isfinite(values).all() else values[np.isfinite(values)]
        if finite.size:
            self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))

    def count(self, values: npt.NDArray[Any]) -> None:
        """Add a tensor to the histogram; the extremes must be known."""
        if self.high > self.low:
            finite = values[np.isfinite(values)]
            self.counts += np.histogram(finite, BINS, (self.low, self.high))[0]

    def chosen(self, calibration: Calibration, percentile: float, levels: int) -> tuple[float, float]:
        """Choose what is to be represented; it holds zero.

        Args:
            calibration: How.
            percentile: Share of the elements in percent that is kept, for `PERCENTILE`.
            levels: Steps between the ends.
        """
        if calibration is Calibration.MINMAX or not self.counts.any():
            return self.low, self.high
        if calibration is Calibration.PERCENTILE:
            return self._percentile(percentile)
        return self._least_squares(levels)

    def _percentile(self, percentile: float) -> tuple[float, float]:
        share = np.concatenate([[0.0], np.cumsum(self.counts) / self.counts.sum()])
        edges = np.linspace(self.low, self.high, BINS + 1)
        left_out = (1 - percentile / 100) / 2
        low, high = np.interp([left_out, 1 - left_out], share, edges)
        return min(float(low), 0.0), max(float(high), 0.0)

    def _least_squares(self, levels: int) -> tuple[float, float]:
        width = (self.high - self.low) / BINS
        centers = self.low + width * (np.arange(BINS) + 0.5)
        best, least = (self.low, self.high), math.inf
        for share in _SHRINKING[::-1]:
            # One side alone or both, as a range may be skewed.
            for low, high in (
                (self.low * share, self.high),
                (self.low, self.high * share),
                (self.low * share, self.high * share),
            ):
                step = (high - low) / levels
                if step <= 0:
                    continue
                # Rounding errors are uniform within a step, where a bin may be wider than one.
                beyond = np.maximum(low - centers, 0.0) + np.maximum(centers - high, 0.0)
                error = float(self.counts @ np.where(beyond > 0, beyond**2, step**2 / 12))
                if error < least:
                    best, least = (low, high), error
        return best


def quantization_of(low: float, high: float, dtype: DType) -> Quantization:
    """Return the quantization of a range, in which zero is exact.

    It is asymmetric, unless it has 16 bits: TensorFlow Lite's have no zero point.

    Args:
        low: At most zero.
        high: At least zero.
        dtype: An integer type.
    """
    least, most = dtype.limits
    scale = _float32((high - low) / (most - least))
    if not scale:  # nothing but zeros was seen
        return Quantization.per_tensor(1.0, 0 if least < 0 else (least + most + 1) // 2)
    if dtype is DType.INT16:
        return Quantization.per_tensor(_float32(max(-low, high) / most))
    return Quantization.per_tensor(scale, int(np.clip(round(least - low / scale), least, most)))


def weight_scales(weights: npt.NDArray[Any], axis: int, floor: npt.NDArray[np.float64]) -> Quantization:
    """Return the symmetric scales of weights, one for each filter, that use -127 to 127.

    Args:
        weights: Real numbers.
        axis: What counts the filters.
        floor: Least scale of each filter.
    """
    others = tuple(other for other in range(weights.ndim) if other != axis)
    scales = np.maximum(np.abs(weights).max(axis=others).astype(np.float64) / 127, floor)
    # A filter of zeros may have any scale: that of the others, so that its bias has fine steps.
    scales[scales < np.finfo(np.float32).tiny] = scales.max(initial=0.0) or 1.0
    return Quantization.per_axis([_float32(scale) for scale in scales], axis=axis)


def rounded(values: npt.NDArray[Any], quantization: Quantization, dtype: DType) -> npt.NDArray[Any]:
    """Return the integers that are nearest to real numbers, ties to even, without a zero point."""
    shape = [1] * values.ndim
    if quantization.axis is not None:
        shape[quantization.axis] = -1
    steps = values.astype(np.float64) / np.asarray(quantization.scale).reshape(shape)
    least, most = dtype.limits
    return np.asarray(np.clip(np.rint(steps), max(least, -most), most).astype(dtype.numpy))


def _float32(scale: float) -> float:
    """Round to what a model file holds, up, so that nothing is clipped."""
    nearest = np.float32(scale)
    return float(nearest if nearest >= scale else np.nextafter(nearest, np.float32(np.inf)))
