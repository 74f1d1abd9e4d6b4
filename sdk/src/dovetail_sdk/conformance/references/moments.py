"""Mean and variance of rows, what they normalize, float32's error; cases of such layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dovetail import Descriptor, DType

from ..cases import Array, Case, Feed, Parameters, Tolerance
from . import samples
from .precision import SMALLEST_NORMAL, UNIT
from .single_layer import layer_case
from .tolerances import gamma

_DTYPES = ("same", None, "float32", "float64", "float16", "bfloat16")

SCALED: Mapping[str, Sequence[Any]] = {
    "epsilon": (1e-5, 1e-3, 0.5),
    "scale dtype": _DTYPES,
    "offset dtype": _DTYPES,
    "constant": (True, False),
}
"""Parameters of a normalization that scales and shifts its result."""

SCALED_QUANTITIES: Mapping[str, str] = {
    "scale.dtype": "scale dtype",
    "offset.dtype": "offset dtype",
    "scale.constant": "constant",
    "offset.constant": "constant",
}


def normalized(rows: Array, epsilon: float, center: bool = True) -> Array:
    """Subtract the mean of the last axis and divide by sqrt(variance + epsilon); float64."""
    if not rows.size:
        return rows
    middle = np.mean(rows, -1, keepdims=True) if center else np.zeros((*rows.shape[:-1], 1))
    away = rows - middle
    return np.asarray(away / np.sqrt(np.mean(away * away, -1, keepdims=True) + epsilon))


def tolerance(rows: Array, epsilon: float, scale: float, offset: float, dtype: DType, center: bool = True) -> Tolerance:
    """Bound the error of rows normalized in float32, two passes or one, then scaled and shifted.

    Args:
        rows: What is normalized, [..., n], float64.
        epsilon: Added to the variance.
        scale: Largest |scale|.
        offset: Largest |offset|.
        dtype: Of the result.
        center: False if the mean is not subtracted.
    """
    if not rows.size:
        return Tolerance(UNIT[dtype], 0.0, "there are no elements")
    count = rows.shape[-1]
    middle = np.mean(rows, -1, keepdims=True) if center else np.zeros((*rows.shape[:-1], 1))
    away = rows - middle
    variance = np.mean(away * away, -1) + epsilon
    deviation = np.sqrt(variance)
    farthest = np.max(np.abs(away), -1)
    mean_error = gamma(count + 1, dtype) * np.mean(np.abs(rows), -1) * center
    # E(x^2) - mean^2 is the coarser way: both terms round, relative to E(x^2).
    squares_error = 2 * gamma(count + 4, dtype) * np.mean(rows * rows, -1)
    from_mean = (mean_error + gamma(1, dtype) * farthest) / deviation
    from_variance = farthest / deviation * (squares_error / (2 * variance) + gamma(6, dtype))
    absolute = scale * float(np.max(from_mean + from_variance)) + gamma(3, dtype) * offset
    reason = (
        f"mean of {count}: gamma_{count + 1} * mean |x|; variance: 2 gamma_{count + 4} * mean x^2, halved by the root; root "
        f"and quotient 6 roundings; scale and offset 3; one unit for the result"
    )
    return Tolerance(UNIT[dtype], absolute + SMALLEST_NORMAL[dtype], reason)


def parameter(
    label: str | None, count: tuple[int, ...], low: float, high: float, constant: bool, rng: np.random.Generator
) -> tuple[Feed | None, Array | None]:
    """Make a float operand of its own type and its float64 values; None twice for a missing one."""
    if label is None:
        return None, None
    dtype = DType.of(label)
    value = samples.uniform(dtype, count, rng, low, high)
    return Feed(value, constant, dtype), samples.reals(value, dtype)


def own_or(label: str | None, dtype: DType) -> str | None:
    """Resolve "same" to the element type of the input."""
    return dtype.label if label == "same" else label


def largest(values: Array | None, missing: float) -> float:
    """Return the largest magnitude of a parameter; that of a missing one."""
    return missing if values is None else float(np.max(np.abs(values), initial=0.0))


def normalized_case(
    descriptor: Descriptor,
    x: Array,
    rows: Array,
    restored: Callable[[Array], Array],
    operand: tuple[tuple[int, ...], tuple[int, ...]],
    parameters: Parameters,
    dtype: DType,
    rng: np.random.Generator,
    *,
    center: bool = True,
) -> Case:
    """Make a case of a layer that normalizes rows and then scales and shifts them.

    Args:
        descriptor: The layer.
        x: Its input.
        rows: The input's values, [..., n], float64: what shares one mean and variance is a row.
        restored: Puts rows back to where their elements stand in the input.
        operand: Shape of scale and offset, and the shape in which they broadcast to the input.
        parameters: Those of `SCALED`.
        dtype: Of the input.
        rng: For scale and offset.
        center: False if the mean is not subtracted.
    """
    own, column = operand
    constant, epsilon = parameters["constant"], parameters["epsilon"]
    scale_feed, scale = parameter(own_or(parameters["scale dtype"], dtype), own, 0.5, 2.0, constant, rng)
    offset_feed, offset = parameter(own_or(parameters["offset dtype"], dtype), own, -2.0, 2.0, constant, rng)
    expected = restored(normalized(rows, epsilon, center)) * (1.0 if scale is None else scale.reshape(column))
    expected = expected + (0.0 if offset is None else offset.reshape(column))
    bound = tolerance(rows, epsilon, largest(scale, 1.0), largest(offset, 0.0), dtype, center)
    return layer_case(descriptor, [Feed(x, dtype=dtype), scale_feed, offset_feed], expected, tolerance=bound)
