"""The ways in which the vendor's driver pools and resamples images."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..chips import Chip
from ..program import Pooling, Program, Resize

_LARGEST_AVERAGE = 15
"""Rows and columns of a window that the convolution engine of any chip averages."""
_MOST_WEIGHTS = 48 << 20
"""Of an average on chips without a depthwise mode; 45 million were seen, the shader took 51."""
_TWO_STEPS = 14
"""Side of an image whose average such a chip takes by one multiplication, between permutations."""


class Step(NamedTuple):
    """One of the poolings that the greatest of a window is composed of.

    Attributes:
        size, stride: Of a square window.
        read, written: Rows and columns of the images.
        is_product: The convolution engine does it, in its depthwise mode.
    """

    size: int
    stride: int
    read: tuple[int, int]
    written: tuple[int, int]
    is_product: bool


def averages_by_products(operation: Pooling, program: Program, chip: Chip | None = None) -> bool:
    """Say whether an average is a convolution with equal weights.

    Args:
        operation: Of the program.
        program: What it belongs to.
        chip: Where; default: the one that takes the largest windows.
    """
    largest = _LARGEST_AVERAGE if chip is None else min(_LARGEST_AVERAGE, chip.nn.largest_kernel)
    return (
        operation.function == "average"
        and operation.stride[0] == operation.stride[1] <= 2
        and max(operation.size) <= largest
        and (operation.count_padding or not any(operation.padding))
        and not overruns(operation, program)
        and not (chip is not None and _needs_many_weights(operation, program, chip))
    )


def averages_between_permutations(operation: Pooling, program: Program, chip: Chip) -> bool:
    """Say whether the average of an image is one row of a product, between permutations."""
    return (
        operation.function == "average"
        and not chip.nn.has_depthwise
        and operation.size == (_TWO_STEPS, _TWO_STEPS) == program.tensors[operation.inputs[0]].shape[2:]
        and operation.stride == (1, 1)
        and not any(operation.padding)
    )


def overruns(operation: Pooling, program: Program) -> bool:
    """Say whether the last windows reach beyond the padding, as where sizes are rounded up."""
    read, written = (program.tensors[number].shape[2:] for number in (operation.inputs[0], operation.output))
    padding = operation.padding
    return any(
        (written[axis] - 1) * operation.stride[axis] + operation.size[axis] > read[axis] + padding[axis] + padding[axis + 2]
        for axis in range(2)
    )


def steps_of_maximum(operation: Pooling, program: Program, chip: Chip) -> tuple[Step, ...]:
    """Return the poolings that a maximum is composed of; none: the shader does it.

    A window of 3 with a stride of one adds two pixels to the window behind it, one of 2 adds one.
    Each factor of two of the stride is a window of 2 with this stride, or one of 3 for the last
    pixel of an odd window.
    """
    size, stride = operation.size[0], operation.stride[0]
    halvings = stride.bit_length() - 1
    left = size - 2**halvings
    if operation.size != (size, size) or operation.stride != (stride, stride) or stride != 2**halvings or left < 0:
        return ()
    is_odd = halvings == 1 and left % 2 == 1
    left -= is_odd
    parts = [(3, 1)] * (left // 2) + [(2, 1)] * (left % 2) + ([(3, 2)] if is_odd else [(2, 2)] * halvings)
    return _along(parts or [(1, 1)], operation, program, chip)


def _along(parts: list[tuple[int, int]], operation: Pooling, program: Program, chip: Chip) -> tuple[Step, ...]:
    """Return steps with the sizes of their images."""
    rows, columns = program.tensors[operation.inputs[0]].shape[2:]
    last = program.tensors[operation.output].shape[2:]
    steps: list[Step] = []
    for index, (size, stride) in enumerate(parts):
        after = (last[0], last[1]) if index == len(parts) - 1 else (max(rows // stride, 1), max(columns // stride, 1))
        is_product = (size, stride) == (2, 2) and chip.nn.has_depthwise and rows % 2 == columns % 2 == 0
        steps.append(Step(size, stride, (rows, columns), after, is_product))
        rows, columns = after
    return tuple(steps)


def enlarges_by_products(operation: Resize, program: Program) -> int:
    """Return by what the convolution engine enlarges an image; 0: it is not what resamples.

    Seen for factors of 2, 3, 4, 5, 6 and 8.
    """
    read, written = (program.tensors[number].shape[2:] for number in (operation.inputs[0], operation.output))
    factor = written[0] // read[0]
    is_whole = factor > 1 and written == (read[0] * factor, read[1] * factor)
    return factor if is_whole and operation.mode == "nearest" and not operation.align_corners else 0


def nearest_positions(operation: Resize, size: int, wanted: int) -> npt.NDArray[np.int64]:
    """Return from which element of an axis each result of the nearest pixel comes.

    All engines choose those of the shader, which multiplies floats and truncates.

    Args:
        operation: Says where pixels lie.
        size: Of the axis, before.
        wanted: After.
    """
    corners = int(operation.align_corners and wanted > 1)
    step = np.float32(size - corners) / np.float32(wanted - corners)
    half, rounding = (np.float32(0.5 if added else 0) for added in (operation.half_pixel, operation.align_corners))
    places = (np.arange(wanted, dtype=np.float32) + half) * step + rounding
    return np.minimum(places.astype(np.int64), size - 1)


def skips_pixels(operation: Resize, program: Program) -> bool:
    """Say whether a resampling copies each second pixel of rows and columns, or each third."""
    read, written = (program.tensors[number].shape[2:] for number in (operation.inputs[0], operation.output))
    is_whole = all(size % less == 0 for size, less in zip(read, written, strict=True))
    picks = operation.mode == "nearest" or not operation.half_pixel
    return is_whole and picks and not operation.align_corners


def _needs_many_weights(operation: Pooling, program: Program, chip: Chip) -> bool:
    """Say whether an average has too many weights, nearly all zeros, as a dense convolution."""
    channels = program.tensors[operation.output].shape[1]
    return not chip.nn.has_depthwise and (channels * max(operation.size)) ** 2 > _MOST_WEIGHTS
