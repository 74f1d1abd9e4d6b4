"""How attributes cross into C: which type of `abi.h` each has, and its values.

A field's annotation decides, not its value, so that `alpha=1` crosses as the float that it stands for. Enums and element types
cross as strings. `None` is its own type: an attribute that is not given. An array is a tensor. A quantization has no type of
its own: it becomes three attributes, `<name>.scale`, `<name>.zero_point` and `<name>.axis`. The value of a fill or a pad, which
may be of any type, crosses as what it is.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator, Mapping
from enum import Enum, IntEnum
from functools import cache
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np

from ..descriptor import Descriptor
from ..errors import ErrorCode, GraphError
from ..tensor import DType, Quantization


class AttributeType(IntEnum):
    """`DOVETAIL_ATTRIBUTE_...` of `abi.h`."""

    NONE = 0
    BOOL = 1
    INT = 2
    FLOAT = 3
    STRING = 4
    INTS = 5
    FLOATS = 6
    STRINGS = 7
    TENSOR = 8


LISTS = {
    AttributeType.INT: AttributeType.INTS,
    AttributeType.FLOAT: AttributeType.FLOATS,
    AttributeType.STRING: AttributeType.STRINGS,
}


class Attribute(NamedTuple):
    """One attribute as C sees it.

    Attributes:
        name: Its name.
        type: Its type.
        values: Its values, of which a scalar has one; of a tensor the array.
        since: Version of the kind that brought it.
    """

    name: str
    type: AttributeType
    values: Any
    since: int = 1


def attributes_of(descriptor: Descriptor) -> list[Attribute]:
    """Return the attributes of a descriptor, in order.

    Raises:
        GraphError: One has a type that cannot cross (`ATTRIBUTE_INVALID`).
    """
    hints = _hints(type(descriptor))  # type: ignore[arg-type]  # mypy takes an instance's __hash__ for its class's
    found: list[Attribute] = []
    for field in dataclasses.fields(descriptor):  # type: ignore[arg-type]  # a concrete kind is a dataclass
        value = getattr(descriptor, field.name)
        since = int(field.metadata.get("since", 1))
        if isinstance(value, Quantization):
            found += (Attribute(*part, since) for part in _quantization(field.name, value))
        else:
            try:
                found.append(Attribute(field.name, *typed(value, hints.get(field.name, Any)), since))
            except TypeError as error:
                raise GraphError(
                    f"attribute {field.name!r} of {descriptor.kind} {error}",
                    code=ErrorCode.ATTRIBUTE_INVALID,
                    hint="attributes are int, float, bool, str, enum, None, tuples of these, or a NumPy array",
                ) from None
    return found


def option_attributes(options: Mapping[str, Any], hints: Mapping[str, Any]) -> list[Attribute]:
    """Return the options of a backend, each of the type of its default."""
    return [Attribute(name, *typed(value, hints.get(name, Any))) for name, value in options.items()]


def typed(value: Any, hint: Any) -> tuple[AttributeType, Any]:
    """Return the type and the values of one attribute.

    Raises:
        TypeError: It has a type that cannot cross; the text goes on from the attribute's name.
    """
    if value is None:
        return AttributeType.NONE, []
    if isinstance(value, np.ndarray):
        return AttributeType.TENSOR, np.ascontiguousarray(value)
    if isinstance(value, tuple | list):
        scalar = _element_type(value, hint)
        if scalar not in LISTS:
            scalar = AttributeType.INT  # lists of bool
        return LISTS[scalar], [_plain(one, scalar) for one in value]
    scalar = _scalar_type(value, hint)
    return scalar, [_plain(value, scalar)]


def _scalar_type(value: Any, hint: Any) -> AttributeType:
    wanted = _alternatives(hint)
    if float in wanted and not {int, bool} & wanted and isinstance(value, int | float) and not isinstance(value, bool):
        return AttributeType.FLOAT
    if isinstance(value, Enum | str):
        return AttributeType.STRING
    if isinstance(value, bool | np.bool_):
        return AttributeType.BOOL
    if isinstance(value, int | np.integer):
        return AttributeType.INT
    if isinstance(value, float | np.floating):
        return AttributeType.FLOAT
    raise TypeError(f"is {value!r}, whose type {type(value).__name__} cannot cross into C")


def _element_type(values: Any, hint: Any) -> AttributeType:
    inner: Any = next((get_args(one)[0] for one in _alternatives(hint) if get_origin(one) is tuple and get_args(one)), Any)
    found = {_scalar_type(value, inner) for value in values}
    if not found:
        wanted = _alternatives(inner)
        return AttributeType.FLOAT if float in wanted else AttributeType.STRING if str in wanted else AttributeType.INT
    if len(found) > 1 and found <= {AttributeType.INT, AttributeType.FLOAT}:
        return AttributeType.FLOAT
    if len(found) > 1:
        raise TypeError(f"is {values!r}, which mixes types")
    return found.pop()


def _plain(value: Any, scalar: AttributeType) -> Any:
    if scalar is AttributeType.STRING:
        return value.label if isinstance(value, DType) else str(value.value if isinstance(value, Enum) else value)
    return float(value) if scalar is AttributeType.FLOAT else int(value)


def _quantization(name: str, value: Quantization) -> Iterator[tuple[str, AttributeType, Any]]:
    yield f"{name}.scale", AttributeType.FLOATS, list(value.scale)
    yield f"{name}.zero_point", AttributeType.INTS, list(value.zero_point)
    yield f"{name}.axis", *((AttributeType.NONE, []) if value.axis is None else (AttributeType.INT, [value.axis]))


def _alternatives(hint: Any) -> set[Any]:
    return set(get_args(hint)) if get_origin(hint) in (Union, types.UnionType) else {hint}


@cache
def _hints(kind: type[Descriptor]) -> Mapping[str, Any]:
    try:
        return get_type_hints(kind)
    except (NameError, TypeError):  # a vendor's annotation that cannot be evaluated here: the values decide
        return {}
