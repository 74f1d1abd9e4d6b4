"""Epilogues: functions of each element that a kernel computes, before it is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dovetail import DType
from dovetail.graph.tensor import TensorInfo
from dovetail.ground.records import NamedTuple

from ..driver.arguments import Argument
from ..kernels import TYPES
from .chains import Statement, statements_text
from .functions import vector_source


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


def operand_of(argument: Argument, info: TensorInfo, way: str) -> Operand:
    """Return an operand."""
    return Operand(argument, TYPES[info.dtype], way)
