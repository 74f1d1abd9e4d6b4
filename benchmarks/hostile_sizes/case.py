"""What a network of hostile sizes is, and the table of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dovetail import Network, Quantization
from dovetail.graph.descriptor import Descriptor
from dovetail.graph.layer import OutputSlot


class Case(NamedTuple):
    """A network out of all proportion.

    Attributes:
        inputs: Shape and NumPy type of each input for a number of elements; or an array.
        build: Makes the output from a network, its inputs, and that number.
    """

    inputs: Callable[[int], Mapping[str, Any]]
    build: Callable[..., Any]


CASES: dict[str, Case] = {}


def enter(name: str, inputs: Callable[[int], Mapping[str, Any]], build: Callable[..., Any]) -> None:
    """Put a case into the table."""
    assert name not in CASES, name
    CASES[name] = Case(inputs, build)


def flat(*shape: Any, dtype: Any = np.float32) -> Callable[[int], Mapping[str, Any]]:
    """One input; None among its sizes stands for what makes up the elements."""
    return lambda n: {"x": (filled(shape, n), dtype)}


def filled(shape: tuple[Any, ...], n: int) -> tuple[int, ...]:
    """Replace each None by what makes up n elements, all of them alike."""
    missing = shape.count(None)
    rest = max(n // math.prod(size for size in shape if size is not None), 1)
    size = round(rest ** (1 / missing)) if missing else 0
    return tuple(size if one is None else one for one in shape)


def adding(kind: Descriptor) -> Callable[..., OutputSlot]:
    """Build one layer of a kind on one input."""
    return lambda net, x, n: net.add(kind, x).output


def constant(net: Network, value: Any) -> OutputSlot:
    """A constant that takes no memory before it is read."""
    return net.constant(value, copy=False)


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """An array of pages that nobody has touched."""
    return np.zeros(shape, dtype)


def one_eighth() -> Quantization:
    """A quantization of one scale."""
    return Quantization(scale=(0.125,), zero_point=(3,))


def x_size(x: OutputSlot) -> int:
    """Elements of an input's last axis."""
    return int(x.known_info.sizes[-1])
