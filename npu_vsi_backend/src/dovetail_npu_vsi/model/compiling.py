"""From a program to commands: what is loaded into which memory, and computed in which pieces."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..chips import Chip
from ..engines import adds_by_products, averages_by_products, blends, nearest_positions
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
    Tensor,
    Weights,
)
from . import arithmetic as numbers
from . import tables
from .commands import (
    ADD,
    AVERAGE_POOL,
    BLEND,
    COMMAND,
    CONVOLVE,
    COPY,
    FILL,
    FILTER,
    MAX_POOL,
    MULTIPLY,
    PICK,
    SOFTMAX,
    SRAM,
    SUM,
    Block,
    Commands,
    Place,
    dense,
)
from .filters import Finish, by_engine, of_layer
from .placement import Plan, place
from .tiling import Window, bands, channel_groups

_NOWHERE = -1
_MAX_ELEMENTS = 1 << 20
"""That one command writes, of those that may be split: some milliseconds."""
_SPLIT = {
    **dict.fromkeys((COPY, FILL, ADD, MULTIPLY, SUM), (0, 1, 2, 3)),
    SOFTMAX: (0, 2),
    **dict.fromkeys((PICK, BLEND), (0, 1)),
}
"""Axes along which commands may be split."""
_CONSTANT_ALIGNMENT = 64


class Compiled(NamedTuple):
    """What a program was compiled to.

    Attributes:
        commands: In order.
        constants: Weights, factors, tables.
        ddr_bytes, sram_bytes: Sizes of the memories.
    """

    commands: Commands
    constants: bytes
    ddr_bytes: int
    sram_bytes: int


def compile_program(program: Program, chip: Chip, report: Callable[[float, str], None]) -> Compiled:
    """Return the commands of a program for a chip.

    Half of the memory on the chip holds tensors, the other half pieces of those in DDR that the
    convolution engine reads.
    """
    room = chip.sram_bytes // 2
    emitter = _Emitter(program, chip, place(program, room))
    for position, operation in enumerate(program.operations):
        report(position / len(program.operations), operation.name)
        with np.errstate(all="ignore"):  # scales may be anything; results saturate
            emitter.emit(position, operation)
    return emitter.compiled()


class _Emitter:
    """Writes the commands of one program."""

    def __init__(self, program: Program, chip: Chip, plan: Plan) -> None:
        self.program = program
        self.chip = chip
        self.plan = plan
        self.sram_bytes = plan.sram_bytes
        self._commands: list[Commands] = []
        self._constants: list[bytes] = []
        self._constant_bytes = 0
        self._position = 0

    def compiled(self) -> Compiled:
        commands = np.array(self._commands, COMMAND) if self._commands else np.zeros(0, COMMAND)
        return Compiled(commands, b"".join(self._constants), self.plan.ddr_bytes, self.sram_bytes)

    def emit(self, position: int, operation: Operation) -> None:
        """Add the commands of one operation."""
        self._position = position
        _EMITTERS[type(operation)](self, operation)

    def tensor(self, number: int) -> Tensor:
        return self.program.tensors[number]

    def block(self, number: int) -> Block:
        """Return where a tensor lies."""
        return dense(self.plan.places[number], self.tensor(number).shape)

    def constant(self, array: npt.NDArray[Any]) -> int:
        """Keep an array among the constants and return its offset."""
        content = np.ascontiguousarray(array).tobytes()
        padding = -len(content) % _CONSTANT_ALIGNMENT
        self._constants.append(content + bytes(padding))
        self._constant_bytes += len(content) + padding
        return self._constant_bytes - len(content) - padding

    def command(self, opcode: int, read: Block, written: Block, **fields: Any) -> None:
        """Add a command; several where one would take long: a run is ended between them alone."""
        axis = next((one for one in _SPLIT.get(opcode, ()) if written.size[one] > 1), None)
        elements = math.prod(written.size)
        if axis is not None and elements > _MAX_ELEMENTS:
            at_once = max(written.size[axis] * _MAX_ELEMENTS // elements, 1)
            for first in range(0, written.size[axis], at_once):
                count = min(at_once, written.size[axis] - first)
                rest = dict(fields)
                if "second" in rest:
                    rest["second"] = rest["second"].part(axis, first, count)
                self.command(opcode, read.part(axis, first, count), written.part(axis, first, count), **rest)
            return
        made = np.zeros((), COMMAND)
        for name in ("weights", "filters", "table", "reals"):
            made[name] = _NOWHERE
        made["opcode"], made["operation"] = opcode, self._position
        made["input"], made["output"] = read.record, written.record
        for name, value in fields.items():
            made[name] = value.record if isinstance(value, Block) else value
        self._commands.append(made)

    def loaded(self, read: Block) -> Block:
        """Return a block in the memory on the chip; one that lies elsewhere is copied there."""
        if read.place.memory == SRAM:
            return read
        target = dense(Place(SRAM, 0, self.plan.sram_bytes), read.size)
        self.sram_bytes = max(self.sram_bytes, self.plan.sram_bytes + int(np.prod(read.size)))
        self.command(COPY, read, target)
        return target

    @property
    def load_room(self) -> int:
        """Bytes on the chip that a piece of a tensor may take."""
        return self.chip.sram_bytes - self.plan.sram_bytes


# --- convolutions and fully connected layers ------------------------------------------------------


def _convolution(emitter: _Emitter, operation: Any) -> None:
    read, written = emitter.block(operation.inputs[0]), emitter.block(operation.output)
    window = Window(operation.weights.values.shape[2:], operation.stride, operation.dilation, operation.padding)
    finish = of_layer(operation, emitter.program, emitter.chip)
    _weighted(emitter, operation, read, written, window, operation.groups, finish)


def _fully_connected(emitter: _Emitter, operation: Any) -> None:
    """A convolution of images of one pixel."""
    (rows, depth), filters = emitter.tensor(operation.inputs[0]).shape, len(operation.weights.values)
    places = emitter.plan.places
    read = dense(places[operation.inputs[0]], (rows, depth, 1, 1))
    written = dense(places[operation.output], (rows, filters, 1, 1))
    _weighted(emitter, operation, read, written, Window((1, 1)), 1, of_layer(operation, emitter.program, emitter.chip))


def _weighted(
    emitter: _Emitter, operation: Any, read: Block, written: Block, window: Window, groups: int, finish: Finish
) -> None:
    weights: Weights = operation.weights
    filters = len(weights.values)
    x, y = emitter.tensor(operation.inputs[0]), emitter.tensor(operation.output)
    fields = {
        "zero": (x.zero_point, 0, y.zero_point),
        "low": operation.low,
        "high": operation.high,
        "value": int(weights.values.dtype == np.int8),
        "kernel": window.size,
        "stride": window.stride,
        "dilation": window.dilation,
        "group_inputs": read.size[1] // groups,
        "group_outputs": filters // groups,
        "weights": emitter.constant(weights.values),
        "filters": emitter.constant(finish.filters),
        **finish.fields,
    }
    for first, count in channel_groups(read, window, groups, filters, emitter.load_room):
        group, last = first // (filters // groups), (first + count - 1) // (filters // groups)
        per_group = read.size[1] // groups
        channels = read.part(1, group * per_group, (last - group + 1) * per_group)
        for band in bands(channels, written, window, emitter.load_room):
            rows = channels.part(2, band.first_row, band.rows)
            loaded = emitter.loaded(rows) if band.fits and band.rows else rows
            emitter.command(
                CONVOLVE,
                loaded,
                written.part(1, first, count).part(2, band.first_result, band.results),
                first_filter=first,
                padding=(band.padding, window.padding[1]),
                **fields,
            )


# --- windows --------------------------------------------------------------------------------------


def _pooling(emitter: _Emitter, operation: Any) -> None:
    read, written = emitter.block(operation.inputs[0]), emitter.block(operation.output)
    window = Window(operation.size, operation.stride, (1, 1), operation.padding)
    x, y = emitter.tensor(operation.inputs[0]), emitter.tensor(operation.output)
    if averages_by_products(operation, emitter.program, emitter.chip):
        means = _as_convolution(operation, read.size[1])
        _weighted(emitter, means, read, written, window, read.size[1], by_engine(means.weights, x, y, emitter.chip))
        return
    fields = {
        "zero": (x.zero_point, 0, y.zero_point),
        "low": operation.low,
        "high": operation.high,
        "kernel": operation.size,
        "stride": operation.stride,
        "dilation": (1, 1),
        "count_padding": int(operation.count_padding),
        "value": int(_truncates(operation)),
        "reals": emitter.constant(np.array([numbers.quotient(x.scale, y.scale)])),
    }
    for band in bands(read, written, window, emitter.load_room):
        rows = read.part(2, band.first_row, band.rows)
        emitter.command(
            MAX_POOL if operation.function == "max" else AVERAGE_POOL,
            emitter.loaded(rows) if band.fits else rows,
            written.part(2, band.first_result, band.results),
            padding=(band.padding, window.padding[1]),
            **fields,
        )


def _as_convolution(operation: Any, channels: int) -> Convolution:
    """Return what the convolution engine makes of an average: weights of 255 that add up to one."""
    taps = operation.size[0] * operation.size[1]
    weights = Weights(
        np.full((channels, 1, *operation.size), 255, np.uint8),
        (float(np.float32(1.0 / (255 * taps))),),
        (0,),
        np.zeros(channels, np.int32),
    )
    return Convolution(
        name=operation.name,
        inputs=operation.inputs,
        output=operation.output,
        weights=weights,
        stride=operation.stride,
        padding=operation.padding,
        dilation=(1, 1),
        groups=channels,
        low=operation.low,
        high=operation.high,
    )


def _truncates(operation: Any) -> bool:
    """Say whether an average is rounded down: a kernel of the shader of its own does so."""
    return (operation.size, operation.stride, operation.padding) == ((3, 3), (1, 1), (1, 1, 1, 1))


def _resampling(emitter: _Emitter, operation: Resize) -> None:
    """Nearest pixels, or exact mixtures of neighbours: the driver refuses others."""
    read, written = emitter.block(operation.inputs[0]), emitter.block(operation.output)
    axes = list(zip(read.size[2:], written.size[2:], strict=True))
    if operation.mode == "bilinear":
        mixed = [blends(operation, *sizes) for sizes in axes]
        table = np.concatenate([array for axis in mixed for array in (axis.first, axis.second, axis.part)])
        sums = [axis.whole for axis in mixed]
        emitter.command(BLEND, read, written, table=emitter.constant(table.astype(np.int32)), kernel=sums)
        return
    positions = [nearest_positions(operation, *sizes) for sizes in axes]
    emitter.command(PICK, read, written, table=emitter.constant(np.concatenate(positions).astype(np.int32)))


# --- elements -------------------------------------------------------------------------------------


def _binary(emitter: _Emitter, operation: Any) -> None:
    written = emitter.block(operation.output)
    reads = [emitter.block(number).repeated(written.size) for number in operation.inputs]
    a, b, y = (emitter.tensor(number) for number in (*operation.inputs, operation.output))
    if adds_by_products(operation, emitter.program):
        _sum_of_products(emitter, operation, reads, written)
        return
    multiplies = operation.function == "multiply"
    sign = -1.0 if operation.function == "subtract" else 1.0
    reals = tables.product_factors(a, b, y) if multiplies else tables.sum_factors(a, b, y, sign)
    emitter.command(
        MULTIPLY if multiplies else ADD,
        reads[0],
        written,
        second=reads[1],
        zero=(a.zero_point, b.zero_point, y.zero_point),
        low=operation.low,
        high=operation.high,
        reals=emitter.constant(reals),
    )


def _sum_of_products(emitter: _Emitter, operation: Any, reads: list[Block], written: Block) -> None:
    """A sum as a convolution of two channels, both read with the first's zero point."""
    a, b, y = (emitter.tensor(number) for number in (*operation.inputs, operation.output))
    made = numbers.weights_of_sum(a, b, -1 if operation.function == "subtract" else 1)
    scaled = numbers.factor(numbers.product_ratio(a.scale, made.scale, y.scale), emitter.chip.fraction_bits)
    finish = np.zeros(1, FILTER)
    finish["bias"], finish["mantissa"], finish["shift"] = made.bias, scaled.mantissa, scaled.shift
    emitter.command(
        SUM,
        reads[0],
        written,
        second=reads[1],
        zero=(a.zero_point, a.zero_point, y.zero_point),
        low=operation.low,
        high=operation.high,
        kernel=(made.first, made.second),
        filters=emitter.constant(finish),
    )


