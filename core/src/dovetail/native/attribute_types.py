"""How the attributes of a kind cross into C: the name, type and age of each.

The type follows the annotation of the field, so that an empty tuple or a whole number in a list of floats is no other type than
usual; only where an annotation leaves a choice (``float | int``) does the value decide.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from enum import Enum, IntEnum
from functools import cache
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from ..contract.artefacts import OPTION
from ..graph.descriptor import Descriptor
from ..graph.tensor import DType, Quantization
from ..ground.errors import BackendError, ErrorCode


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
    """Return (name, type, since, values) of each attribute; `values` is a list, or an array for a tensor.

    Raises:
        BackendError: A value cannot cross into C.
    """
    rows: list[Row] = []
    for name, hint, since in _fields(type(descriptor)):
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
            except (TypeError, OverflowError) as error:
                raise BackendError(
                    f"attribute {name!r} of {descriptor.kind} is {value!r}, which cannot cross into C: {error}",
                    code=ErrorCode.ATTRIBUTE_INVALID,
                    hint="attributes are bool, int of 64 bits, float, str, enum, None, tuples of these, or a NumPy array",
                ) from error
    return rows


def option_rows(options: Any) -> list[Row]:
    """Return the same of an options dataclass, but for `ADAPTER_OPTIONS`."""
    return [
        (name, *_converted(getattr(options, name), hint, since))
        for name, hint, since in _fields(type(options))
        if name not in ADAPTER_OPTIONS
    ]


def fact_rows(facts: Mapping[str, Any]) -> list[Row]:
    """Return the same of the facts of a device."""
    return [(name, *_converted(value, Any, 1)) for name, value in facts.items()]


def _fields(kind: Any) -> tuple[tuple[str, Any, int], ...]:
    return _fields_once(kind)  # through Any: mypy takes a class whose instances define __hash__ for unhashable


@cache
def _fields_once(kind: Any) -> tuple[tuple[str, Any, int], ...]:
    hints = get_type_hints(kind)
    fields = dataclasses.fields(kind)
    return tuple((f.name, hints[f.name], f.metadata.get("since", 1)) for f in fields)


def _converted(value: Any, hint: Any, since: int) -> tuple[AttributeType, int, Any]:
    if value is None:
        return AttributeType.NONE, since, []
    if isinstance(value, np.ndarray):
        return AttributeType.TENSOR, since, value
    if isinstance(value, tuple | list):
        element = next((t for t in map(_list_type, _choices(hint)) if t is not None), None)
        one = element or (_scalar_type(value[0], Any) if value else AttributeType.INT)
        return _LISTS[one], since, [_plain(v, one) for v in value]
    one = _scalar_type(value, hint)
    return one, since, [_plain(value, one)]


def _choices(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _list_type(hint: Any) -> AttributeType | None:
    """Type of the elements of an annotated tuple; None for anything else."""
    if get_origin(hint) is not tuple:
        return None
    found = [t for t in map(_annotated_type, get_args(hint)) if t is not None]
    return AttributeType.FLOAT if AttributeType.FLOAT in found else found[0] if found else None


def _annotated_type(hint: Any) -> AttributeType | None:
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
    annotated = {t for t in map(_annotated_type, _choices(hint)) if t is not None}
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
        return value.label if isinstance(value, DType) else str(value.value if isinstance(value, Enum) else value)
    if kind is AttributeType.FLOAT:
        return float(value)
    number = int(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError("it does not fit 64 bits")
    return number


def write(path: str) -> None:
    """Write the page of `documentation`."""
    Path(path).write_text(documentation(), "utf-8")


def documentation() -> str:
    """Return the page that lists every attribute of every kind, in Markdown: `docs/layer_attributes.md`."""
    lines = [
        "# Attributes of layers, as C sees them",
        "",
        "Generated, do not edit; a test keeps it up to date. To make it anew, in the root of the repository:",
        "",
        "    python -c \"from dovetail.native.attribute_types import write; write('docs/layer_attributes.md')\"",
        "",
        "A layer crosses the C table as a `dovetail_layer` of `abi.h`; each attribute is a `dovetail_attribute` of one of",
        "the types below. *or NONE*: the attribute may be absent. Where several types stand, the model decides. Enums and",
        "element types cross as strings. *since* is the version of the kind that brought the attribute: a backend that lists",
        "an older one in `kind_versions` only sees layers whose younger attributes are at their default.",
        "",
    ]
    for kind in sorted(_kinds(), key=lambda one: one.kind):
        inputs = ", ".join(name if i < kind.required_inputs else f"[{name}]" for i, name in enumerate(kind.input_names)) + (
            ", ..." if kind.variadic else ""
        )
        lines += [f"## {kind.kind} (version {kind.version})", "", f"Inputs: {inputs or 'none'}.", ""]
        defaults = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]  # kinds are dataclasses
        rows = []
        for name, hint, since in _fields(kind):
            if hint is Quantization:
                rows += [f"| {name}.scale | FLOATS | {since} | |", f"| {name}.zero_point | INTS | {since} | |",
                         f"| {name}.axis | INT or NONE | {since} | |"]  # fmt: skip
                continue
            rows.append(f"| {name} | {_type_text(hint)} | {since} | {_default_text(defaults[name])} |")
        lines += ["| attribute | type | since | default |", "|---|---|---|---|", *rows, ""] if rows else ["No attributes.", ""]
    return "\n".join(lines)


def _kinds() -> list[type[Descriptor]]:
    import importlib
    import pkgutil

    from .. import layers

    for module in pkgutil.iter_modules(layers.__path__):
        importlib.import_module(f"{layers.__name__}.{module.name}")
    found: list[type[Descriptor]] = []
    waiting: list[type[Descriptor]] = [Descriptor]
    for one in waiting:
        waiting += one.__subclasses__()
        if one.kind and one.__module__.startswith(f"{layers.__name__}.") and one not in found:
            found.append(one)
    return found


def _type_text(hint: Any) -> str:
    texts = []
    for one in _choices(hint):
        if one is type(None):
            texts.append("NONE")
            continue
        element = _list_type(one)
        kind = _LISTS[element] if element is not None else _annotated_type(one)
        text = "TENSOR" if kind is None else kind.name
        if isinstance(one, type) and issubclass(one, Enum) and one is not DType:
            text += ": " + ", ".join(f"`{member.value}`" for member in one)
        elif one is DType:
            text += ": an element type, such as `float32`"
        elif element is not None and Ellipsis not in get_args(one):
            text += f" of {len(get_args(one))}"
        texts.append(text)
    return " or ".join(texts)


def _default_text(field: dataclasses.Field[Any]) -> str:
    if field.default is dataclasses.MISSING:
        return "required" if field.default_factory is dataclasses.MISSING else "derived"
    value = field.default
    value = list(value) if isinstance(value, tuple) else value
    return "NONE" if value is None else f"`{value.label if isinstance(value, DType) else value}`"
