"""Functions of elements in one pass: what a layer, or a chain of them, computes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dovetail import DType
from dovetail.graph.tensor import TensorInfo
from dovetail.ground.records import NamedTuple

from ..driver.arguments import Argument, Launch, Output
from ..kernels import TYPES, Kernels
from ..walking import broadcast, merged
from .functions import DOUBLES, INTEGERS, SOURCE, vector_source

_COMPUTED = {"half": "float", "bfloat": "float"}
"""Types in which elements are computed with, where that is not the type in memory."""
_FLOATS = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
_PIECE = 2048
"""Elements of a row that are worth a turn of their own."""
_SHORTEST = 1
"""Vectors that the last axis must fill, for which it is walked along by vectors."""


def computed(dtype: DType) -> str:
    """Return the type in which elements of a type are computed with."""
    kept = TYPES[dtype]
    return _COMPUTED.get(kept, kept)


class Statement(NamedTuple):
    """One function.

    Attributes:
        function: An expression in OpenCL C.
        parameters: Names of its operands there.
        operands: What they are: the number of an operand of the pass, or -1 - that of a statement.
        dtype: Of the result.
    """

    function: str
    parameters: str
    operands: tuple[int, ...]
    dtype: DType


def chain(
    kernels: Kernels,
    statements: Sequence[Statement],
    operands: Sequence[tuple[Argument, TensorInfo]],
    result: TensorInfo,
) -> Launch:
    """Return the launch that computes some statements; the last one is the result.

    Args:
        kernels: Of the device.
        statements: In order.
        operands: What is read, broadcast to the result's shape.
        result: The output.
    """
    infos = [info for _, info in operands]
    axes = merged(result.sizes, [broadcast(info.sizes, result.sizes) for info in infos]) or [(1, (1,) * len(infos))]
    defined: dict[str, Any] = {
        "COUNT": len(infos),
        "Y": TYPES[result.dtype],
        "RESULT": f"t{len(statements) - 1}",
        **{f"F{at}({one.parameters})": one.function for at, one in enumerate(statements)},
    }
    width = kernels.device.facts["vector_width"]
    run, steps = axes[-1]
    are_floats = all(dtype in _FLOATS for dtype in (*(info.dtype for info in infos), *(one.dtype for one in statements)))
    if kernels.is_cpu and width > 1 and are_floats and run >= _SHORTEST * width and set(steps) <= {0, 1}:
        return _in_vectors(kernels, width, statements, operands, axes, defined)
    return _by_elements(kernels, statements, operands, axes, defined, math.prod(result.sizes))


def _in_vectors(
    kernels: Kernels, width: int, statements: Sequence[Statement], operands: Any, axes: Any, defined: dict[str, Any]
) -> Launch:
    (*outer, (run, steps)) = axes
    rank, count = len(outer), len(operands)
    given = np.zeros((), [("run", np.uint32), ("size", np.uint32, rank + 1), ("stride", np.int32, (rank + 1, count))])
    given["run"] = run
    for axis, (size, strides) in enumerate(outer):
        given["size"][axis], given["stride"][axis] = size, strides
    listed = " ".join(f"X({TYPES[info.dtype]}, x{at}, {at}, {steps[at]})" for at, (_, info) in enumerate(operands))
    kernel = kernels.get(
        f"{vector_source(width)} elementwise/vector_chain.cl",
        "chain",
        RANK=rank,
        WIDTH=width,
        PIECE=_PIECE,
        HAS_HALVES=int(any(info.dtype is DType.FLOAT16 for _, info in operands)),
        STATEMENTS=statements_text(statements, lambda dtype: "V"),
        **{"OPERANDS(X)": listed},
        **defined,
    )
    pieces = math.prod(size for size, _ in outer) * -(-run // _PIECE)
    items, group = kernels.each(pieces, least=max(1, 4096 // run))
    arguments = (*(argument for argument, _ in operands), Output(), given, np.uint32(pieces))
    return Launch(kernel, arguments, items, group)


def _by_elements(
    kernels: Kernels, statements: Sequence[Statement], operands: Any, axes: Any, defined: dict[str, Any], elements: int
) -> Launch:
    count = len(operands)
    rank = 0 if len(axes) == 1 and set(axes[0][1]) == {1} else len(axes)
    given = np.zeros((), [("size", np.uint32, rank + 1), ("stride", np.int32, (rank + 1, count))])
    for axis, (size, strides) in enumerate(axes[:rank]):
        given["size"][axis], given["stride"][axis] = size, strides
    listed = " ".join(f"X({TYPES[info.dtype]}, {computed(info.dtype)}, x{at}, {at})" for at, (_, info) in enumerate(operands))
    dtypes = [*(info.dtype for _, info in operands), *(one.dtype for one in statements)]
    has_doubles = DType.FLOAT64 in dtypes
    files = DOUBLES if has_doubles else SOURCE
    kernel = kernels.get(
        f"{files} {INTEGERS if any(not dtype.is_float for dtype in dtypes) or has_doubles else ''} elementwise/chain.cl",
        "chain",
        RANK=rank,
        DOUBLES=int(has_doubles),
        STATEMENTS=statements_text(statements, computed),
        **{"OPERANDS(X)": listed},
        **defined,
    )
    items, group = kernels.each(elements)
    arguments = (*(argument for argument, _ in operands), Output(), given, np.uint32(elements))
    return Launch(kernel, arguments, items, group)


def statements_text(statements: Sequence[Statement], type_of: Callable[[DType], str]) -> str:
    """Return the declarations of statements t0, t1, ... by functions F0, F1, ..."""
    return " ".join(
        f"const {type_of(one.dtype)} t{at} = F{at}({', '.join(_name(number) for number in one.operands)});"
        for at, one in enumerate(statements)
    )


def _name(number: int) -> str:
    return f"value_x{number}" if number >= 0 else f"t{-1 - number}"
