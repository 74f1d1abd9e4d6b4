"""Epilogues: functions of each element that a kernel computes, before it is written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dovetail import DType, Layer
from dovetail.ground.records import NamedTuple
from dovetail.layers import BinaryOperation

from ..driver.arguments import Argument
from ..kernels import TYPES
from . import argument, input_info
from .chains import Statement, statements_text
from .functions import binary, literal, vector_source

_QUOTIENT, _PRODUCT = (binary(operation, DType.FLOAT32) for operation in (BinaryOperation.DIV, BinaryOperation.MUL))
_MIN_DIVISOR = 2.0**-100
"""Of numbers that have an inverse."""


class Operand(NamedTuple):
    """What an epilogue reads beside the element.

    Attributes:
        argument: Where it lies.
        type: Of its elements, in OpenCL C.
        way: "one": the same element always; "line": one for each position along an axis; "each": as
            that, where elements that are treated at once have one; "full": it lies as the result
            does.
    """

    argument: Argument
    type: str
    way: str


class Epilogue(NamedTuple):
    """Some functions of an element, operand 0, and of others; the last is what is written.

    Attributes:
        operands: Those from number 1 on.
        statements: In order; none: the element itself is written.
    """

    operands: tuple[Operand, ...] = ()
    statements: tuple[Statement, ...] = ()

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """Of the kernel, the last ones."""
        return tuple(operand.argument for operand in self.operands)

    def preceded(self, function: str, operand: Operand | None = None) -> Epilogue:
        """Return this epilogue behind a function of the element `v`, and of an operand `w`."""
        if function == "v":
            return self
        own = 1 if operand is not None else 0
        moved = [
            one._replace(operands=tuple(-1 if n == 0 else n + own if n > 0 else n - 1 for n in one.operands))
            for one in self.statements
        ]
        first = Statement(function, "v, w" if own else "v", (0, 1) if own else (0,), DType.FLOAT32)
        return Epilogue((operand, *self.operands) if operand is not None else self.operands, (first, *moved))

    def source(self, width: int = 1) -> str:
        """Return the sources before that of a kernel, which treats `width` elements at once."""
        return f"{vector_source(width)} elementwise/epilogue.cl"

    def defined(self, width: int = 1) -> dict[str, Any]:
        """Return what `epilogue.cl` wants to be defined."""
        return {
            "FINISH_WIDTH": width,
            "FINISHES": int(bool(self.statements)),
            "STATEMENTS": statements_text(self.statements, lambda dtype: "finished"),
            "RESULT": f"t{len(self.statements) - 1}",
            "OPERANDS(X)": " ".join(f"X({one.type}, x{at}, {one.way})" for at, one in enumerate(self.operands, 1)),
            **{f"F{at}({one.parameters})": one.function for at, one in enumerate(self.statements)},
        }


NONE = Epilogue()
"""Elements are written as they are."""


def epilogue_of(operands: Sequence[Operand | float], statements: Sequence[Statement]) -> Epilogue:
    """Return an epilogue in whose statements numbers stand as such.

    Divisions by a number become products with its inverse, which is off by no more than the sums
    are that come before.

    Args:
        operands: Those from number 1 on.
        statements: In order.
    """
    kept = [one for one in operands if isinstance(one, Operand)]
    number = {at: 1 + sum(isinstance(one, Operand) for one in operands[:at]) for at in range(len(operands))}
    written = []
    for statement in statements:
        function, names, own = statement.function, [], []
        for name, at in zip(statement.parameters.split(", "), statement.operands, strict=True):
            value = operands[at - 1] if at > 0 else None
            if not isinstance(value, float):
                names.append(name)
                own.append(number[at - 1] if at > 0 else at)
                continue
            if function == _QUOTIENT and name == "w" and _MIN_DIVISOR < abs(value) < 1 / _MIN_DIVISOR:
                function, value = _PRODUCT, 1 / value
            function = re.sub(rf"\b{name}\b", f"(finished){literal(value)}", function)
        written.append(statement._replace(function=function, parameters=", ".join(names), operands=tuple(own)))
    return Epilogue(tuple(kept), tuple(written))


def way_of(sizes: Sequence[int], result: Sequence[int], axis: int) -> str | None:
    """Return how an operand of some sizes is read; None: as an epilogue cannot.

    Args:
        sizes: Of the operand, which is broadcast.
        result: Sizes of the result.
        axis: Along which "line" goes.
    """
    if all(size == 1 for size in sizes):
        return "one"
    if tuple(sizes) == tuple(result):
        return "full"
    padded = (1,) * (len(result) - len(sizes)) + tuple(sizes)
    wanted = tuple(size if at == axis % len(result) else 1 for at, size in enumerate(result))
    return "line" if padded == wanted else None


def operand_of(layer: Layer, index: int, way: str) -> Operand | float:
    """Return an input of a layer, read in a way; one constant number as such."""
    value = layer.constant(index)
    if value is not None and value.size == 1:
        return float(value.reshape(-1)[0])
    return Operand(argument(layer, index), TYPES[input_info(layer, index).dtype], way)
