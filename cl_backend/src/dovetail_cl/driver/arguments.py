"""What the arguments of a kernel are."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dovetail.ground.records import NamedTuple


class Input(NamedTuple):
    """An input of the layer: a buffer, and a ulong, the bytes to its first element."""

    number: int = 0


class Output(NamedTuple):
    """An output of the layer; two arguments, as those of `Input`."""

    number: int = 0


class Scratch(NamedTuple):
    """Scratch memory of the layer, some bytes into it; two arguments, as those of `Input`."""

    offset: int = 0


class ConstantArray(NamedTuple):
    """An array that is copied to the device once; two arguments, as those of `Input`."""

    values: npt.NDArray[Any]


class Local(NamedTuple):
    """Bytes of local memory."""

    size: int


class Reports(NamedTuple):
    """Where a kernel reports an index that is out of range: a buffer, and the number of a step."""


class Alias(NamedTuple):
    """Where an output may share bytes with an input; see `dovetail_alias` in `abi.h`.

    Attributes:
        relation: "view", "in place" or "part".
        output, input: Their indices.
        offset: Bytes.
    """

    relation: str
    output: int = 0
    input: int = 0
    offset: int = 0


Argument = Input | Output | Scratch | ConstantArray | Local | Reports | np.generic | npt.NDArray[Any]
"""Of a kernel; a NumPy scalar is a number, an array of a few numbers a struct, by value."""


class Launch(NamedTuple):
    """A kernel, its arguments, and how many work items it has.

    Attributes:
        kernel: Which; see `Programs.kernel`.
        arguments: In the order of its parameters.
        sizes: Work items, by dimension; one that is 0 launches nothing.
        group: Of a work group; None leaves it to the driver.
        unless: The alias of the layer with which nothing is left to do: where the core took it up,
            the launch is left out.
    """

    kernel: Any
    arguments: tuple[Argument, ...]
    sizes: tuple[int, ...]
    group: tuple[int, ...] | None = None
    unless: Alias | None = None
