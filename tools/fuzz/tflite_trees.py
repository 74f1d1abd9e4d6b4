"""Read a .tflite file as the tree of its tables, which the builder of the tests writes again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from tflite_parser.tests.tflite_making import Tree

from dovetail_tflite.flatbuffer import Table
from dovetail_tflite.schema import OPTIONS, OPTIONS_2, TABLES

UNIONS = {
    "builtin_options": OPTIONS,
    "builtin_options2": OPTIONS_2,
    "array_segments": {1: "Int32Vector", 2: "Uint16Vector", 3: "Uint8Vector"},
    "array_indices": {1: "Int32Vector", 2: "Uint16Vector", 3: "Uint8Vector"},
    "details": {2: "BlockwiseQuantization"},
}
"""Tables of a union by the number in the field of its name and `_type`."""


def fields(table: str) -> dict[str, str]:
    """Return the types of a table's fields by name."""
    parts = (text.partition("=")[0].partition(":") for text in TABLES[table].split())
    return {name: kind for name, _, kind in parts if name != "-"}


def decoded(data: bytes) -> Tree:
    """Return the tree of a sound file.

    Raises:
        BrokenFile: It is not sound.
    """
    return _tree(Table.root(np.frombuffer(data, np.uint8), "Model"))


def _tree(table: Table) -> Tree:
    found = {name: _value(table, name, kind) for name, kind in fields(table.name).items() if table.has(name)}
    return {name: value for name, value in found.items() if value is not None}


def _value(table: Table, name: str, kind: str) -> Any:
    if kind == "string":
        return table.text(name)
    if kind == "union":
        number = table.number("details_type" if name == "details" else f"{name}_type")
        of = UNIONS[name].get(number)
        below = table.table(name, of) if of else None
        return None if below is None else (of, _tree(below))
    if kind in TABLES:
        below = table.table(name)
        return None if below is None else _tree(below)
    if kind[1:-1] in TABLES:
        entries = table.tables(name)
        return [_tree(entries[number]) for number in range(len(entries))]
    if kind == "[u8]":
        return table.view(name).tobytes()
    return table.vector(name).tolist() if kind.startswith("[") else table.number(name)


def tables(tree: Tree, name: str = "Model", seen: set[int] | None = None) -> Iterator[tuple[str, Tree]]:
    """Walk over a tree, to each table once: their names, and they themselves."""
    seen = set() if seen is None else seen
    if id(tree) in seen:
        return
    seen.add(id(tree))
    yield name, tree
    for field, kind in fields(name).items():
        value = tree.get(field)
        if value is None:
            continue
        if kind == "union":
            yield from tables(value[1], value[0], seen)
        elif kind in TABLES:
            yield from tables(value, kind, seen)
        elif kind[1:-1] in TABLES:
            for entry in value:
                yield from tables(entry, kind[1:-1], seen)
