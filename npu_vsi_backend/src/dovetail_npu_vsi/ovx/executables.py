"""Binaries that run: in this process on a board, or in a child process."""

from __future__ import annotations

import ctypes
import math
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..driver import IExecutable, Operand, OperationTime
from ..errors import VsiError
from . import messages
from .children import Child
from .places import Places

MEASURED = "measured by the driver"
SIMULATED = "measured by the driver, in the simulator"
"""Sources of times."""

_Described = Sequence[tuple[bool, tuple[int, ...], str, float | None, int]]
"""What `Binary.operands` says."""


class LocalExecutable(IExecutable):
    """A binary on the device of this process."""

    def __init__(self, device: Any, binary: bytes, shares_memory: bool) -> None:
        """Put the binary on a `Device` of `executable`.

        Args:
            device: Of this process.
            binary: What is run.
            shares_memory: Whether the device reads and writes bound memory itself where it can.

        Raises:
            VsiError: The driver does not take it.
        """
        from .executable import Binary

        self._binary = Binary(device, binary, shares_memory)
        self.inputs, self.outputs = _operands(self._binary.operands)
        self._is_output = [is_output for is_output, *_ in self._binary.operands]
        self._nbytes = len(binary)

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def bind(self, addresses: Sequence[int]) -> None:
        inputs, outputs = iter(addresses[: len(self.inputs)]), iter(addresses[len(self.inputs) :])
        self._binary.bind([next(outputs if is_output else inputs) for is_output in self._is_output])

    def submit(self) -> None:
        self._binary.submit()

    def wait(self, is_cancelled: Callable[[], bool]) -> None:
        self._binary.wait()

    def profile(self) -> Sequence[OperationTime]:
        """Return what the whole took: of a binary OpenVX tells no more."""
        found = self._binary.performance()
        return () if found is None else (OperationTime("", "", found[1], MEASURED, found[0]),)

    def close(self) -> None:
        self._binary.close()


class RemoteExecutable(IExecutable):
    """A binary in a child process of its own, to and from which operands are copied."""

    def __init__(self, start: Callable[[], Child], places: Places, binary: bytes) -> None:
        """Have a child process load the binary; it ends with this.

        Args:
            start: Starts a process: now, after one whose run failed or was cancelled, and where
                there is none any more, as in a fork of this process.
            places: Where the libraries are.
            binary: What is run.

        Raises:
            VsiError: The driver does not take it, ended, or took too long.
        """
        self._start, self._request = start, pickle.dumps((places, binary))
        self._source = SIMULATED if places.is_simulator else MEASURED
        self._child: Child | None = None
        described = self._load(lambda: False)
        assert described is not None, "nothing cancelled it"
        self.inputs, self.outputs = _operands(described)
        self._sizes = [_nbytes(operand) for operand in (*self.inputs, *self.outputs)]
        self._addresses: Sequence[int] = ()
        self._is_running = self._is_closed = False
        self._nbytes = len(self._request) + len(binary) + sum(self._sizes)

    @property
    def nbytes(self) -> int:
        """What is kept here to start a process again, and what the process has."""
        return self._nbytes

    def _load(self, is_cancelled: Callable[[], bool]) -> _Described | None:
        """Start a process that has the binary, and return what it says of the operands.

        None if it was cancelled; there is no process then.
        """
        child = self._start()
        child.send(messages.LOAD, self._request)
        answer = child.receive(messages.OPERANDS, is_cancelled=is_cancelled)
        if answer is None:
            return None
        described: _Described = pickle.loads(answer)
        self._child = child
        return described

    def bind(self, addresses: Sequence[int]) -> None:
        if len(addresses) != len(self._sizes):
            raise VsiError(f"{len(addresses)} addresses were bound to a binary of {len(self._sizes)} operands")
        self._addresses = tuple(addresses)

    def submit(self) -> None:
        if self._is_closed or not self._addresses:
            raise VsiError("a binary was run that is closed, or whose operands are not bound")
        if self._child is not None and not self._child.is_there:
            self._child.kill()
            self._child = None
        if self._child is not None:  # else `wait` starts one, which takes long and can be cancelled
            self._begin()
        self._is_running = True

    def _begin(self) -> None:
        child, self._child = self._child, None  # it is of no use if what follows fails
        assert child is not None
        count = len(self.inputs)
        child.send(messages.RUN, *map(_memory, self._addresses[:count], self._sizes[:count]))
        self._child = child

    def wait(self, is_cancelled: Callable[[], bool]) -> None:
        if not self._is_running:
            return
        self._is_running = False
        if self._child is None:
            if self._load(is_cancelled) is None:
                return
            self._begin()
        child, self._child = self._child, None
        assert child is not None
        content = child.receive(messages.RESULTS, is_cancelled=is_cancelled)
        if content is None:
            return
        count, at = len(self.inputs), 0
        if len(content) != sum(self._sizes[count:]):
            child.kill()
            raise VsiError(f"a run answered {len(content)} bytes; {sum(self._sizes[count:])} were expected")
        for address, size in zip(self._addresses[count:], self._sizes[count:], strict=True):
            _memory(address, size)[:] = content[at : at + size]
            at += size
        self._child = child

    def profile(self) -> Sequence[OperationTime]:
        """Return what the whole took, and each operation if the driver prints that.

        It does where the environment has VIV_VX_DEBUG_LEVEL=1, by numbers and kinds of its own; the
        whole then includes the printing. The operations' times stand one after the
        other, as only their lengths are known.
        """
        child, self._child = self._child, None
        if child is None or self._is_running:
            self._child = child
            return ()
        try:
            answer = child.ask(messages.TIME, answer=messages.TIMES)
        except VsiError:  # the run ended well all the same; the next one starts a process
            return ()
        self._child = child
        return [OperationTime(name, engine, took, self._source, begin) for name, engine, took, begin in pickle.loads(answer)]

    def close(self) -> None:
        child, self._child, self._is_closed = self._child, None, True
        if child is not None:
            (child.kill if self._is_running else child.close)()


def _operands(described: _Described) -> tuple[list[Operand], list[Operand]]:
    """Return inputs and outputs of what `Binary.operands` says."""
    made: tuple[list[Operand], list[Operand]] = ([], [])
    for is_output, shape, dtype, scale, zero_point in described:
        made[is_output].append(Operand(shape, dtype, scale, zero_point))
    return made


def _nbytes(operand: Operand) -> int:
    return math.prod(operand.shape) * np.dtype(operand.dtype).itemsize


def _memory(address: int, size: int) -> memoryview:
    return memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")
