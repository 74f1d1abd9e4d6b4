"""Reduction along any axes, as a chain of reductions along one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dovetail import DType
from dovetail.ground.records import NamedTuple

from ..driver.arguments import Argument, Launch, Output, Scratch
from ..elementwise.functions import mathematics
from ..kernels import TYPES, Kernels, Work, computed_type
from ..lines import SOURCE, Lines, spread

_LONG = 16384
"""Elements of a line that are worth a work item, or a group of them, of their own."""


class Function(NamedTuple):
    """How elements become one.

    Attributes:
        each: What is made of each element `v`, an expression in OpenCL C.
        last: What is made of the result `v`, given `count` elements.
        two: Name of the macro that makes one of two results; empty: they are added up.
        neutral: What `two` begins with, of floats and of integers.
        log_sum_exp: The elements are exponents, and so are the results.
        is_norm: `each` is a power, and `last` its root. Norms of norms are norms, so that what lies
            between two reductions of a chain is no power; and elements are divided by their
            greatest where powers of them leave the range.
    """

    each: str = "(v)"
    last: str = "(v)"
    two: str = ""
    neutral: tuple[str, str] = ("0", "0")
    log_sum_exp: bool = False
    is_norm: bool = False


_NUMBERS: dict[str, Callable[[int], np.generic[Any]]] = {
    "float": np.float32,
    "double": np.float64,
    "int": np.int32,
    "long": np.int64,
    "ulong": np.uint64,
}
FUNCTIONS = {
    "sum": Function(),
    "mean": Function(last="mean_of(v, count)"),
    "rounded_mean": Function(last="rounded_mean_of(v, count)"),
    "max": Function(two="MAX_OR_NAN", neutral=("(-INFINITY)", "{}_MIN")),
    "min": Function(two="MIN_OR_NAN", neutral=("INFINITY", "{}_MAX")),
    "prod": Function(two="PRODUCT", neutral=("1", "1")),
    "l1": Function("magnitude_of(v)"),
    "l2": Function("square_of(v)", "sqrt(v)", is_norm=True),
    "sum_square": Function("square_of(v)"),
    "log_sum": Function(last="log(v)"),
    "log_sum_exp": Function(log_sum_exp=True),
}
"""By the name of a `ReduceFunction`; `rounded_mean` is that of integers, halves away from zero."""


def reduce(
    kernels: Kernels,
    source: Argument,
    dtype: DType,
    sizes: Sequence[int],
    axes: Sequence[int],
    function: Function,
    *,
    keeps: bool = True,
) -> Work:
    """Return the work that reduces a tensor along axes.

    What lies between two reductions of the chain are numbers of the type that is computed with, in
    scratch memory.

    Args:
        kernels: Of the device.
        source: The tensor.
        dtype: Of its elements, and of the result's.
        sizes: Its shape.
        axes: Which are reduced, in [0, rank).
        function: How.
        keeps: Results are written to the output, as elements; else as `computed_in` says, to
            scratch memory, from its first byte on.
    """
    chain = list(_chain(kernels, sizes, axes))
    count = math.prod(sizes[axis] for axis in axes)
    computed = computed_in(dtype, count)
    itemsize = 4 if computed in ("float", "int") else 8
    room = [max((lines.total for lines in chain[part:-1:2]), default=0) * itemsize for part in (0, 1)]
    kept = 0 if keeps else math.prod(sizes[axis] for axis in range(len(sizes)) if axis not in axes) * itemsize
    places = (-(-kept // 64) * 64, -(-kept // 64) * 64 + -(-room[0] // 64) * 64)
    launches = []
    for step, lines in enumerate(chain):
        is_last = step == len(chain) - 1
        form = spread(kernels, lines)
        defined = {
            **form.defined,
            "C": computed,
            "IS_FLOAT": int(dtype.is_float),
            "DOUBLES": int(dtype is DType.FLOAT64),
            "X": computed if step else TYPES[dtype],
            "Y": TYPES[dtype] if is_last and keeps else computed,
            "SUMS": int(not function.two),
            "MAP(v)": function.each if function.is_norm or not step else "(v)",
            "FINISH(v)": function.last if function.is_norm or is_last else "(v)",
            "OF": function.two or "SUM",
            "NEUTRAL": function.neutral[not dtype.is_float].format(TYPES[dtype].upper()),
            "LOG_SUM_EXP": int(function.log_sum_exp),
            "NORM": int(function.is_norm),
        }
        if function.two == "PRODUCT":  # which subgroups do not make of what they have
            defined["SUBGROUPS"] = 0
        given = Scratch(places[(step - 1) % 2]) if step else source
        result = Scratch(places[step % 2]) if not is_last else Output() if keeps else Scratch()
        number = _NUMBERS[computed](count)
        powers = mathematics(form.defined["LANES"]) if function.log_sum_exp else ""
        kernel = kernels.get(f"{SOURCE} {powers} reduction/reduce.cl", "reduce", **defined)
        launches.append(Launch(kernel, (given, result, lines.argument, number), form.sizes, form.group))
    return Work(tuple(launches), scratch=places[1] + room[1] if len(chain) > 1 else kept)


def computed_in(dtype: DType, count: int) -> str:
    """Return the type in which so many elements are reduced, modulo what theirs holds."""
    if dtype.is_float or dtype is DType.UINT64:
        return computed_type(dtype)
    return "int" if dtype.bits <= 16 and count < 1 << (31 - dtype.bits) else "long"


def _chain(kernels: Kernels, sizes: Sequence[int], axes: Sequence[int]) -> Iterator[Lines]:
    """Yield the lines that are reduced, one after the other: from the last axis to the first."""
    merged: list[tuple[int, bool]] = []
    for axis, size in enumerate(sizes):
        if size == 1:
            continue
        is_reduced = axis in axes
        if merged and merged[-1][1] == is_reduced:
            merged[-1] = (merged[-1][0] * size, is_reduced)
        else:
            merged.append((size, is_reduced))
    if not any(is_reduced for _, is_reduced in merged):
        yield Lines(1, 1, math.prod(sizes))
    for at in reversed(range(len(merged))):
        size, is_reduced = merged[at]
        if not is_reduced:
            continue
        outer = math.prod(size for size, _ in merged[:at])
        inner = math.prod(size for size, is_reduced in merged[at:] if not is_reduced)
        parts = _parts(kernels, outer * inner, size)
        if parts > 1:
            yield Lines(outer * parts, size // parts, inner)
        yield Lines(outer, parts if parts > 1 else size, inner)


def _parts(kernels: Kernels, lines: int, size: int) -> int:
    """Return into how many parts long lines are cut, where there are too few for the device."""
    wanted = 4 * kernels.compute_units // max(lines, 1)
    return next((parts for parts in range(min(wanted, size // _LONG), 1, -1) if size % parts == 0), 1)
