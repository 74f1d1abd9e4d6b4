"""How the shader sums what it multiplies: some products exactly, and what these make in a float.

Found by comparing results with the simulator's whose sums pass 2^24, where floats begin to round:
the order decides then. Below that it does not, and sums of integers are the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..engines import is_lopsided, reads_all_channels
from ..program import Convolution, FullyConnected, Program, Weights

_EXACT = 1 << 24  # integers up to it are floats
_AT_ONCE, _AT_ONCE_OF_A_ROW, _AT_ONCE_OF_A_WINDOW = 16, 32, 5


class FloatSums(NamedTuple):
    """How the sums of a layer with a scale for each channel are made, in the order of its weights.

    Attributes:
        chunk: Products that are summed exactly before they join a float; zeros that the driver puts
            between weights for a dilation count too.
        is_by_rows: A row of a window begins a chunk.
        lift: What elements less their zero point are raised by.
        is_across: Chunks count from the first channel of the image, not of the group.
        start: What each filter's sum begins with.
    """

    chunk: int
    is_by_rows: bool
    lift: int
    is_across: bool
    start: npt.NDArray[np.int64]


def float_sums(operation: Convolution | FullyConnected, program: Program) -> FloatSums | None:
    """Return how the shader sums, or None where no sum can be rounded."""
    weights, x = operation.weights, program.tensors[operation.inputs[0]]
    made = _of_convolution(operation, program) if isinstance(operation, Convolution) else _of_rows(weights)
    return None if _is_exact(weights, made, x.zero_point) else made


def _of_rows(weights: Weights) -> FloatSums:
    return FloatSums(_AT_ONCE_OF_A_ROW, False, 0, False, weights.bias.astype(np.int64))


def _of_convolution(operation: Convolution, program: Program) -> FloatSums:
    weights, x = operation.weights, program.tensors[operation.inputs[0]]
    bias, zero = weights.bias.astype(np.int64), x.zero_point * _sums(_centered(weights))
    is_across = reads_all_channels(operation, x)
    if is_across or not operation.is_depthwise:
        start = (bias - zero).astype(np.int32).astype(np.int64)
        return FloatSums(_AT_ONCE, False, x.zero_point, is_across, start)
    # 3x3 has a kernel of its own, without border; one that differs by side is added before.
    has_border = any(operation.padding) and not is_lopsided(operation, operation.padding)
    is_dilated = max(operation.dilation) > 1
    if weights.values.shape[2:] == (3, 3) and operation.stride in ((1, 1), (2, 2)) and not has_border and not is_dilated:
        joined = bias.astype(np.float32) - zero.astype(np.float32)
        return FloatSums(_AT_ONCE, False, x.zero_point, False, joined.astype(np.int64))
    return FloatSums(_AT_ONCE_OF_A_WINDOW, True, 0, False, bias)


def _is_exact(weights: Weights, sums: FloatSums, zero_point: int) -> bool:
    """Say whether every sum on the way is an integer that floats have."""
    values, least = _centered(weights), sums.lift - zero_point
    positive, negative, most = _sums(np.maximum(values, 0)), _sums(np.minimum(values, 0)), least + 255
    up, down = positive * most + negative * least, -positive * least - negative * most
    bias, zero = np.abs(weights.bias.astype(np.int64)), np.abs(zero_point * (positive + negative))
    return bool(np.max([sums.start + up, down - sums.start, bias, zero], initial=0) <= _EXACT)


def _centered(weights: Weights) -> npt.NDArray[np.int32]:
    zeros = np.reshape(weights.zero_point, (-1, *[1] * (weights.values.ndim - 1)))
    return np.asarray(weights.values.astype(np.int32) - zeros.astype(np.int32))


def _sums(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return np.asarray(values.reshape(len(values), -1).sum(axis=1, dtype=np.int64))
