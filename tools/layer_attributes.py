"""Write docs/layer_attributes.md: every attribute of every kind, its type in C, its meaning.

`python -m tools.layer_attributes` writes the page. Nothing is told twice: meanings are read where
an attribute is declared, from the text below its field or from the section "Attributes" of its
class, and those of an enum's values from the comments behind them.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args

from dovetail import layers
from dovetail.graph.descriptor import Descriptor
from dovetail.graph.element_types import DType
from dovetail.graph.tensor import DataLayout, Quantization
from dovetail.native.attribute_types import AttributeType, annotated_type, choices, element_type, fields, list_of

PAGE = Path(__file__).resolve().parents[1] / "docs" / "layer_attributes.md"
_QUANTIZATION = (
    (
        "scale",
        "FLOATS",
        "real = scale * (q - zero_point): one number, or one per index of `axis`",
    ),
    ("zero_point", "INTS", "as many as there are scales"),
    ("axis", "INT or NONE", "the axis that the scales lie along; NONE: one scale for all"),
)
_HEAD = """\
# Attributes of layers, as C sees them

Generated, do not edit; a test keeps it up to date. To make it anew, in the root of the repository:

    python -m tools.layer_attributes

A layer crosses the C table as a `dovetail_layer` of `abi.h`; each attribute is a `dovetail_attribute` of one of
the types below. *or NONE*: the attribute may be absent. Where several types stand, the model decides. Enums and
element types cross as strings; [what their values mean](#values) stands at the end. *since* is the version of the
kind that brought the attribute: a backend that lists an older one in `kind_versions` only sees layers whose younger
attributes are at their default.

Axes count from 0; a negative one counts from the end. Value inputs, such as the target shape of a reshape, are
constants by the time that a backend is asked: their values are the attributes of the same meaning.
"""


def documentation() -> str:
    """Return the page."""
    lines = [_HEAD]
    enums: dict[type[Enum], None] = {}
    for kind in sorted(kinds(), key=lambda one: one.kind):
        inputs = ", ".join(name if i < kind.required_inputs else f"[{name}]" for i, name in enumerate(kind.input_names))
        lines += [f"## {kind.kind} (version {kind.version})", "", *_paragraphs(kind)]
        lines += [f"Slots: {inputs or 'none'}{', ...' if kind.variadic else ''}.", ""]
        rows = list(_rows(kind, enums))
        head = ["| attribute | type | since | default | meaning |", "|---|---|---|---|---|"]
        lines += [*head, *rows, ""] if rows else ["No attributes.", ""]
    lines += ["# Values", ""]
    for enum in sorted(enums, key=lambda one: one.__name__):
        lines += [f"## {enum.__name__}", "", *_paragraphs(enum), "| value | meaning |", "|---|---|"]
        said = value_meanings(enum)
        lines += [*(f"| `{member.value}` | {said.get(member.name, '')} |" for member in enum), ""]
    return "\n".join(lines)


def kinds() -> list[type[Descriptor]]:
    """Return all kinds of the core that backends may meet."""
    for module in pkgutil.iter_modules(layers.__path__):
        importlib.import_module(f"{layers.__name__}.{module.name}")
    found: list[type[Descriptor]] = []
    waiting: list[type[Descriptor]] = [Descriptor]
    for one in waiting:
        waiting += one.__subclasses__()
        if one.kind and one.__module__.startswith(f"{layers.__name__}.") and one not in found:
            found.append(one)
    return found


def meanings(kind: type[Any]) -> dict[str, str]:
    """Return what the attributes of a kind mean, by name, from where they are declared."""
    found: dict[str, str] = {}
    for declaring in reversed(kind.__mro__[:-1]):
        if dataclasses.is_dataclass(declaring):
            found |= _below_fields(declaring) | _in_section(declaring)
    return found


def value_meanings(enum: type[Enum]) -> dict[str, str]:
    """Return the comments behind the members of an enum, by name."""
    pattern = re.compile(r"^\s+([A-Z][A-Z0-9_]*) = [^#\n]*#\s*(.+)$", re.MULTILINE)
    return {name: _cell(text) for name, text in pattern.findall(inspect.getsource(enum))}


def _below_fields(kind: type[Any]) -> dict[str, str]:
    (definition,) = ast.parse(inspect.cleandoc(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and _is_text(text):
            found[field.target.id] = _cell(ast.literal_eval(text.value))  # type: ignore[attr-defined]  # it is a text
    return found


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _in_section(kind: type[Any]) -> dict[str, str]:
    """Read a docstring's section "Attributes"; an entry may be several, as "size, stride: ..."."""
    section = re.search(r"^Attributes:\n((?:    .*\n?|\n)+)", inspect.cleandoc(kind.__doc__ or "") + "\n", re.MULTILINE)
    if section is None:
        return {}
    entries = re.findall(r"^    ([a-z_, ]+): (.*(?:\n     .*)*)", section[1], re.MULTILINE)
    return {name.strip(): _cell(text) for names, text in entries for name in names.split(",")}


def _paragraphs(kind: type[Any]) -> list[str]:
    """Return the docstring without its sections, as Markdown."""
    text = inspect.cleandoc(kind.__doc__ or "")
    text = re.split(r"^(?:Attributes|Class attributes):$", text, maxsplit=1, flags=re.MULTILINE)[0]
    return [*text.strip().splitlines(), ""]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _rows(kind: type[Descriptor], enums: dict[type[Enum], None]) -> Iterator[str]:
    said = meanings(kind)
    defaults = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]  # kinds are dataclasses
    for name, hint, since in fields(kind):
        if hint is Quantization:
            yield from (f"| {name}.{part} | {type_} | {since} | | {meaning} |" for part, type_, meaning in _QUANTIZATION)
            continue
        enums.update(
            (one, None) for one in choices(hint) if isinstance(one, type) and issubclass(one, Enum) and one is not DType
        )
        yield f"| {name} | {type_text(hint)} | {since} | {_default_text(defaults[name])} | {said.get(name, '')} |"


def type_text(hint: Any) -> str:
    """Return the types of an annotation, as C sees them."""
    texts = []
    for one in choices(hint):
        if one is type(None):
            texts.append("NONE")
            continue
        element = element_type(one)
        kind: AttributeType | None = list_of(element) if element is not None else annotated_type(one)
        text = "TENSOR" if kind is None else kind.name
        if one is DType:
            text += ": an element type, such as `float32`"
        elif one is DataLayout or (isinstance(one, type) and issubclass(one, Enum)):
            text += f": {one.__name__}"
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


if __name__ == "__main__":
    PAGE.write_text(documentation(), "utf-8")
    sys.stdout.write(f"wrote {PAGE}\n")
