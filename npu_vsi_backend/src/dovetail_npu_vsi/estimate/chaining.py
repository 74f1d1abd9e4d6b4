"""What stays on the chip between operations.

The driver searches over the whole program which tensors to keep, in bands of rows where they are
large. The rule here is simpler, and fitted to chains and networks: a tensor stays if it fits beside
those that are kept meanwhile, and one that nearly fills the memory stays in bands, if the next
operation alone reads it and both kernels are small. Chips differ: `Chip.keeps_tensors`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..chips import Chip
from ..engines.folding import is_folded
from ..program import Binary, Concat, Convolution, FullyConnected, Operation, Pooling, Program
from .costs import Flow

_ROOM = 0.6
"""Of the memory on the chip, what tensors that are kept whole may take. Fitted."""
_SMALL_KERNELS = 8192
"""Bytes of the kernels of two operations between which tensors stay in bands. Fitted."""
_OTHER_KERNEL = 512
"""Bytes of the kernel of sums and poolings."""
_WHOLE = 0.75
"""Of this memory, what a tensor may take that is not cut into bands. Fitted."""
_BANDS = 2.5
"""Bands for each time that a tensor fills this memory. Fitted."""


def flows(program: Program, chip: Chip, bytes_per_cycle: float) -> dict[Operation, Flow]:
    """Return for each operation that takes time where what it reads and writes lies."""
    stages = [operation for operation in program.operations if not is_folded(operation, program, chip)]
    everything = Flow(bytes_per_cycle)
    if not chip.keeps_tensors:
        return dict.fromkeys(stages, everything)
    return _Chain(program, chip, stages).flows(everything)


class _Chain:
    """The operations of a program that take time, and the tensors between them."""

    def __init__(self, program: Program, chip: Chip, stages: Sequence[Operation]) -> None:
        self._program = program
        self._room = chip.sram_bytes
        self._stages = stages
        self._same: dict[int, int] = {}
        timed = set(stages)
        for operation in program.operations:
            if operation not in timed:
                self._join(operation)
        self._readers: dict[int, list[int]] = {}
        for at, stage in enumerate(stages):
            for number in stage.inputs:
                self._readers.setdefault(self._memory(number), []).append(at)
        self._kept = self._keep()

    def flows(self, everything: Flow) -> dict[Operation, Flow]:
        """Return where each stage finds what it reads, and puts what it writes."""
        return {stage: self._flow(stage, everything) for stage in self._stages}

    def _flow(self, stage: Operation, everything: Flow) -> Flow:
        # Of two operands of the shader the driver counts the first.
        is_sum = isinstance(stage, Binary) and stage.function != "multiply"
        numbers = stage.inputs if is_sum or isinstance(stage, Concat) else stage.inputs[:1]
        nbytes = [self._program.tensors[number].nbytes for number in numbers]
        outside = sum(size for size, number in zip(nbytes, numbers, strict=True) if self._memory(number) not in self._kept)
        memories = {self._memory(number) for number in (*numbers, stage.output)} & self._kept
        large = [size for size in map(self._nbytes, memories) if size > _WHOLE * self._room]
        return everything._replace(
            read=outside / max(sum(nbytes), 1),
            written=float(self._memory(stage.output) not in self._kept),
            slices=max((-(-int(_BANDS * size) // self._room) for size in large), default=1),
        )

    def _keep(self) -> set[int]:
        """Return the memories that are on the chip."""
        outside = {self._memory(number) for number in (*self._program.inputs, *self._program.outputs)}
        kept: dict[int, int] = {}  # and the last stage that reads them
        for at, stage in enumerate(self._stages):
            memory = self._memory(stage.output)
            readers = self._readers.get(memory, ())
            if memory in outside or memory in kept or not readers or readers[0] <= at:
                continue
            meanwhile = sum(self._nbytes(other) for other, last in kept.items() if last > at)
            if self._nbytes(memory) + meanwhile <= _ROOM * self._room or self._stays_in_bands(at, memory):
                kept[memory] = max(readers)
        return set(kept)

    def _stays_in_bands(self, at: int, memory: int) -> bool:
        kernels = sum(_kernel_bytes(stage) for stage in self._stages[at : at + 2])
        is_next = self._readers[memory] == [at + 1]
        return is_next and self._nbytes(memory) <= self._room and kernels < _SMALL_KERNELS

    def _join(self, operation: Operation) -> None:
        """Note that what is folded has the memory of its inputs."""
        for number in operation.inputs:
            memory = self._memory(number)
            if memory != operation.output:
                self._same[memory] = operation.output

    def _memory(self, number: int) -> int:
        while number in self._same:
            number = self._same[number]
        return number

    def _nbytes(self, memory: int) -> int:
        return self._program.tensors[memory].nbytes


def _kernel_bytes(operation: Operation) -> int:
    if isinstance(operation, Convolution | FullyConnected):
        return int(operation.weights.values.size)
    return _OTHER_KERNEL if isinstance(operation, Binary | Pooling) else 0
