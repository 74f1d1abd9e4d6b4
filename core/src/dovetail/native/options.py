"""Options of a table, as a dataclass that users give by name."""

from __future__ import annotations

import dataclasses
import keyword
from typing import Any

from ..ground.errors import OptionError
from . import questions
from .attribute_types import ADAPTER_OPTIONS, AttributeType, option_rows
from .table import Table

_SCALARS: dict[AttributeType, type[Any]] = {
    AttributeType.BOOL: bool,
    AttributeType.INT: int,
    AttributeType.FLOAT: float,
    AttributeType.STRING: str,
}
_LISTS = {
    AttributeType.INTS: tuple[int, ...],
    AttributeType.FLOATS: tuple[float, ...],
    AttributeType.STRINGS: tuple[str, ...],
}


def options_type(table: Table) -> type[Any]:
    """Return a frozen dataclass with the options of a table and `artefacts`.

    `artefacts` is the folder for what was compiled ("": none). An instance has values that can
    cross into C; making it of others is an `OptionError`.

    Raises:
        BackendError: An option has no usable name, or one twice (`BACKEND_CONTRACT`).
    """
    fields: list[tuple[str, Any, Any]] = []
    for name, kind, values, description in questions.options(table):
        is_usable = name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")
        if not is_usable or name in ADAPTER_OPTIONS or name in [field for field, *_ in fields]:
            raise table.broken(f"has an option named {name!r}, which is taken, or no name that Python lets users write")
        default = values[0] if kind in _SCALARS else tuple(values)
        fields.append(
            (name, _SCALARS.get(kind) or _LISTS[kind], dataclasses.field(default=default, metadata={"text": description}))
        )
    artefacts = dataclasses.field(default="", metadata={"text": "folder that keeps what was compiled; empty: none"})

    def check(options: Any) -> None:
        try:
            option_rows(options)
        except OptionError as error:
            error.details["backend"] = table.id
            error.message = f"backend {table.id}: {error.message}"
            raise

    return dataclasses.make_dataclass(
        f"{table.id}Options", [*fields, ("artefacts", str, artefacts)], frozen=True, namespace={"__post_init__": check}
    )
