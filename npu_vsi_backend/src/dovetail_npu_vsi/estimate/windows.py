"""Pooling, and resampling of images."""

from __future__ import annotations

from ..chips import Chip
from ..engines.landing import layer_of_average
from ..engines.windows import (
    Step,
    averages_between_permutations,
    averages_by_products,
    enlarges_by_products,
    skips_pixels,
    steps_of_maximum,
)
from ..program import Pooling, Program, Resize
from .convolution_engine import by_convolution_engine
from .costs import NOTHING, Cost, Flow, by_shader, by_tensor_processor, cores
from .movement import copy, permutation
from .products import convolution, fully_connected
from .tiles import Shape
from .weights import EQUAL, Statistics

_POOLING_KERNEL = 512
"""Bytes of the kernel that a pooling on the convolution engine has. Fitted."""
_COPYING_BITS = (0.066, 0.5)
"""Of a weight of a kernel that copies pixels: packed to the entropy; as runs of zeros. Fitted."""
_COPYING_HEAD = 600
"""Bytes of such a kernel beside its weights. Fitted."""
_COPYING_DENSITY = 0.05
"""Fitted."""


def pooling(operation: Pooling, program: Program, chip: Chip, flow: Flow) -> Cost:
    """Return the cost of a pooling of one image."""
    _, channels, height, width = program.tensors[operation.inputs[0]].shape
    _, _, rows, columns = program.tensors[operation.output].shape
    read, written = channels * height * width, channels * rows * columns
    if operation.function == "max":
        steps = steps_of_maximum(operation, program, chip)
        return _in_steps(chip, flow, channels, steps) if steps else by_shader(flow, read, written)
    if averages_between_permutations(operation, program, chip):
        return _between_permutations(chip, flow, channels, height * width)
    if averages_by_products(operation, program, chip):
        return convolution(chip, flow._replace(slices=1), layer_of_average(operation, program), EQUAL)
    return by_shader(flow, read, written)


def resampling(operation: Resize, program: Program, chip: Chip, flow: Flow) -> Cost:
    """Return the cost of a resampling of one image."""
    _, channels, height, width = program.tensors[operation.inputs[0]].shape
    _, _, rows, columns = program.tensors[operation.output].shape
    factor = enlarges_by_products(operation, program)
    if factor:
        return _copying(chip, flow, channels, (height, width), factor)
    if skips_pixels(operation, program):
        return copy(chip, flow, channels * rows * columns) * 2
    return by_shader(flow, channels * height * width, channels * rows * columns)


def _in_steps(chip: Chip, flow: Flow, channels: int, steps: tuple[Step, ...]) -> Cost:
    """Return the cost of poolings one after the other, which stay on the chip in slices of rows."""
    total, keeps = NOTHING, chip.keeps_tensors and len(steps) > 1
    for index, step in enumerate(steps):
        read, written = (channels * rows * columns for rows, columns in (step.read, step.written))
        slices = -(-(read + written) // chip.sram_bytes) if keeps else 1
        between = flow._replace(
            read=float(not keeps) if index else flow.read,
            written=float(not keeps) if index < len(steps) - 1 else flow.written,
            slices=slices,
        )
        if step.is_product:
            shape = Shape((channels, *step.read), (channels, *step.read), (1, 1), step.written, 2, is_depthwise=True)
            total += by_convolution_engine(chip, between, shape, _POOLING_KERNEL)
        else:
            total += by_tensor_processor(chip, between, read, written, parts=cores(chip, channels))
    return total


def _between_permutations(chip: Chip, flow: Flow, channels: int, pixels: int) -> Cost:
    one = Flow(flow.bytes_per_cycle)
    return (
        permutation(chip, flow, (1, channels, pixels), (0, 2, 1))
        + fully_connected(chip, one, 1, pixels, channels, Statistics(0.1, 0.0))
        + permutation(chip, flow, (1, 1, channels), (0, 2, 1))
    )


def _copying(chip: Chip, flow: Flow, channels: int, sizes: tuple[int, int], factor: int) -> Cost:
    """Return the cost of copies of each pixel as channels, which are then put between pixels."""
    copies, keeps = channels * factor * factor, chip.keeps_tensors
    bits = _COPYING_BITS[0] if chip.nn.entropy_coded else _COPYING_BITS[1]
    packed = 4 * channels * copies * bits / 8 + _COPYING_HEAD
    is_dense = chip.nn.squares_kernels
    shape = Shape(
        (channels, *sizes),
        (copies, *sizes),
        (2, 2),
        sizes,
        empty_planes=1 - 1 / channels if is_dense else 0.0,
        density=1.0 if is_dense else _COPYING_DENSITY,
    )
    made = copies * sizes[0] * sizes[1]
    last = flow.last(keeps, -(-made // chip.sram_bytes))
    first = by_convolution_engine(chip, flow.first(keeps), shape, packed)
    return first + by_tensor_processor(chip, last, made, made, parts=cores(chip, copies))
