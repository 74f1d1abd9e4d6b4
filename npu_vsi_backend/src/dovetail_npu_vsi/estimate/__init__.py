"""Estimates of the cycles and the traffic of a program: what the vendor's driver would print.

No silicon was measured. The driver (ovxlib 1.2.30, driver CL769531) prints cycles and bytes of each
operation that it compiles; formulas and constants here were found from what it printed for some
1,000 layers on each chip, and `benchmarks/npu_estimates.py` compares with others. Each image of a
batch is taken to cost the same. See `costs` for what the driver counts too low or too high.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ..chips import Chip
from ..engines import Landing, landing
from ..engines.convolutions import Way, layer_of, way_of
from ..engines.folding import border_of, follower
from ..engines.landing import TABLES, needs_clamp
from ..engines.pairs import adds_by_products, swish_of
from ..program import (
    Binary,
    Concat,
    Convolution,
    FullyConnected,
    Function,
    Operation,
    Pad,
    Permute,
    Pooling,
    Program,
    Requantize,
    Reshape,
    Resize,
    Softmax,
    Weights,
)
from .chaining import flows
from .costs import NOTHING, Cost, Flow, by_shader
from .movement import border, channels_of, concatenation, copy, reordering, table
from .products import addition, by_windows, convolution, fully_connected, pooled
from .weights import EQUAL, Statistics, statistics
from .windows import pooling, resampling


class Estimate(NamedTuple):
    """Of one operation.

    Attributes:
        engine: Of `engines.Landing`; empty for what takes no time.
        cycles: Of the NPU.
        bytes_read, bytes_written: Of external memory.
        macs: Products that are summed up, zeros included.
        reason, remedy: Of `engines.Landing`.
    """

    engine: str
    cycles: int
    bytes_read: int
    bytes_written: int
    macs: int
    reason: str
    remedy: str


def estimates(program: Program, chip: Chip, bytes_per_cycle: float) -> tuple[Estimate, ...]:
    """Return an estimate for each operation of a program.

    Args:
        program: What is estimated.
        chip: Where it would run.
        bytes_per_cycle: What external memory gives, which reads and writes share; 0: what the
            vendor's driver supposes. More than the chip's bus has no effect.
    """
    bandwidth = min(bytes_per_cycle or chip.bytes_per_cycle, chip.bus_bytes_per_cycle)
    places = flows(program, chip, bandwidth)
    rows = []
    for operation in program.operations:
        landed = landing(operation, program, chip)
        cost = cost_of(operation, program, chip, places[operation], landed) if operation in places else NOTHING
        read, written = round(cost.read), round(cost.written)
        macs = _macs(operation, program)
        rows.append(Estimate(landed.engine, round(cost.cycles), read, written, macs, landed.reason, landed.remedy))
    return tuple(rows)


def cost_of(operation: Operation, program: Program, chip: Chip, flow: Flow, landed: Landing) -> Cost:
    """Return the cost of an operation that is not folded into another."""
    if not needs_clamp(operation, landed, program):
        return _COSTS[type(operation)](operation, program, chip, flow)
    tensor = program.tensors[operation.output]
    between = float(not (chip.keeps_tensors and tensor.nbytes <= chip.sram_bytes))
    cost = _COSTS[type(operation)](operation, program, chip, flow._replace(written=between))
    return cost + table(chip, flow._replace(read=between), tensor.elements, channels_of(tensor.shape))


def _of_convolution(operation: Convolution, program: Program, chip: Chip, flow: Flow) -> Cost:
    layer = layer_of(operation, program)
    images = program.tensors[operation.inputs[0]].shape[0]
    way = way_of(layer, chip)
    if way is Way.SHADER:
        return by_windows(chip, flow, layer) * _repeats(operation, images)
    padding = border_of(operation, program, chip)
    if padding is not None:
        _, _, height, width = program.tensors[padding.inputs[0]].shape
        layer = layer._replace(height=height, width=width)
    found = _statistics(operation.weights)
    if isinstance(follower(operation, program, chip), Pooling):
        return pooled(chip, flow, layer, found) * images
    return convolution(chip, flow, layer, found) * _repeats(operation, images)


def _repeats(operation: Convolution, images: int) -> int:
    """Return how often a convolution is done, for images and groups."""
    return images if operation.is_depthwise else images * operation.groups


def _of_rows(operation: FullyConnected, program: Program, chip: Chip, flow: Flow) -> Cost:
    outputs, inputs = operation.weights.values.shape
    rows = program.tensors[operation.inputs[0]].shape[0]
    found = None if operation.weights.is_per_channel else _statistics(operation.weights)
    return fully_connected(chip, flow, rows, inputs, outputs, found)


def _of_pairs(operation: Binary, program: Program, chip: Chip, flow: Flow) -> Cost:
    shape = program.tensors[operation.output].shape
    elements = program.tensors[operation.output].elements
    if swish_of(operation, program) is not None:
        return table(chip, flow, elements, channels_of(shape))
    if not adds_by_products(operation, program):
        return by_shader(flow, program.tensors[operation.inputs[0]].elements, elements)
    *outer, channels, height, width = (1, 1, 1, *shape)
    return addition(chip, flow, channels, height, width) * math.prod(outer)


def _of_windows(operation: Pooling, program: Program, chip: Chip, flow: Flow) -> Cost:
    return pooling(operation, program, chip, flow) * program.tensors[operation.output].shape[0]


def _of_resampling(operation: Resize, program: Program, chip: Chip, flow: Flow) -> Cost:
    return resampling(operation, program, chip, flow) * program.tensors[operation.output].shape[0]


def _of_function(operation: Function, program: Program, chip: Chip, flow: Flow) -> Cost:
    tensor = program.tensors[operation.output]
    if operation.function not in TABLES:
        return by_shader(flow, tensor.elements, tensor.elements)
    return table(chip, flow, tensor.elements, channels_of(tensor.shape))


def _of_copy(operation: Requantize | Reshape, program: Program, chip: Chip, flow: Flow) -> Cost:
    return copy(chip, flow, program.tensors[operation.output].elements)


def _of_softmax(operation: Softmax, program: Program, chip: Chip, flow: Flow) -> Cost:
    elements = program.tensors[operation.output].elements
    return by_shader(flow, elements, elements)


_COSTS: dict[type[Operation], Callable[[Any, Program, Chip, Flow], Cost]] = {
    Binary: _of_pairs,
    Concat: concatenation,
    Convolution: _of_convolution,
    FullyConnected: _of_rows,
    Function: _of_function,
    Pad: border,
    Permute: reordering,
    Pooling: _of_windows,
    Requantize: _of_copy,
    Reshape: _of_copy,
    Resize: _of_resampling,
    Softmax: _of_softmax,
}


def _statistics(weights: Weights) -> Statistics:
    return statistics(weights) if weights.values.size else EQUAL


def _macs(operation: Operation, program: Program) -> int:
    """Return the products of a convolution or fully connected layer; others have none."""
    if not isinstance(operation, Convolution | FullyConnected):
        return 0
    return program.tensors[operation.output].elements * math.prod(operation.weights.values.shape[1:])