def _function(emitter: _Emitter, operation: Any) -> None:
    x, y = emitter.tensor(operation.inputs[0]), emitter.tensor(operation.output)
    table = tables.function(operation, x, y)
    _copied(emitter, emitter.block(operation.inputs[0]), emitter.block(operation.output), table)


def _requantize(emitter: _Emitter, operation: Any) -> None:
    x, y = emitter.tensor(operation.inputs[0]), emitter.tensor(operation.output)
    table = tables.requantized(x, y, operation.low, operation.high)
    _copied(emitter, emitter.block(operation.inputs[0]), emitter.block(operation.output), table)


def _softmax(emitter: _Emitter, operation: Any) -> None:
    x, y = emitter.tensor(operation.inputs[0]), emitter.tensor(operation.output)
    axis, shape = operation.axis, x.shape
    split = (int(np.prod(shape[:axis])), shape[axis], int(np.prod(shape[axis + 1 :])), 1)
    emitter.command(
        SOFTMAX,
        dense(emitter.plan.places[operation.inputs[0]], split),
        dense(emitter.plan.places[operation.output], split),
        zero=(x.zero_point, 0, y.zero_point),
        high=255,
        table=emitter.constant(tables.exponentials(x, operation.beta)),
        reals=emitter.constant(np.array([float(np.float32(y.scale))])),
    )


