"""The driver whose device is this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..chips import Chip
from ..driver import IDriver, IExecutable, Operand, Probe, Report
from ..engines import blends_exactly
from ..program import Operation, Program, Resize
from . import binary as binaries
from .compiling import compile_program
from .executor import Executor

VERSION = "4"
"""Of what programs are compiled to; whoever changes results or commands raises it."""


class ModelDriver(IDriver):
    """Compiles for any chip, and computes what the chip would."""

    name = "model"

    def probe(self, chip: Chip | None = None) -> Probe:
        return Probe("ready", versions={"model": VERSION})

    def refusal(self, operation: Operation, program: Program, chip: Chip) -> str:
        if not isinstance(operation, Resize) or operation.mode == "nearest":
            return ""
        before, after = (program.tensors[number].shape[2:] for number in (operation.inputs[0], operation.output))
        if blends_exactly(operation, before, after):
            return ""
        return f"{operation.mode} resampling of {before} to {after}, whose bits are not known"

    def compile(self, program: Program, chip: Chip, report: Report) -> bytes:
        compiled = compile_program(program, chip, report)
        return binaries.to_bytes(
            binaries.Binary(
                chip.target,
                tuple(_operand(program, number) for number in program.inputs),
                tuple(_operand(program, number) for number in program.outputs),
                compiled.ddr_bytes,
                compiled.sram_bytes,
                compiled.commands,
                compiled.constants,
            )
        )

    def load(self, binary: bytes, chip: Chip) -> IExecutable:
        return ModelExecutable(binaries.from_bytes(binary, chip))


class ModelExecutable(IExecutable):
    """A program in the memory of this process."""

    def __init__(self, binary: binaries.Binary) -> None:
        self.inputs = [Operand(one.shape, "uint8", one.scale, one.zero_point) for one in binary.inputs]
        self.outputs = [Operand(one.shape, "uint8", one.scale, one.zero_point) for one in binary.outputs]
        self._program_bytes = binary.commands.nbytes + len(binary.constants)
        self._executor: Executor | None = Executor(
            binary.commands.view(np.uint8),
            np.frombuffer(binary.constants, np.uint8),
            binary.ddr_bytes,
            binary.sram_bytes,
            len(self.inputs),
            len(self.outputs),
        )

    @property
    def nbytes(self) -> int:
        return 0 if self._executor is None else int(self._executor.nbytes) + self._program_bytes

    def bind(self, addresses: Sequence[int]) -> None:
        self._open().bind(addresses)

    def submit(self) -> None:
        self._open().begin()

    def wait(self, is_cancelled: Callable[[], bool]) -> None:
        executor = self._open()
        while not executor.advance() and not is_cancelled():
            pass

    def close(self) -> None:
        self._executor = None

    def _open(self) -> Executor:
        assert self._executor is not None, "the executable was closed"
        return self._executor


def _operand(program: Program, number: int) -> binaries.Operand:
    tensor = program.tensors[number]
    return binaries.Operand(tensor.shape, tensor.scale, tensor.zero_point)
