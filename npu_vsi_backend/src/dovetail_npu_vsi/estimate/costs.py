"""What operations of the hardware cost, and those of the shader and of the tensor processor.

Cycles and bytes are what the vendor's driver prints. It counts what the shader moves and none of
its arithmetic, so that its numbers for the shader are lower bounds. Of the tensor processor it
counts each core as if it moved the whole tensor: where the cores work side by side, cycles and
bytes are too high by their number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..chips import Chip
from ..engines import SH, TP

_SHADER_OVERHEAD = 500
"""Cycles of each operation of the shader."""
_SHADER_SRAM = 32
"""Bytes that the shader moves from or to the memory on the chip in a cycle."""
_COMMAND_BYTES = 640
"""Read by each part of an operation of the tensor processor beside its input."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one or several operations of the hardware, one after the other.

    Attributes:
        cycles: In all.
        read, written: Bytes of external memory.
        engines: Of each operation.
    """

    cycles: float
    read: float
    written: float
    engines: tuple[str, ...]

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.cycles + other.cycles, self.read + other.read, self.written + other.written, self.engines + other.engines
        )

    def __mul__(self, count: int) -> Cost:
        return Cost(self.cycles * count, self.read * count, self.written * count, self.engines)


NOTHING = Cost(0.0, 0.0, 0.0, ())


class Flow(NamedTuple):
    """How an operation reaches what it reads and writes.

    Attributes:
        bytes_per_cycle: Of external memory; reads and writes share it.
        read: Part of the input that lies in external memory; the rest is on the chip.
        written: The same of the output.
        slices: Bands of rows in which it is done, so that what is between fits the chip.
    """

    bytes_per_cycle: float
    read: float = 1.0
    written: float = 1.0
    slices: int = 1

    def first(self, keeps: bool, slices: int = 1) -> Flow:
        """Return the flow of an operation whose result another one of the same layer reads."""
        return self._replace(written=float(not keeps), slices=slices)

    def last(self, keeps: bool, slices: int = 1) -> Flow:
        """Return the flow of an operation that reads what another one of the same layer wrote."""
        return self._replace(read=float(not keeps), slices=slices)


def by_shader(flow: Flow, read: float, written: float) -> Cost:
    """Return what the shader takes to read its first input and to write its output, in bytes."""
    outside = read * flow.read + written * flow.written
    inside = max(read * (1 - flow.read), written * (1 - flow.written))
    cycles = _SHADER_OVERHEAD + max(outside / flow.bytes_per_cycle, inside / _SHADER_SRAM)
    return Cost(cycles, read * flow.read, written * flow.written, (SH,))


def by_tensor_processor(
    chip: Chip, flow: Flow, read: float, written: float, *, parts: int, extra_overhead: float = 0.0
) -> Cost:
    """Return what an operation of the tensor processor takes that is done in parts.

    Args:
        chip: Where.
        flow: How.
        read: Bytes of all of the input.
        written: Bytes of all of the output.
        parts: Operations of single cores.
        extra_overhead: Cycles of each part.
    """
    reads, writes = _COMMAND_BYTES + read * flow.read, written * flow.written
    memory = (reads + writes) / flow.bytes_per_cycle
    moved = (read + written) / 2 if chip.tp.moves_in_turn else max(read, written)
    work = moved / chip.tp.bytes_per_cycle
    overhead = (chip.tp.overhead_cycles if memory >= work else chip.tp.busy_overhead_cycles) + extra_overhead
    one = max(memory, work) + overhead * flow.slices
    return Cost(parts * one, parts * reads, parts * writes, (TP,))


def cores(chip: Chip, channels: int) -> int:
    """Return in how many parts the tensor processor takes a tensor of some channels."""
    return min(chip.tp_cores, max(channels, 1))
