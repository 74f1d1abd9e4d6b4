"""The kinds of layers of these backends: private ones, and such as tests build with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dovetail import (
    Descriptor,
    DType,
    OpaqueLayout,
    TensorInfo,
)
from dovetail.graph.descriptor import Infos


def present(info: TensorInfo | None) -> TensorInfo:
    """Return the info of an input that the kind requires."""
    assert info is not None
    return info


@dataclass(frozen=True, kw_only=True)
class Block(Descriptor, kind="hard.Block"):
    """Bring a tensor into the device's blocked layout."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        from .device import blocked_bytes

        info = present(inputs[0])
        return [info.with_opaque(OpaqueLayout("hard.blocked", blocked_bytes(info.elements), 256))]


@dataclass(frozen=True, kw_only=True)
class Unblock(Descriptor, kind="hard.Unblock"):
    """Bring a tensor back."""

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        return [present(inputs[0]).with_opaque(None)]


@dataclass(frozen=True, kw_only=True)
class Blocked(Descriptor, kind="hard.Blocked"):
    """An operation on tensors in the blocked layout."""

    input_names: ClassVar[tuple[str, ...]] = ("a", "b")
    operation: str

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        return [present(inputs[0])]


@dataclass(frozen=True, kw_only=True)
class Program(Descriptor, kind="hard.Program"):
    """A whole subgraph as one command.

    Inputs: `inputs` tensors, then the weights of the fully connected steps in order, then their
    biases.

    Attributes:
        inputs: Number of tensors.
        operations, a, b, elements: Per instruction; `a` and `b` number inputs, then results; -1 for
            none.
        shape: Of the result of the last instruction.
    """

    input_names: ClassVar[tuple[str, ...]] = ("input",)
    variadic: ClassVar[bool] = True
    inputs: int
    operations: tuple[str, ...]
    a: tuple[int, ...]
    b: tuple[int, ...]
    elements: tuple[int, ...]
    shape: tuple[int, ...]

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        return [TensorInfo(self.shape, DType.FLOAT32)]


@dataclass(frozen=True, kw_only=True)
class Parallel(Descriptor, kind="hard.Parallel"):
    """A kernel that drives the host table; see parallel_workload.h for the modes."""

    mode: str
    grain: int = 16
    chunk: int = 0
    work_us: int = 0
    concurrency: int = 0

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        return [present(inputs[0])]


@dataclass(frozen=True, kw_only=True)
class Call(Descriptor, kind="hard.Call"):
    """Call a Python function of the backend by name with (input arrays, output array)."""

    input_names: ClassVar[tuple[str, ...]] = ("input",)
    variadic: ClassVar[bool] = True
    function: str

    def infer(self, inputs: Infos) -> Sequence[TensorInfo]:
        return [present(inputs[0])]
