"""What a module of `operators` says about its kind.

It says how to make a case from parameters, what must come out, and how exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dovetail import DType, Quantization
from dovetail.graph.graph import Graph
from dovetail.graph.layer import OutputSlot

Array: TypeAlias = npt.NDArray[Any]
Parameters: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Feed:
    """One operand of a case.

    Attributes:
        value: The array; bfloat16 as uint16 bits, with `dtype` given.
        constant: True for weights and other constants, False for what is fed at run time.
        dtype: Given where NumPy's dtype does not tell.
        quantization: Of the tensor, if it is quantized.
    """

    value: Array
    constant: bool = False
    dtype: DType | None = None
    quantization: Quantization | None = None


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a result may be from the expected value: absolute + relative * |expected|.

    NaN and infinities must be equal.

    Attributes:
        relative, absolute: Bounds; both 0 means bit-equal values.
        reason: The arithmetic that gives them, in words.
    """

    relative: float = 0.0
    absolute: float = 0.0
    reason: str = "exact: no rounding happens"

    @property
    def is_exact(self) -> bool:
        """True if only the nearest value of the type is right."""
        return self.absolute == 0 and self.relative == 0


EXACT = Tolerance()


@dataclass(frozen=True, slots=True)
class Bits:
    """An output as a standard defines it, bit by bit.

    Attributes:
        values: Of the output's type, or in float64 to be rounded to it once.
        undefined: True for elements that the standard leaves open; None for none.
    """

    values: Array
    undefined: Array | None = None

    def moved(self, move: Callable[[Array], Array]) -> Bits:
        """Move the elements about."""
        return Bits(move(self.values), None if self.undefined is None else move(self.undefined))


@dataclass(frozen=True, slots=True)
class Case:
    """One layer with its operands and what must come out.

    Attributes:
        build: Adds the layer to a graph, given a slot per feed (constants included, None for a
            left-out one), and returns its outputs.
        feeds: The operands, in the order in which `build` takes them; None for an optional one that
            is left out.
        expected: One array per output, computed in float64 (or exactly, in integers), independently
            of dovetail.
        tolerances: One per output.
        bits: For outputs with a tolerance, the bits by the name of the standard that defines them
            (`dovetail.contract.promises.STANDARDS`); empty where none does.
    """

    build: Callable[[Graph, Sequence[OutputSlot | None]], Sequence[OutputSlot]]
    feeds: tuple[Feed | None, ...]
    expected: tuple[Array, ...]
    tolerances: tuple[Tolerance, ...]
    bits: tuple[Mapping[str, Bits], ...] = ()

    def bits_of(self, index: int) -> Mapping[str, Bits]:
        """Return the bits of an output, by standard."""
        return self.bits[index] if self.bits else {}


@dataclass(frozen=True, slots=True)
class Operator:
    """How one kind is tested: one per module of `operators`, named OPERATOR there.

    Attributes:
        kind: Such as "dovetail.Convolution2d".
        dtypes: Element types (`Descriptor.computes_in`) that the module can judge.
        parameters: Values worth trying, by parameter. The first is the default: a plain, small
            case. Edge values follow: zero, one, odd, width - 1 and width + 1, broadcast, batch > 1.
        make: Makes a case; returns None for parameters that do not go together.
        quantities: The parameter that governs a quantity of a manifest's claims
            (`dovetail.contract.claims`), by quantity, so that the kit can step on both sides of a
            declared boundary. Attributes that are parameters of that name need none.
        together: Combinations beyond one-at-a-time: parameters that differ from the defaults.
        reaching: For a quantity that no single parameter governs: what to change so that it has a
            value.
        impossible: Why no case can have what a claim may state, by a glob over an element type and
            what the kit says of it, such as "int8: operation shift_*" or "*: p below *".
    """

    kind: str
    dtypes: tuple[DType, ...]
    parameters: Mapping[str, Sequence[Any]]
    make: Callable[[Parameters, DType, np.random.Generator], Case | None]
    quantities: Mapping[str, str] = field(default_factory=dict)
    together: Sequence[Parameters] = ()
    reaching: Mapping[str, Callable[[Any], Parameters]] = field(default_factory=dict)
    impossible: Mapping[str, str] = field(default_factory=dict)
