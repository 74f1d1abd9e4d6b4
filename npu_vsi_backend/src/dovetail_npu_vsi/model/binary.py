"""What the model's compiler writes, and how it is read: nothing in a file is believed unchecked.

A binary is a head of fixed size, facts as JSON, commands, constants.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..chips import Chip, chip_of
from ..errors import VsiError
from .commands import (
    ADD,
    AVERAGE_POOL,
    AXES,
    BLEND,
    COMMAND,
    CONSTANTS,
    CONVOLVE,
    COPY,
    DDR,
    FILTER,
    INPUT,
    MAX_POOL,
    MEMORIES,
    MULTIPLY,
    OPCODES,
    OUTPUT,
    PICK,
    SOFTMAX,
    SRAM,
    SUM,
    Commands,
    extent,
)

MAGIC = b"dovetail vsi model 4\n"
_DIGEST = 32
_LENGTHS = 3
_HEAD = len(MAGIC) + _DIGEST + 8 * _LENGTHS
_MAX_BYTES = 1 << 34
"""Of a memory."""
PAIRS = (ADD, MULTIPLY, SUM)
"""Operations of two tensors."""
_MAX_WHOLE = 1 << 10
"""Sum of the weights along an axis of a mixture: sums of products with bytes have 31 bits."""
_MAX_WINDOW = 1 << 20
"""Of rows, columns, strides and the like."""


class Operand(NamedTuple):
    """An input or output: bytes in row-major order.

    Attributes:
        shape: Sizes.
        scale, zero_point: Of its elements, uint8.
    """

    shape: tuple[int, ...]
    scale: float
    zero_point: int

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return int(np.prod(self.shape, dtype=np.int64))


class Binary(NamedTuple):
    """A compiled program.

    Attributes:
        chip: Target id of the chip that it is for.
        inputs, outputs: In order.
        ddr_bytes, sram_bytes: Sizes of the memories.
        commands, constants: See `Compiled`.
    """

    chip: int
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    ddr_bytes: int
    sram_bytes: int
    commands: Commands
    constants: bytes


def to_bytes(binary: Binary) -> bytes:
    """Return a program as bytes."""
    facts = {
        "chip": binary.chip,
        "inputs": [list(one) for one in binary.inputs],
        "outputs": [list(one) for one in binary.outputs],
        "ddr_bytes": binary.ddr_bytes,
        "sram_bytes": binary.sram_bytes,
    }
    parts = (json.dumps(facts).encode(), binary.commands.tobytes(), binary.constants)
    lengths = b"".join(len(part).to_bytes(8, "little") for part in parts)
    body = lengths + b"".join(parts)
    return MAGIC + hashlib.sha256(body).digest() + body


def from_bytes(content: bytes, chip: Chip) -> Binary:
    """Read a program that is to run on a chip.

    Raises:
        VsiError: It is no binary of the model, is damaged, is for another chip, or has a command
            that leaves its memory.
    """
    if not content.startswith(MAGIC):
        raise _damaged(f"it begins with {content[:8]!r}, expected {MAGIC[:8]!r}")
    if len(content) < _HEAD or hashlib.sha256(content[len(MAGIC) + _DIGEST :]).digest() != content[len(MAGIC) :][:_DIGEST]:
        raise _damaged("its digest does not fit its content")
    position, parts = _HEAD, []
    for index in range(_LENGTHS):
        at = len(MAGIC) + _DIGEST + 8 * index
        length = int.from_bytes(content[at : at + 8], "little")
        parts.append(content[position : position + length])
        position += length
    if position != len(content):
        raise _damaged(f"it has {len(content)} bytes, and its parts {position}")
    try:
        binary = _binary(json.loads(parts[0]), parts[1], parts[2])
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(f"its facts cannot be read: {error}") from error
    if binary.chip != chip.target:
        made_for = chip_of(binary.chip)
        raise VsiError(
            f"a binary for {made_for.name if made_for else f'the chip {binary.chip:#x}'} was to be loaded on {chip.name}",
            hint="compile the network for this chip, or name the other one as device",
            found=binary.chip,
            expected=chip.target,
        )
    _check(binary)
    return binary


def _binary(facts: dict[str, Any], commands: bytes, constants: bytes) -> Binary:
    def operands(given: Any) -> tuple[Operand, ...]:
        return tuple(Operand(tuple(int(size) for size in shape), float(scale), int(zero)) for shape, scale, zero in given)

    if len(commands) % COMMAND.itemsize:
        raise ValueError(f"{len(commands)} bytes of commands are no multiple of {COMMAND.itemsize}")
    return Binary(
        int(facts["chip"]),
        operands(facts["inputs"]),
        operands(facts["outputs"]),
        int(facts["ddr_bytes"]),
        int(facts["sram_bytes"]),
        np.frombuffer(commands, COMMAND),
        constants,
    )


def _check(binary: Binary) -> None:
    """Refuse commands that would leave their memories."""
    sizes = {DDR: binary.ddr_bytes, SRAM: binary.sram_bytes, CONSTANTS: len(binary.constants)}
    if not all(0 <= size < _MAX_BYTES for size in sizes.values()):
        raise _damaged(f"its memories have {sizes} bytes")
    commands = binary.commands
    for name, used in (
        ("input", np.ones(len(commands), bool)),
        ("second", np.isin(commands["opcode"], PAIRS)),
        ("output", np.ones(len(commands), bool)),
    ):
        blocks = commands[name][used]
        _check_blocks(blocks, sizes, binary, writes=name == "output")
    _check_numbers(commands)
    filtered = commands[commands["opcode"] == CONVOLVE]
    per_filter = filtered["group_inputs"].astype(np.int64) * filtered["kernel"].astype(np.int64).prod(axis=1)
    last = filtered["first_filter"].astype(np.int64) + filtered["output"]["size"][:, 1]
    _check_constants(binary, filtered["weights"], last * per_filter, 1)
    _check_constants(binary, filtered["filters"], last * FILTER.itemsize, 8)
    for opcode, field, nbytes in (
        (SOFTMAX, "table", 2048),
        (SOFTMAX, "reals", 8),
        (ADD, "reals", 8),
        (MULTIPLY, "reals", 8),
        (AVERAGE_POOL, "reals", 8),
        (SUM, "filters", FILTER.itemsize),
    ):
        offsets = commands[commands["opcode"] == opcode][field]
        _check_constants(binary, offsets, np.full(len(offsets), nbytes), 8)
    tables = commands[(commands["opcode"] == COPY) & (commands["table"] != -1)]["table"]
    _check_constants(binary, tables, np.full(len(tables), 256), 1)
    picked = commands[commands["opcode"] == PICK]
    _check_constants(binary, picked["table"], 4 * picked["output"]["size"][:, 2:].sum(axis=1), 4)
    for command in picked:
        _check_positions(command, binary.constants)
    blended = commands[commands["opcode"] == BLEND]
    _check_constants(binary, blended["table"], 12 * blended["output"]["size"][:, 2:].sum(axis=1), 4)
    for command in blended:
        _check_blends(command, binary.constants)


def _check_blends(command: npt.NDArray[Any], constants: bytes) -> None:
    """Refuse neighbours that the input of a command does not have, and parts beyond the whole."""
    at, sizes = int(command["table"]), command["input"]["size"][2:]
    for count, size, whole in zip(command["output"]["size"][2:], sizes, command["kernel"], strict=True):
        first, second, part = np.frombuffer(constants, np.int32, 3 * int(count), at).reshape(3, -1)
        at += 12 * int(count)
        if any(((one < 0) | (one >= size)).any() for one in (first, second)) or ((part < 0) | (part > whole)).any():
            raise _damaged(f"a command mixes rows or columns that an image of {sizes[0]}x{sizes[1]} does not have")


def _check_positions(command: npt.NDArray[Any], constants: bytes) -> None:
    """Refuse rows and columns that the input of a command does not have."""
    (rows, columns), sizes = command["output"]["size"][2:], command["input"]["size"][2:]
    positions = np.frombuffer(constants, np.int32, int(rows + columns), int(command["table"]))
    for numbers, size in ((positions[:rows], sizes[0]), (positions[rows:], sizes[1])):
        if ((numbers < 0) | (numbers >= size)).any():
            raise _damaged(f"a command picks rows or columns that an image of {sizes[0]}x{sizes[1]} does not have")


def _check_numbers(commands: Commands) -> None:
    """Refuse operations that there are not, and sizes that do not fit each other."""
    opcode, read, written = commands["opcode"], commands["input"]["size"], commands["output"]["size"]
    slides = np.isin(opcode, (CONVOLVE, MAX_POOL, AVERAGE_POOL))
    one_by_one = np.isin(opcode, (COPY, SOFTMAX, *PAIRS))
    positive = [commands[name] for name in ("kernel", "stride", "dilation")]
    bad = (opcode < 0) | (opcode >= OPCODES)
    windowless = np.any([((one < 1) | (one > _MAX_WINDOW)).any(axis=1) for one in positive], axis=0)
    bad |= slides & ((read[:, 0] < written[:, 0]) | windowless)
    bad |= slides & (np.abs(commands["padding"].astype(np.int64)) > _MAX_WINDOW).any(axis=1)
    bad |= np.isin(opcode, (MAX_POOL, AVERAGE_POOL)) & (read[:, 1] < written[:, 1])
    bad |= one_by_one & (read != written).any(axis=1)
    bad |= np.isin(opcode, (PICK, BLEND)) & (read[:, :2] != written[:, :2]).any(axis=1)
    bad |= (opcode == BLEND) & ((commands["kernel"] < 1) | (commands["kernel"] > _MAX_WHOLE)).any(axis=1)
    bad |= np.isin(opcode, PAIRS) & (commands["second"]["size"] != written).any(axis=1)
    bad |= (commands["zero"] < 0).any(axis=1) | (commands["zero"] > 255).any(axis=1)
    convolves = opcode == CONVOLVE
    inputs, outputs, first = (commands[name].astype(np.int64) for name in ("group_inputs", "group_outputs", "first_filter"))
    bad |= convolves & ((inputs < 1) | (outputs < 1) | (first < 0))
    bad |= convolves & (commands["chunk"] < 0)
    per_group = np.maximum(outputs, 1)
    groups = (first + np.maximum(written[:, 1], 1) - 1) // per_group - first // per_group + 1
    bad |= convolves & (groups * inputs > read[:, 1])
    if bad.any():
        raise _damaged(f"command {int(np.flatnonzero(bad)[0])} has numbers that do not fit each other")


def _check_blocks(blocks: npt.NDArray[Any], sizes: dict[int, int], binary: Binary, *, writes: bool) -> None:
    room = np.full(len(blocks), -1, np.int64)
    for memory, size in sizes.items():
        if not (writes and memory == CONSTANTS):
            room[blocks["memory"] == memory] = size
    for memory, operands in ((INPUT, binary.inputs), (OUTPUT, binary.outputs)):
        if writes and memory == INPUT:
            continue
        held = np.array([one.nbytes for one in operands] or [-1], np.int64)
        here = blocks["memory"] == memory
        known = here & (blocks["operand"] >= 0) & (blocks["operand"] < len(operands))
        room[known] = held[blocks["operand"][known]]
    sizes_of, stride = blocks["size"], blocks["stride"]
    sane = np.all([(one >= 0) & (one < _MAX_BYTES) for one in (sizes_of, stride)], axis=(0, 2))
    ends = blocks["offset"] + np.where((sizes_of == 0).any(axis=1), 0, extent(sizes_of, stride))
    reach = ((sizes_of - 1.0) * stride).sum(axis=1)  # in floats, which do not wrap
    bad = ~(sane & (reach < _MAX_BYTES) & (blocks["offset"] >= 0) & (blocks["offset"] < _MAX_BYTES) & (ends <= room))
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        memory = int(blocks["memory"][first])
        name = MEMORIES[memory] if 0 <= memory < len(MEMORIES) else str(memory)
        raise _damaged(f"a command reaches to byte {int(ends[first])} of {name}, which has {int(room[first])}")


def _check_constants(binary: Binary, offsets: npt.NDArray[Any], nbytes: npt.NDArray[Any], alignment: int) -> None:
    room = len(binary.constants)
    if ((offsets < 0) | (offsets > room) | (nbytes < 0) | (nbytes > room - offsets) | (offsets % alignment != 0)).any():
        raise _damaged("a command reads beyond the constants")


def _damaged(problem: str) -> VsiError:
    return VsiError(
        f"a binary of the model cannot be used: {problem}", hint="compile the network again; remove the file if it is kept"
    )


assert AXES == 4
