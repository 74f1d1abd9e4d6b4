"""Where the tensors of a program lie: on the chip while they are short-lived, else in DDR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..program import Program, Reshape
from .commands import DDR, INPUT, OUTPUT, SRAM, Place

ALIGNMENT = 128
"""Bytes that tensors begin at a multiple of."""


class Plan(NamedTuple):
    """Where everything lies.

    Attributes:
        places: By number of the tensor.
        ddr_bytes: Size of the arena in DDR.
        sram_bytes: Of the memory on the chip, what tensors take; what loads take lies behind it.
    """

    places: Mapping[int, Place]
    ddr_bytes: int
    sram_bytes: int


class _Life(NamedTuple):
    """A tensor, from the operation that writes it to the last that reads it."""

    tensor: int
    nbytes: int
    begin: int
    end: int


def place(program: Program, room: int) -> Plan:
    """Decide where the tensors of a program lie.

    Args:
        program: What is planned.
        room: Bytes on the chip that tensors may take.
    """
    same = _shared(program)
    places: dict[int, Place] = {}
    places |= {same[number]: Place(INPUT, index) for index, number in enumerate(program.inputs)}
    places |= {same[number]: Place(OUTPUT, index) for index, number in enumerate(program.outputs)}
    lives = [life for life in _lives(program, same) if life.tensor not in places]
    on_chip, sram_bytes = _packed([life for life in lives if life.nbytes <= room], room)
    places |= {tensor: Place(SRAM, 0, offset) for tensor, offset in on_chip.items()}
    in_ddr, ddr_bytes = _packed([life for life in lives if life.tensor not in on_chip], None)
    places |= {tensor: Place(DDR, 0, offset) for tensor, offset in in_ddr.items()}
    return Plan({number: places[same[number]] for number in range(len(program.tensors))}, ddr_bytes, sram_bytes)


def _shared(program: Program) -> dict[int, int]:
    """Return for each tensor the one that stands for all in the same memory.

    A reshape moves nothing. Of inputs and outputs there is at most one in a memory: what joins two
    of them copies.
    """
    same = {number: number for number in range(len(program.tensors))}
    caller = {number: int(number in program.inputs or number in program.outputs) for number in same}
    for operation in program.operations:
        if isinstance(operation, Reshape):
            one, other = _root(same, operation.inputs[0]), _root(same, operation.output)
            if one != other and caller[one] + caller[other] <= 1:
                same[other] = one
                caller[one] += caller[other]
    return {number: _root(same, number) for number in same}


def _root(same: Mapping[int, int], number: int) -> int:
    while same[number] != number:
        number = same[number]
    return number


def _lives(program: Program, same: Mapping[int, int]) -> list[_Life]:
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    for position, operation in enumerate(program.operations):
        for number in (*operation.inputs, operation.output):
            begin.setdefault(same[number], position)
            end[same[number]] = position
    return [_Life(number, program.tensors[number].nbytes, begin[number], end[number]) for number in begin]


def _packed(lives: Sequence[_Life], room: int | None) -> tuple[dict[int, int], int]:
    """Return offsets, and how many bytes are taken; with a room, of those that fit.

    Those that live shortest come first where there is not room for all, else the largest.
    """
    key = (lambda life: -life.nbytes) if room is None else (lambda life: (life.end - life.begin, -life.nbytes))
    placed: list[tuple[_Life, int]] = []
    for life in sorted(lives, key=key):
        size, offset = _aligned(life.nbytes), 0
        meeting = [(at, _aligned(other.nbytes)) for other, at in placed if other.begin <= life.end and life.begin <= other.end]
        for at, taken in sorted(meeting):
            if offset + size <= at:
                break
            offset = max(offset, at + taken)
        if room is None or offset + size <= room:
            placed.append((life, offset))
    return {life.tensor: at for life, at in placed}, max((at + _aligned(life.nbytes) for life, at in placed), default=0)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
