"""Walks over tensors by strides: elementwise layers, and all that moves elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dovetail.ground.records import NamedTuple

from ..driver.arguments import Argument, Launch
from ..kernels import Kernels


class Walk(NamedTuple):
    """How one operand is walked over.

    Attributes:
        argument: The tensor.
        type: Of its elements, in OpenCL C.
        strides: Elements between neighbours, for each axis that is walked over.
        start: Elements before the first one.
    """

    argument: Argument
    type: str
    strides: tuple[int, ...]
    start: int = 0


def contiguous(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a C-contiguous tensor."""
    return tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))


def broadcast(sizes: Sequence[int], target: Sequence[int]) -> tuple[int, ...]:
    """Return the strides by which a tensor is broadcast: 0 where it has size one."""
    padded = (1,) * (len(target) - len(sizes)) + tuple(sizes)
    return tuple(0 if size == 1 else stride for size, stride in zip(padded, contiguous(padded), strict=True))


def walk(
    kernels: Kernels,
    sizes: Sequence[int],
    operands: Sequence[Walk],
    result: Walk,
    *,
    function: str = "(v)",
    parameters: str = "v",
    raw: bool = False,
    functions: str = "",
) -> Launch:
    """Return the launch that walks over some sizes.

    Args:
        kernels: Of the device.
        sizes: Of the axes that are walked over.
        operands: What is read, one to three.
        result: What is written.
        function: Of the elements of the operands, an expression in OpenCL C.
        parameters: Their names in it.
        raw: Elements are moved as they are, not converted to be computed with.
        functions: Source of what `function` calls.
    """
    axes = merged(sizes, [*(operand.strides for operand in operands), result.strides])
    plain = all(one.start == 0 for one in (*operands, result)) and (
        not axes or (len(axes) == 1 and all(stride == 1 for stride in axes[0][1]))
    )
    rank = 0 if plain else max(len(axes), 1)
    layout = np.dtype([("size", np.uint32, rank + 1), ("stride", np.int32, (rank + 1, 4)), ("start", np.int32, 4)])
    given = np.zeros((), layout)
    if rank:
        given["size"] = 1
        for axis, (size, strides) in enumerate(axes):
            given["size"][axis] = size
            given["stride"][axis] = [*strides[:-1], *[0] * (4 - len(strides)), strides[-1]]
        given["start"] = [*(one.start for one in operands), *[0] * (3 - len(operands)), result.start]
    elements = math.prod(sizes)
    defined = {
        "RANK": rank,
        "OPERANDS": len(operands),
        **{name: one.type for name, one in zip("ABC", operands, strict=False)},
        "Y": result.type,
        f"FUNCTION({parameters})": function,
        "IN(T, p, i)": "(p)[i]" if raw else "LOAD_AS(T, p, i)",
        "OUT(T, p, i, v)": "(p)[i] = (v)" if raw else "STORE_AS(T, p, i, v)",
    }
    items, group = kernels.each(elements)
    arguments = (*(one.argument for one in operands), result.argument, given, np.uint32(elements))
    return Launch(kernels.get(f"{functions} walking/walk.cl", "walk_over", **defined), arguments, items, group)


def merged(sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> list[tuple[int, tuple[int, ...]]]:
    """Merge neighbouring axes over which all operands go in equal steps; drop those of size one.

    Returns:
        The size, and the strides of all operands, of each axis that is left.
    """
    axes: list[tuple[int, tuple[int, ...]]] = []
    for axis, size in enumerate(sizes):
        if size == 1:
            continue
        steps = tuple(each[axis] for each in strides)
        if axes and all(outer == inner * size for outer, inner in zip(axes[-1][1], steps, strict=True)):
            axes[-1] = (axes[-1][0] * size, steps)
        else:
            axes.append((size, steps))
    return axes
