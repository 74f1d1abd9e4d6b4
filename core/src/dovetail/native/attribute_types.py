"""How the attributes of a kind cross into C: the name, type and age of each.

The type follows the annotation of the field, so that an empty tuple or a whole number in a list of
floats is no other type than usual; only where an annotation leaves a choice (``float | int``) does
the value decide.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from enum import Enum, IntEnum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from ..contract.artefacts import OPTION
from ..graph.descriptor import Descriptor
from ..graph.element_types import DType
from ..graph.tensor import Quantization
from ..ground.errors import BackendError, ErrorCode, OptionError
from ..ground.foreign_text import shown


class AttributeType(IntEnum):
    """Types of `dovetail_attribute`; the numbers are those of abi.h."""

    NONE = 0
    BOOL = 1
    INT = 2
    FLOAT = 3
    STRING = 4
    INTS = 5
    FLOATS = 6
    STRINGS = 7
    TENSOR = 8


_LISTS = {
    AttributeType.BOOL: AttributeType.INTS,
    AttributeType.INT: AttributeType.INTS,
    AttributeType.FLOAT: AttributeType.FLOATS,
    AttributeType.STRING: AttributeType.STRINGS,
}
ADAPTER_OPTIONS = (OPTION,)
"""Options that the adapter itself reads; no table sees them."""

Row = tuple[str, AttributeType, int, Any]


def attribute_rows(descriptor: Descriptor) -> list[Row]:
    """Return (name, type, since, values) of each attribute.

    `values` is a list, or an array for a tensor.

    Raises:
        BackendError: A value cannot cross into C.
    """
    rows: list[Row] = []
    for name, hint, since in fields(type(descriptor)):
        value = getattr(descriptor, name)
        if isinstance(value, Quantization):
            rows += [
                (f"{name}.scale", AttributeType.FLOATS, since, list(value.scale)),
                (f"{name}.zero_point", AttributeType.INTS, since, list(value.zero_point)),
                (f"{name}.axis", *_converted(value.axis, int | None, since)),
            ]
        else:
            try:
                rows.append((name, *_converted(value, hint, since)))
            except (TypeError, ValueError, OverflowError) as error:
                raise BackendError(
                    f"attribute {name!r} of {descriptor.kind} is {value!r}, which cannot cross into C: {error}",
                    code=ErrorCode.ATTRIBUTE_INVALID,
                    hint="attributes are bool, int of 64 bits, float, str, enum, None, tuples of these, or a NumPy array",
                ) from error
    return rows


def option_rows(options: Any) -> list[Row]:
    """Return the same of an options dataclass, but for `ADAPTER_OPTIONS`.

    Raises:
        OptionError: A value cannot cross into C (`OPTION_INVALID`).
    """
    rows: list[Row] = []
    for name, hint, since in fields(type(options)):
        if name not in ADAPTER_OPTIONS:
            value = getattr(options, name)
            try:
                rows.append((name, *_converted(value, hint, since)))
            except (TypeError, ValueError, OverflowError) as error:
                raise OptionError(
                    f"option {name!r} is {shown(value)}: {error}",
                    code=ErrorCode.OPTION_INVALID,
                    hint="give a whole number of 64 bits, or text without a NUL that UTF-8 can hold",
                    option=name,
                ) from error
    return rows


def fact_rows(facts: Mapping[str, Any]) -> list[Row]:
    """Return the same of the facts of a device."""
    return [(name, *_converted(value, Any, 1)) for name, value in facts.items()]


def fields(kind: Any) -> tuple[tuple[str, Any, int], ...]:
    """Return (name, annotation, since) of each attribute of a kind."""
    return _fields_once(kind)  # through Any: mypy takes a class whose instances define __hash__ for unhashable


@cache
def _fields_once(kind: Any) -> tuple[tuple[str, Any, int], ...]:
    hints = get_type_hints(kind)
    return tuple((f.name, hints[f.name], f.metadata.get("since", 1)) for f in dataclasses.fields(kind))


def list_of(element: AttributeType) -> AttributeType:
    """Return the type of a list of elements of a type."""
    return _LISTS[element]


def _converted(value: Any, hint: Any, since: int) -> tuple[AttributeType, int, Any]:
    if value is None:
        return AttributeType.NONE, since, []
    if isinstance(value, np.ndarray):
        return AttributeType.TENSOR, since, value
    if isinstance(value, tuple | list):
        element = next((t for t in map(element_type, choices(hint)) if t is not None), None)
        one = element or (_scalar_type(value[0], Any) if value else AttributeType.INT)
        return _LISTS[one], since, [_plain(v, one) for v in value]
    one = _scalar_type(value, hint)
    return one, since, [_plain(value, one)]


def choices(hint: Any) -> tuple[Any, ...]:
    """Return the alternatives of an annotation."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def element_type(hint: Any) -> AttributeType | None:
    """Type of the elements of an annotated tuple; None for anything else."""
    if get_origin(hint) is not tuple:
        return None
    found = [t for t in map(annotated_type, get_args(hint)) if t is not None]
    return AttributeType.FLOAT if AttributeType.FLOAT in found else found[0] if found else None


def annotated_type(hint: Any) -> AttributeType | None:
    """Return the type of an annotated number, text or enum; None of anything else."""
    if not isinstance(hint, type):
        return None
    if issubclass(hint, Enum):
        return AttributeType.STRING
    return next(
        (t for c, t in ((bool, AttributeType.BOOL), (int, AttributeType.INT), (float, AttributeType.FLOAT),
                        (str, AttributeType.STRING)) if issubclass(hint, c)),
        None,
    )  # fmt: skip


def _scalar_type(value: Any, hint: Any) -> AttributeType:
    annotated = {t for t in map(annotated_type, choices(hint)) if t is not None}
    if len(annotated) == 1:
        return annotated.pop()
    if isinstance(value, str | Enum):
        return AttributeType.STRING
    if isinstance(value, bool | np.bool_):
        return AttributeType.BOOL
    if isinstance(value, int | np.integer):
        return AttributeType.INT
    if isinstance(value, float | np.floating):
        return AttributeType.FLOAT
    raise TypeError(f"{type(value).__name__} is no type of an attribute")


def _plain(value: Any, kind: AttributeType) -> Any:
    if kind is AttributeType.STRING:
        text = value.label if isinstance(value, DType) else str(value.value if isinstance(value, Enum) else value)
        if "\0" in text:
            raise ValueError("text with a NUL ends there for C")
        if not text.isascii():
            text.encode()
        return text
    if kind is AttributeType.FLOAT:
        return float(value)
    number = int(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError("it does not fit 64 bits")
    return number
