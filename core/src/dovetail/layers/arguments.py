"""Arguments of builder methods: numbers, sequences and choices, checked and made uniform."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ..graph.layer import OutputSlot
from .shape_rules import attribute_error

Operand: TypeAlias = OutputSlot | npt.ArrayLike
"""A slot, or anything NumPy makes an array of: it becomes a constant."""
_Choice = TypeVar("_Choice", bound=Enum)


def choice(options: type[_Choice], value: Any, what: str) -> _Choice:
    """Read a member of an enum, or its value.

    Raises:
        GraphError: There is none such (`ATTRIBUTE_INVALID`); the hint lists all.
    """
    try:
        return options(value)
    except ValueError:
        allowed = ", ".join(repr(member.value) for member in options)
        raise attribute_error(f"{what} is {value!r}", f"use one of {allowed}") from None


def integer(value: Any, what: str) -> int:
    """Read an integer; neither a bool nor a float is one."""
    try:
        if not isinstance(value, bool | np.bool_):
            return operator.index(value)
    except TypeError:
        pass
    raise attribute_error(f"{what} is {value!r} ({type(value).__name__})", "give an integer")


def number(value: Any, what: str) -> float:
    """Read a real number."""
    try:
        if not isinstance(value, str | bytes):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise attribute_error(f"{what} is {value!r} ({type(value).__name__})", "give a number")


def sequence(value: Any, what: str) -> tuple[Any, ...]:
    """Read a sequence of anything; a text is none."""
    try:
        if not isinstance(value, str | bytes):
            return tuple(value)
    except TypeError:
        pass
    raise attribute_error(f"{what} is {value!r} ({type(value).__name__})", "give a sequence")


def as_tuple(value: int | Iterable[int] | None, what: str) -> tuple[int, ...] | None:
    """Read None, one integer, or several."""
    return None if value is None else integers(value, what)


def pair(value: int | Sequence[int], what: str) -> tuple[int, int]:
    """Read an integer or two of them: (height, width)."""
    values = integers(value, what, 2)
    if len(values) != 2:
        raise attribute_error(f"{what} must be one integer or (height, width), got {value!r}")
    return values[0], values[1]


def integers(value: Any, what: str, times: int = 1) -> tuple[int, ...]:
    """Read several integers, or one that stands for `times` equal ones.

    Raises:
        GraphError: They are something else (`ATTRIBUTE_INVALID`).
    """
    single = isinstance(value, str | bytes) or (isinstance(value, np.ndarray) and value.ndim == 0)
    if isinstance(value, Iterable) and not single:
        return tuple(integer(v, f"{what}[{i}]") for i, v in enumerate(value))
    return (integer(value, what),) * times
