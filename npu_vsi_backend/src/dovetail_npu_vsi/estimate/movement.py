"""What moves elements, and functions of one element: the tensor processor, mostly."""

from __future__ import annotations

import math

from ..chips import Chip
from ..engines import TP
from ..engines.folding import copies_of_input
from ..program import Concat, Pad, Permute, Program
from .costs import NOTHING, Cost, Flow, by_shader, by_tensor_processor, cores

PERMUTATION_OVERHEAD = 256
"""Cycles of each part of a permutation beyond those of a copy."""
_FEW = 200
"""Elements from which on a copy is shared by all cores."""
_SMALL = 2048
"""Elements up to which a table takes a time of its own."""
_SMALL_OVERHEAD = 1512
_STRIP = 32
"""Columns of a part of a permutation."""
_MANY_ROWS = 8192
"""Rows beyond which a permutation is one part: 7,168 were seen in several, 8,960 in one."""
_COMMAND_BYTES = 640


def copy(chip: Chip, flow: Flow, elements: int) -> Cost:
    """Return the cost of a copy, or of a conversion to another scale."""
    return by_tensor_processor(chip, flow, elements, elements, parts=chip.tp_cores if elements >= _FEW else 1)


def table(chip: Chip, flow: Flow, elements: int, channels: int) -> Cost:
    """Return the cost of a function of one element by a table."""
    if elements > _SMALL:
        return by_tensor_processor(chip, flow, elements, elements, parts=cores(chip, channels))
    parts = chip.tp_cores if channels >= chip.tp_cores else 1
    cycles = parts * (_SMALL_OVERHEAD + elements / chip.tp_cores)
    return Cost(cycles, parts * (_COMMAND_BYTES + elements * flow.read), parts * elements * flow.written, (TP,))


def concatenation(operation: Concat, program: Program, chip: Chip, flow: Flow) -> Cost:
    """Return the cost of copying those inputs of a concatenation that are not written in place."""
    total = NOTHING
    for number in operation.inputs:
        elements, count = program.tensors[number].elements, copies_of_input(operation, number, program, chip)
        keeps = chip.keeps_tensors and elements <= chip.sram_bytes
        if count == 1:
            total += copy(chip, flow, elements)
        elif count == 2:
            total += copy(chip, flow.first(keeps), elements) + copy(chip, flow.last(keeps), elements)
    return total


def border(operation: Pad, program: Program, chip: Chip, flow: Flow) -> Cost:
    """Return the cost of a padding: the tensor processor adds rows and columns."""
    read, written = (program.tensors[number].elements for number in (operation.inputs[0], operation.output))
    if any((*operation.before[:-2], *operation.after[:-2])):
        return by_shader(flow, read, written)
    shape = program.tensors[operation.output].shape
    return by_tensor_processor(chip, flow, read, written, parts=cores(chip, channels_of(shape)))


def reordering(operation: Permute, program: Program, chip: Chip, flow: Flow) -> Cost:
    """Return the cost of a permutation of axes, those of size one left out."""
    shape = program.tensors[operation.inputs[0]].shape
    axes = [axis for axis in range(len(shape)) if shape[axis] > 1]
    order = [axes.index(axis) for axis in operation.order if axis in axes]
    missing = max(3 - len(axes), 0)
    sizes = [*(1,) * missing, *(shape[axis] for axis in axes)]
    return permutation(chip, flow, tuple(sizes), (*range(missing), *(axis + missing for axis in order)))


def permutation(chip: Chip, flow: Flow, shape: tuple[int, ...], order: tuple[int, ...]) -> Cost:
    """Return the cost of a permutation: axis i of the result is axis order[i] of a tensor."""
    elements = math.prod(shape)
    if order == tuple(range(len(shape))):
        return copy(chip, flow, elements)
    parts = _parts(chip, shape[-3:], tuple(axis - len(shape) + 3 for axis in order[-3:]))
    return by_tensor_processor(chip, flow, elements, elements, parts=parts, extra_overhead=PERMUTATION_OVERHEAD)


def channels_of(shape: tuple[int, ...]) -> int:
    """Return how many planes of rows and columns an image has; one if it has fewer axes."""
    return shape[-3] if len(shape) > 2 else 1


def _parts(chip: Chip, shape: tuple[int, ...], order: tuple[int, ...]) -> int:
    """Return in how many parts the last three axes are permuted."""
    channels, height, width = shape
    turns = order == (0, 2, 1)
    if order == (1, 0, 2):  # rows and channels change places, and columns stay runs
        return 1
    if not chip.tp.cuts_permutations:
        return cores(chip, channels) if turns and channels > 1 else 1
    if channels * height > _MANY_ROWS:
        return 1
    return cores(chip, channels if turns else height) * 2 * -(-width // _STRIP)