# --- movement -------------------------------------------------------------------------------------


def _copied(emitter: _Emitter, read: Block, written: Block, table: npt.NDArray[np.uint8] | None = None) -> None:
    offset = _NOWHERE if table is None else emitter.constant(table)
    emitter.command(COPY, read, written, table=offset)


def _reshape(emitter: _Emitter, operation: Any) -> None:
    """Nothing where both lie in the same place; else a copy."""
    read, written = emitter.plan.places[operation.inputs[0]], emitter.plan.places[operation.output]
    if read != written:
        shape = (emitter.tensor(operation.output).elements,)
        _copied(emitter, dense(read, shape), dense(written, shape))


def _permute(emitter: _Emitter, operation: Any) -> None:
    read, written = emitter.tensor(operation.inputs[0]), emitter.tensor(operation.output)
    order = operation.order
    lead = 4 - len(order)
    order = (*range(lead), *(axis + lead for axis in order))
    source = dense(emitter.plan.places[operation.inputs[0]], read.shape)
    _copied(emitter, source.permuted(order), dense(emitter.plan.places[operation.output], written.shape))


def _concat(emitter: _Emitter, operation: Any) -> None:
    y, written = emitter.tensor(operation.output), emitter.block(operation.output)
    axis, first = operation.axis + 4 - len(y.shape), 0
    for number in operation.inputs:
        x, read = emitter.tensor(number), emitter.block(number)
        same = (x.scale, x.zero_point) == (y.scale, y.zero_point)
        table = None if same else tables.requantized(x, y, *y.limits)
        _copied(emitter, read, written.part(axis, first, read.size[axis]), table)
        first += read.size[axis]


def _pad(emitter: _Emitter, operation: Any) -> None:
    read, written = emitter.block(operation.inputs[0]), emitter.block(operation.output)
    emitter.command(FILL, written, written, value=operation.value)
    lead = 4 - len(operation.before)
    inner = written
    for axis, before in enumerate(operation.before):
        inner = inner.part(axis + lead, before, read.size[axis + lead])
    _copied(emitter, read, inner)


_EMITTERS: dict[type[Operation], Callable[[_Emitter, Any], None]] = {
    Convolution: _convolution,
    FullyConnected: _fully_connected,
    Pooling: _pooling,
    Binary: _binary,
    Function: _function,
    Requantize: _requantize,
    Softmax: _softmax,
    Concat: _concat,
    Pad: _pad,
    Permute: _permute,
    Reshape: _reshape,
    Resize: _resampling,
}
