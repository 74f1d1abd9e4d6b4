"""Tensors that keep their value from one run to the next: states of the network.

TensorFlow Lite has two kinds. Some tensors of a subgraph are variable: operators with a memory,
such as LSTM, read and write them. And there are resources, which operators make by name
(VAR_HANDLE), read (READ_VARIABLE) and write (ASSIGN_VARIABLE); a subgraph that runs once before
all others (CALL_ONCE) gives them their first values.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from dovetail import DType, Network
from dovetail.graph.layer import OutputSlot

from .tensors import Tensor
from .unsupported import Unsupported


class Variable:
    """One of them.

    Attributes:
        name: What its state is called.
        initial: What the first run reads; None: zeros.
    """

    def __init__(self, network: Network, name: str) -> None:
        self._network = network
        self.name = name
        self.initial: npt.NDArray[Any] | None = None
        self._state: str | None = None
        self._value: OutputSlot | None = None

    def read(self, stated: Tensor) -> OutputSlot:
        """Return its value at this point of a run.

        Args:
            stated: The shape and type that the file says of it.

        Raises:
            Unsupported: Its size is open.
        """
        if self._value is None:
            if -1 in stated.shape:
                raise Unsupported(f"variable {self.name!r} has the open shape {list(stated.shape)}")
            self._state = self._network.unique_name(self.name)
            self._value = self._network.state(
                self._state, stated.shape, stated.dtype, stated.quantization, initial=self.initial
            )
        return self._value

    def write(self, value: OutputSlot) -> None:
        """Take over a value, which whoever reads it from here on is given."""
        self._value = value

    def keep(self) -> None:
        """Let the next run read the value at the end of this one."""
        if self._state is not None and self._value is not None:
            self._network.write_state(self._state, self._value)


class Variables:
    """All of a model."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._of_tensors: dict[tuple[int, int], Variable] = {}
        self._resources: dict[tuple[str, str], Variable] = {}

    def of_tensor(self, subgraph: int, number: int, name: str) -> Variable:
        """Return that of a variable tensor."""
        key = subgraph, number
        if key not in self._of_tensors:
            self._of_tensors[key] = Variable(self._network, name)
        return self._of_tensors[key]

    def resource(self, container: str, name: str) -> Variable:
        """Return that of a resource, which all that name it share."""
        key = container, name
        if key not in self._resources:
            self._resources[key] = Variable(self._network, name or "variable")
        return self._resources[key]

    def keep(self) -> None:
        """Let the next run read what this one leaves."""
        for variable in (*self._of_tensors.values(), *self._resources.values()):
            variable.keep()


def first_value(value: npt.NDArray[Any] | None, dtype: DType | None) -> npt.NDArray[Any]:
    """Return the value that a variable begins with.

    Raises:
        Unsupported: Constants alone do not lead to it.
    """
    if value is None or dtype is DType.BFLOAT16:
        raise Unsupported("what a variable begins with is not a constant")
    return value
