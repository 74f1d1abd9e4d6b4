"""Operations in the order in which they run, and the tensors between them."""

from __future__ import annotations

from dataclasses import dataclass

from .operations import Operation
from .tensors import Tensor


@dataclass(frozen=True, eq=False)
class Program:
    """What a part of a network is for the NPU.

    Each tensor is written by one operation, unless it is an input.

    Attributes:
        name: For reports.
        tensors: All of them; operations name them by their number.
        operations: In an order in which they can run.
        inputs, outputs: Numbers of the tensors that come from outside and go there, in the order of
            the part's.
    """

    name: str
    tensors: tuple[Tensor, ...]
    operations: tuple[Operation, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
